"""Reference pages made from code: messages with their JSON Schema, topics, settings, metrics, commands. No text by hand."""
