"""Reference pages generated from code: messages with their JSON Schema, topics, settings, metrics, commands."""
