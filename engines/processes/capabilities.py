"""What worker processes on this machine can do."""

from contracts.capabilities import Capabilities

PROCESSES = Capabilities(
    engine="kafka",
    acts="counts",
    places="itself",
    takes_part="as many as fit",
    takes_effect="rolling",
    stabilization_ms=2_000,
    remembers="requirement",
    can_withdraw=True,
)
"""Workers come and go one by one, as many as the machine can hold; a change is withdrawn by asking for another number."""

WATCHED = Capabilities(engine="kafka")
"""Consumer groups that nobody here can start workers for."""
