"""What travels between the roles and what its words mean: messages, topics, identities, clock, settings.

Imports no other room of the project and does no I/O.
"""
