"""The language the roles share: messages, topics, identities, clock, settings.

Imports no other room of the project and does no I/O.
"""
