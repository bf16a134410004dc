"""Decides again on the window of a decision, as it was or with something left out. For the command line and the HTTP API."""
