"""Decides what to do with a window: features, rules, learned policies, guardrails. No Kafka, no torch, no clocks."""
