"""Where figures come from: one port, one module per kind of engine."""
