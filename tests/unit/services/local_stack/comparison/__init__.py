"""Tests of services.local_stack.comparison."""
