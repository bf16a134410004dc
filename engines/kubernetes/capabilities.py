"""What workloads of a Kubernetes cluster can do."""

from contracts.capabilities import Capabilities

KUBERNETES = Capabilities(
    engine="kafka",
    acts="counts",
    places="itself",
    takes_part="as many as fit",
    takes_effect="rolling",
    stabilization_ms=30_000,
    remembers="requirement",
    can_withdraw=True,
)
"""Pods come and go one by one, as many as nodes and quotas hold; nobody says how many that are before they are asked for.

The time is ours: pods that have not moved for so long are reported as a part.
"""
