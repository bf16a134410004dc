"""Serves the SURE paper's own policy and its rivals from packages: ONNX graphs in, a ratio per task out."""
