"""What the rescaler's control logic costs and saves, measured. Decides nothing."""
