"""What one round says about a job, in four conditions, with the generation it speaks for.

After the Kubernetes habit: ``generation`` counts changes of the wish, ``observed_generation`` is the one a status was computed
for. What it does not do: store a status, or decide when to run the next round (it says whether one is worth while). It is for
owners of an assignment who run rounds themselves (docs/rescaling.md); the live road shows conditions of its own
(`rescaler.control.conditions`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rescaler.learners_model import Round
from rescaler.refusals import Refused


class ConditionType(StrEnum):
    """What a condition speaks of."""

    BALANCED = "Balanced"
    """Every host is in its band, for the newest generation."""
    PROGRESSING = "Progressing"
    """Learners are in flight: ask again soon."""
    DRAINING = "Draining"
    """A leaving host still owns tasks."""
    DEGRADED = "Degraded"
    """Tasks are short of standbys, or an active runs on a replica that lags."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; ``reason`` is one word for machines, ``message`` a sentence for people."""

    type: ConditionType
    status: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Status:
    """What to write back beside the assignment."""

    observed_generation: int
    conditions: tuple[Condition, ...]

    def is_true(self, kind: ConditionType) -> bool:
        """Whether that condition holds."""
        return any(condition.type is kind and condition.status for condition in self.conditions)

    @property
    def wants_another_round(self) -> bool:
        """Whether to call again after a short delay instead of at the next event."""
        return self.is_true(ConditionType.PROGRESSING)


def status_of(decided: Round, *, generation: int, observed_generation: int, lagging_actives: int = 0) -> Status:
    """The status of a job after ``decided``, a round for ``observed_generation``, while the wish stands at ``generation``.

    ``lagging_actives``: owners still known to restore from earlier rounds; those of this round are counted in any case.
    """
    lagging = max(lagging_actives, len(decided.lagging_actives))
    return Status(
        observed_generation,
        (
            _balanced(decided, generation, observed_generation),
            _condition(
                ConditionType.PROGRESSING,
                decided.learners_in_flight > 0,
                ("LearnersInFlight", f"{decided.learners_in_flight} learners are restoring"),
                ("Settled", "no learner is in flight"),
            ),
            _condition(
                ConditionType.DRAINING,
                bool(decided.undrained),
                ("HostsLeaving", f"still owned by leaving hosts: {', '.join(decided.undrained)}"),
                ("Drained", "no leaving host owns a task"),
            ),
            _degraded(decided.under_replicated, lagging),
        ),
    )


def check_status_write(*, computed_for: int, generation: int) -> None:
    """Refuse with STALE_GENERATION a status that was computed for a generation that is no longer current."""
    if computed_for != generation:
        message = f"the status was computed for generation {computed_for}, current is {generation}; run the round again"
        raise Refused("STALE_GENERATION", message)


def _balanced(decided: Round, generation: int, observed_generation: int) -> Condition:
    if observed_generation != generation:
        message = f"generation {generation} has not been looked at yet, only {observed_generation}"
        return Condition(ConditionType.BALANCED, False, "NotObserved", message)
    return _condition(
        ConditionType.BALANCED,
        decided.balanced,
        ("InBand", "every host is in its band"),
        ("OutOfBand", "hosts are out of their band: " + ", ".join(_out_of_band(decided))),
    )


def _degraded(under_replicated: int, lagging: int) -> Condition:
    if under_replicated:
        message = f"{under_replicated} tasks are short of standbys for want of a host"
        return Condition(ConditionType.DEGRADED, True, "UnderReplicated", message)
    if lagging:
        return Condition(ConditionType.DEGRADED, True, "LaggingActives", f"{lagging} owners are still restoring")
    return Condition(ConditionType.DEGRADED, False, "Healthy", "owners are caught up and standbys are complete")


def _out_of_band(decided: Round) -> list[str]:
    return [host for host, load in decided.load.items() if not load.is_in_band]


def _condition(kind: ConditionType, status: bool, yes: tuple[str, str], no: tuple[str, str]) -> Condition:
    return Condition(kind, status, *(yes if status else no))
