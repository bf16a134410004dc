"""A plan by counts, for engines that are asked for a parallelism and choose the places themselves."""
