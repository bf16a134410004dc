"""Tests of engines.groups."""
