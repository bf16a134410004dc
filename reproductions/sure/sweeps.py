"""The values figure 4 sweeps, and its job. Kept apart from training, so that drawing works without torch."""

FIGURE_4_JOB = "j_3380530"  # Large-1
ANCHORS = (5, 10, 15, 20)
LAMBDAS = (0.1, 0.3, 0.5, 0.7, 0.9)
