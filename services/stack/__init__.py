"""The local stack: a real Kafka broker and a real Redis server from installed packages, and a supervisor for the roles.

It knows how to find Java, fetch the jars, start and stop processes; it knows nothing of what the roles say to each other.
"""
