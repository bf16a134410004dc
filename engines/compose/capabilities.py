"""What the services of a Compose project can do."""

from contracts.capabilities import Capabilities

COMPOSE = Capabilities(
    engine="kafka",
    acts="counts",
    places="itself",
    takes_part="as many as fit",
    takes_effect="rolling",
    stabilization_ms=15_000,
    remembers="requirement",
    can_withdraw=True,
)
"""Containers come and go one by one, as many as this machine may hold. The time is ours, as with pods."""
