"""Faults: a pipeline that can be hurt, and a checker of what it left behind that shares no code with the product."""
