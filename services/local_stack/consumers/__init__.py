"""A chain of real consumer groups on this machine, scaled by surescale through worker processes.

worker         one member: a plain Kafka client with work for each record
chain          the groups file of the demo
watch          what one chain does, seen from outside
road           all of it as one object
demo_command   ``surescale demo-consumers``
"""
