"""Jobs on a real engine under one load, compared from outside: what the demos of Flink and of consumer groups share.

load                  a real trace with a step, sent to Kafka
watch                 what one job does, seen from outside
comparison_pipeline   Kafka, Redis, the roles and the load around the jobs
phases                how a job did after each step, and what each change waited for
demo                  ``surescale demo flink`` and ``surescale demo consumers``
"""
