"""From a decision to a command and to its end: pending acts, gate, plan, outstanding commands, memory. Pure."""
