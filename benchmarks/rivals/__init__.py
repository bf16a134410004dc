"""Rivals beside which the demos run surescale: KEDA by lag, HorizontalPodAutoscaler by CPU, and Flink's own autoscaler.

Consumer groups, on the demo's own workers:

horizontal   the HorizontalPodAutoscaler's arithmetic: replicas from a metric, stabilisation, rates, bounds. Pure
lag          KEDA's metric of a consumer group: its total lag, as its Kafka scaler reports it
cpu_request  how much CPU a busy worker uses, so that its pod can request it
cpu          what the metrics server tells: CPU that each worker has used
run          the loop around them, as a process beside the demo: reads, decides, asks for another number of workers

Flink:

flink_peer   upstream's library with a job of its own; `UpstreamAutoscaler.java` is the loop around it

Neither Kubernetes nor KEDA runs here. The arithmetic is written after their documentation and sources; a period of theirs is
divided by the speed of the demo's clock, as surescale's own are.
"""
