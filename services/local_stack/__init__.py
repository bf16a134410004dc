"""The local stack: everything on one machine, each part a process of its own.

Processes:
    child_process     one command that is started and followed until its end
    process_group     the wrapper around that command: a program that kills the whole group when its starter is gone
    supervisor        starts roles in order, watches them, stops them in reverse order
    janitor           a program that removes the supervisor's temporary folder when the supervisor was killed

Servers, from installed packages:
    servers           a Kafka broker and a Redis server
    java              finds a Java runtime
    artifacts         fetches jars into a cache, checked against a lock
    lock_jars         writes `locks/`: names, versions, hashes (for maintainers)
    ivy               runs the Ivy inside pyspark
    flink/            a real Flink: distribution, session cluster, job, and such a pipeline

The pipeline:
    pipeline          what every pipeline here has: supervisor, Kafka, Redis, the state service's answers
    roles             the roles as supervised processes: command, settings, when ready
    local_pipeline    servers, simulated engine, roles and twins as one object
    pipeline_figures  counts what happened in a pipeline, from Kafka
    demo_report       the report of a demo, and what it prints
    comparison/       jobs on a real engine under one load, compared from outside: ``surescale demo flink``, ``demo consumers``
    consumers/        such a pipeline with consumer groups of Kafka

Commands:
    demo_command      ``surescale demo``
    demo_run          what all demos do: bring a pipeline up, play, print, leave nothing behind
    up_command        ``surescale up``
    replay_command    ``surescale recording replay``, with replay_through_spark for ``--through spark``
"""
