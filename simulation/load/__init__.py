"""Simulated jobs and their load: workloads, job graphs, starting sizes."""
