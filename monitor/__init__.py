"""Publishes what engines measure to Kafka: samples, minute markers, topologies, events. Decides nothing."""
