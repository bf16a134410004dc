"""Which decisions an agent that catches up keeps back, and what overtakes them."""

from dataclasses import dataclass

import msgspec

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision, Overload
from surescale.services.agent.decider import BYTES_MAX, KEPT_BACK_S, LateDecisions, is_late, overtaken_by_ms
from tests.support.controller_world import JOB, OTHER_JOB, decision

HOUR_MS = 60 * MINUTE_MS


@dataclass(frozen=True)
class Made:
    """A decision that is ready to be written."""

    decision: Decision
    size_bytes: int = 1


def made(minute: int, of: str = JOB, size_bytes: int = 1) -> Made:
    """An act for the span that ended with a minute."""
    return Made(decision(HOUR_MS + minute * MINUTE_MS, {"map": 3}, of=of), size_bytes)


def emergency(minute: int) -> Decision:
    """An act that an overload asks for."""
    overload = Overload(task="map", load_records_per_minute=1.0, grown_records=1.0)
    return msgspec.structs.replace(made(minute).decision, emergency=overload)


def test_a_window_is_late_once_the_next_one_is_due() -> None:
    """A minute after its end, by the wall clock."""
    at_ms = made(0).decision.span_end_ms
    assert [is_late(made(0).decision, at_ms + late_ms) for late_ms in (0, MINUTE_MS, MINUTE_MS + 1)] == [False, False, True]


def test_a_newer_decision_overtakes_and_an_older_one_does_not() -> None:
    """Nor does the same one again."""
    kept = made(1).decision
    assert overtaken_by_ms(kept, made(2).decision) == HOUR_MS + 2 * MINUTE_MS
    assert overtaken_by_ms(kept, made(0).decision) is None
    assert overtaken_by_ms(kept, kept) is None


def test_a_window_without_a_decision_ends_an_emergency_only() -> None:
    """The last decision at the end of a span stays in force."""
    assert overtaken_by_ms(made(1).decision, None) is None
    assert overtaken_by_ms(emergency(1), None) == HOUR_MS + 2 * MINUTE_MS


def test_what_is_kept_goes_once_nothing_more_waits() -> None:
    """In the order in which it came, each job's newest alone."""
    late = LateDecisions[Made]()
    late.keep(made(1), 0.0)
    late.keep(made(1, OTHER_JOB), 0.0)
    assert late.ready(1.0, waits=True) == []
    assert late.take(JOB) == made(1)
    late.keep(made(2), 1.0)
    assert late.ready(2.0, waits=False) == [made(1, OTHER_JOB), made(2)]
    assert late.ready(2.0, waits=False) == []


def test_an_agent_that_never_catches_up_decides_all_the_same() -> None:
    """However many take each other's place, a job's decisions are kept back for a minute in all; the next one again."""
    late = LateDecisions[Made]()
    for minute in range(3):
        if late.of(JOB) is not None:
            late.take(JOB)
        late.keep(made(minute), minute * 25.0)
    assert late.ready(KEPT_BACK_S - 0.1, waits=True) == []
    assert late.ready(KEPT_BACK_S, waits=True) == [made(2)]
    late.keep(made(3), KEPT_BACK_S + 10)
    assert late.ready(KEPT_BACK_S + 11, waits=True) == []


def test_a_minute_that_is_over_does_not_begin_again_with_the_next_decision() -> None:
    """One may take another's place between the end of the minute and the next look."""
    late = LateDecisions[Made]()
    late.keep(made(0), 0.0)
    late.take(JOB)
    late.keep(made(1), KEPT_BACK_S + 0.5)
    assert late.ready(KEPT_BACK_S + 1, waits=True) == [made(1)]


def test_what_is_kept_back_is_bounded() -> None:
    """The oldest goes first; a rebalance forgets all of it."""
    late = LateDecisions[Made]()
    for number in range(3):
        late.keep(made(0, f"sim/{number}", BYTES_MAX // 2), 0.0)
    assert [each.decision.job for each in late.ready(0.0, waits=True)] == ["sim/0"]
    late.clear()
    assert late.ready(0.0, waits=False) == []
