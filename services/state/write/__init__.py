"""Writes the view: reads Kafka, projects each record onto operations, and applies them to Redis with the offsets they cover."""
