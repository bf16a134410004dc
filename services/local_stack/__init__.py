"""The local stack: everything on one machine, each part a process of its own.

Processes:
    child_process     one command that is started and followed until its end
    process_group     the wrapper around that command: a program that kills the whole group when its starter is gone
    supervisor        starts roles in order, watches them, stops them in reverse order
    janitor           a program that removes the supervisor's temporary folder when the supervisor was killed

Servers, from installed packages:
    local_server      what the broker and Redis have in common
    broker            a Kafka broker
    redis_server      a Redis server
    java              finds a Java runtime
    artifacts         fetches jars into a cache, checked against a lock
    locked_jars       the lock: names, versions, hashes
    lock_jars         writes the lock (for maintainers)
    ivy               runs the Ivy inside pyspark
    flink/            a real Flink: distribution, session cluster, job, and such a pipeline: ``surescale flink-demo``

The pipeline:
    pipeline              what every pipeline here has: supervisor, Kafka, Redis, the state service's answers
    roles             the roles as supervised processes: command, settings, when ready
    local_pipeline        servers, simulated engine, roles and twins as one object
    engine_report     asks the simulated engine for its report
    pipeline_figures      counts what happened in a pipeline, from Kafka
    rescale_figures   how its rescales went
    demo_report       the report of a demo
    demo_lines        what a demo prints
    compared/         jobs on a real engine under one load, compared from outside
    consumers/        such a pipeline with consumer groups of Kafka: ``surescale demo-consumers``

Commands:
    demo_command      ``surescale demo``
    up_command        ``surescale up``
    replay_command    ``surescale replay``, with replay_through_spark and replay_stream for ``--through spark``
"""
