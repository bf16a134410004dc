"""The simulated engine: one cluster that runs jobs and takes real commands, minute by minute."""
