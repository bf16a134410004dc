"""``surescale explain``: everything that Kafka still knows of one decision, on one screen. Reads only."""
