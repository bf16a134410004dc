"""Clients of engines, used by the monitor and the rescaler's actuators, which do not import each other.

    flink       the REST API of Apache Flink: answers, graphs, identities, requirements
    groups      consumer groups of Kafka: which form a job, what the broker and their members tell
    kafka       how far topics have grown, asked of their broker
    processes   worker processes on this machine: required, started, kept running, drained
    access      what a client shows and checks when it connects: token, authorities, certificate

Decides nothing and knows no topic.
"""
