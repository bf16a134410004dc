"""``surescale recording what-if``: try other policies or settings on a recording, in a closed loop."""
