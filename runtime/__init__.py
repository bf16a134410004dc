"""What every role process needs at its edge: Kafka clients, waiting with back-off, health, logs, signals.

Holds no logic of any role, and no pure room imports it.
"""
