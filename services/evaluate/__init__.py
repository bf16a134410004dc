"""``surescale evaluate``: any policies on any job under any workload, in the simulator, through the code that serves them."""
