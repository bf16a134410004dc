"""What would have happened to a recorded job under another policy or other settings: a closed loop in a world fitted to it."""
