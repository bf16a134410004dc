"""Tests of engines.processes."""
