"""A Flink cluster as a source: jobs, graphs, counters of each subtask, what waits in Kafka, events."""
