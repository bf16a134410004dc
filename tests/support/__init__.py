"""Fixtures' helpers: builders of messages, worlds, stubs of foreign APIs, waiting. Holds no tests."""
