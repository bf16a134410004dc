"""A client of Prometheus' HTTP API, and how series become the figures of tasks and subtasks."""
