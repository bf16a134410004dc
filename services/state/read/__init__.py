"""Reads the view: queries for the HTTP API and the commands, and their output on a terminal. Writes nothing."""
