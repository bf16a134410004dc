"""Measure the roles as they run: real Kafka, real Redis, real processes on loopback."""
