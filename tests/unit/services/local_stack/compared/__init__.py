"""Tests of services.local_stack.compared."""
