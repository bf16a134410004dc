"""Parallel units: which hosts a job uses, which units on them, and which task runs where."""
