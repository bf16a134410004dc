"""Rule policies. Each is a few lines of arithmetic on the measured load, or a person's fixed choice."""
