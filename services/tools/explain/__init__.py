"""``surescale job explain``: everything that Kafka still knows about one decision, on one screen. Only reads."""
