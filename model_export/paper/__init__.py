"""The SURE paper (IJCAI 2022) made again: its policy, two ablations, five learned rivals, one model per job, and its tables."""
