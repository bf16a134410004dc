"""``surescale evaluate``: judge any policies on any job under any workload, in the simulator, with the code that serves them."""
