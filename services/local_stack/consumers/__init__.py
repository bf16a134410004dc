"""Chains of real consumer groups on this machine, scaled by surescale and its rivals through worker processes.

worker             one member: a plain Kafka client with work for each record
consumers_pipeline all of it as one object
"""
