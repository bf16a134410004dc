"""Sources of figures: one port, one module per kind of engine."""
