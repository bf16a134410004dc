"""Tests of the source of consumer groups."""
