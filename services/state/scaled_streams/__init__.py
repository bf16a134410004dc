"""ScaledStreams: custom resources of a Kubernetes cluster, each with one job's settings, as a file of ``job apply`` has them.

definition  what the API server is told of them, and what it answers
plan        what they make of their jobs' settings
status      what ``kubectl get`` and ``describe`` show of a job, from the view
controller  sets jobs as the resources say, and keeps their status and events
"""
