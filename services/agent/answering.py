"""From the bytes of a window to a decision. Knows no Kafka: settings come from a function, the record's place as numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contracts.errors import RecordRejected
from contracts.messages import DeadLetter, Decision, JobSettings
from contracts.windows import decode_window

if TYPE_CHECKING:
    from policies.policy import Policy

PAYLOAD_CHARACTERS = 200


class Answerer:
    """Asks the policy that a job's settings name, or else the road's, whenever one of its spans ends.

    Policies are loaded once; one that cannot be loaded answers with its reason, and the rule takes over.
    """

    def __init__(self, settings_of: Callable[[str], JobSettings], *, policy: str, folder: str, seed: int) -> None:
        self._settings_of = settings_of
        self._policy, self._folder, self._seed = policy, folder, seed
        self._loaded: dict[str, Policy] = {}

    def answer(self, raw: bytes | None) -> Decision | None:
        """Return the decision on a window, or None where no span ends.

        Raises:
            RecordRejected: the window does not parse, or its topology is no graph that can be decided on.
        """
        from policies.decide import decide
        from policies.policy import is_span_end

        window = decode_window(raw)
        settings = self._settings_of(window.job)
        asked = settings.policy or self._policy
        policy = self.policy(asked)
        if not is_span_end(window.window_end_ms, policy.span_minutes):
            return None
        return decide(window, policy, settings, seed=self._seed, asked=asked)

    def policy(self, name: str) -> "Policy":
        """Return the policy of that name, loading it the first time."""
        from policies.registry import load_policy

        if name not in self._loaded:
            self._loaded[name] = load_policy(name, self._folder)
        return self._loaded[name]


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where a record lies."""

    topic: str
    partition: int
    offset: int


def dead_letter(at: Coordinates, raw: bytes | None, error: RecordRejected) -> DeadLetter:
    """Return the record of a refusal: where the refused one lies, why, and how it begins."""
    return DeadLetter(
        topic=at.topic,
        partition=at.partition,
        offset=at.offset,
        reason=error.reason,
        field=error.field,
        message=str(error),
        refused_by="agent",
        payload=(raw or b"")[:PAYLOAD_CHARACTERS].decode("utf-8", "replace"),
    )
