"""A right that a role loses while it runs, and gets back."""

from collections.abc import Sequence

from tests.support.attacked_consumer import Consumer
from tests.support.rescaler_pipeline import health
from tests.support.secure_broker import AuthorizingBroker
from tests.support.waiting import wait_until

WITHIN_S = 120.0
COMMAND = "`surescale topics acls`"


def lose_and_regain(
    consumer: Consumer, broker: AuthorizingBroker, rights: Sequence[dict[str, str]], topic: str, operation: str
) -> None:
    """Take a right from a role that works: it must name topic and command, not be ready, and go on once it has it again.

    ``rights`` are the role's, as ``surescale topics acls --json`` prints them; ``topic`` is the full name.
    """
    lost = [each for each in rights if (each["name"], each["operation"]) == (topic, operation)]
    before = len(consumer.log())
    broker.revoke(lost)
    if operation == "Write":  # a mere writer notices when it writes
        consumer.rounds += 1
        consumer.send_good()

    def has_said_so() -> bool:
        said = [line for line in consumer.log()[before:].splitlines() if topic in line and "uthoriz" in line]
        return any(COMMAND in line for line in said) and not (health(consumer.settings.health_port) or {}).get("ready")

    wait_until(has_said_so, WITHIN_S, f"the {consumer.role} to say that it may not {operation} {topic}")
    broker.grant(lost)
    if operation == "Write":
        wait_until(consumer.has_handled, WITHIN_S, f"the {consumer.role} to write what it could not")
    wait_until(
        lambda: bool((health(consumer.settings.health_port) or {}).get("ready")), WITHIN_S, f"the {consumer.role} to be ready"
    )
