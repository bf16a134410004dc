"""Fits a world to a recording of a job."""
