"""The state of the pipeline as a view in Redis: `write` keeps it up to date, `read` answers from it over HTTP and in commands.

Kafka is the truth: the view may be flushed at any time and is then rebuilt. No decision depends on it.
"""
