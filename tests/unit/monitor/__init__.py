"""Tests of the room ``monitor``."""
