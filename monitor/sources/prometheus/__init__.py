"""Prometheus as a source: an expression for each figure, asked once a minute for all tasks of a job."""
