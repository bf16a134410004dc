"""Chains of real consumer groups on this machine, scaled by surescale and its rivals through worker processes.

worker         one member: a plain Kafka client with work for each record
chain          the groups file of the demo
watch          what one chain does, seen from outside
pipeline           all of it as one object
rivals/        KEDA and HorizontalPodAutoscaler, which scale a chain of their own
demo_command   ``surescale demo-consumers``
"""
