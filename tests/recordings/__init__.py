"""Answers of real engines, recorded by ``record.py``, for tests without one."""
