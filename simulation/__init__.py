"""Workloads, jobs, the vectorised queueing simulator, the simulated engine's state, episodes of any policy and their reports.

Does no network I/O, reads no clock, learns nothing.
"""
