"""Tests: unit mirrors the rooms, properties state laws, integration and e2e run the real parts."""
