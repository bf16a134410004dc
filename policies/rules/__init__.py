"""Rule policies: each is a few lines of arithmetic on the measured load, or a human's fixed choice."""
