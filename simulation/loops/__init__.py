"""Many closed loops of one job side by side, as arrays [rows, tasks], for training, calibration and the oracle. No commands."""
