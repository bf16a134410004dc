"""Flink jobs that the Flink Kubernetes operator runs: their parallelism is asked for in the resource that describes them.

resource     which FlinkDeployment or FlinkSessionJob runs which job
answers      the fields of those resources that are read
overrides    how many subtasks of which vertex are asked for, in any form that the operator reads; pure
owners       who else decides that; pure
state        what the operator has made of it, what runs, and why a change cannot be asked for now; pure
requirement  what is asked for of a job, with its name and its epoch
rights       what an account must be allowed for all this
"""
