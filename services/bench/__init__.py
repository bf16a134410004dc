"""Measures the roles of the road as they run: real Kafka, real Redis, real processes on loopback. Changes nothing it measures."""
