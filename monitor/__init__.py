"""Carries what engines measure onto Kafka: samples, minute markers, topologies, events. Decides nothing."""
