"""Recordings of a road's topics, and replays: does the same policy decide the same, what would another one have decided.

Changes nothing on the road that it reads; a replay through Spark and the agent works on topics of its own.
"""
