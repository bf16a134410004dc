"""How consumer groups are scaled today, on the demo's own workers: KEDA by lag, HorizontalPodAutoscaler by CPU.

horizontal   the HorizontalPodAutoscaler's arithmetic: replicas from a metric, stabilisation, rates, bounds. Pure
lag          KEDA's metric of a consumer group: its total lag, as its Kafka scaler reports it
cpu_request  how much CPU a busy worker uses, so that its pod can request it
cpu          what the metrics server tells: CPU that each worker has used
run          the loop around them, as a process beside the demo: reads, decides, asks for another number of workers

Neither Kubernetes nor KEDA runs here. The arithmetic is written after their documentation and sources; a period of theirs is
divided by the speed of the demo's clock, as surescale's own are.
"""
