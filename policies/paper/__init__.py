"""Serves policies of the SURE paper and its learned rivals: a direct ratio in (0, 2] per task from an ONNX package. No torch."""
