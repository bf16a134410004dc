"""Workloads, jobs, the queueing simulator, the simulated engine, closed-loop episodes of any policy, and their reports.

It does no network I/O, reads no clock and trains nothing.
"""
