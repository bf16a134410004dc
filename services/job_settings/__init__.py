"""The settings of jobs on Kafka: read to their end, checked, changed by one more record. For command line and HTTP API."""
