"""What jobs of the operator can do, where Flink itself is not asked."""

from contracts.capabilities import Capabilities

OPERATED = Capabilities(
    engine="flink",
    acts="counts",
    places="itself",
    takes_part="as many as fit",
    grows_hosts=True,
    takes_effect="checkpoint",
    stabilization_ms=60_000,
    remembers="requirement",
    can_withdraw=True,
)
"""TaskManagers come as pods when slots are missing. The time is Flink's default."""
