"""What engines plug into: the ports of sources and actuators, and what implementations of them share."""
