"""``surescale recording calibrate``: from a recording of a job to a world that `evaluate` plays."""
