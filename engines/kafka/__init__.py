"""What Kafka knows of the topics that a job reads."""
