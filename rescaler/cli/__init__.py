"""The rescaler's commands: the process itself, and its pure parts as JSON in, JSON out."""
