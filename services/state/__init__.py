"""The state of the road as a view in Redis: one projector that writes it, an HTTP API and commands that read it.

Kafka is the truth: the view may be flushed at any moment and is then rebuilt. No decision reads it.
"""
