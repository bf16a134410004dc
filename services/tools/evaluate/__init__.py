"""``surescale policy evaluate``: judge policies on any job under any workload, in the simulator, by the code that serves."""
