"""The HTTP API of the state service in parts: its paths, their parameters, its description, its stream, who may ask, the page."""
