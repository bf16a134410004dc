"""``surescale dev bench rescale``: one rescale in three ways, in the simulator: by restart, by moving state cold, by learners."""
