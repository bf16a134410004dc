"""A tournament of policies in a twin of one job: who would have served it best over its last days, and by how much."""
