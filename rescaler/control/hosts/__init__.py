"""Hosts that join, leave or die: when to look at them, and which units and copies to move."""
