"""When the next decision is due: at the end of a span, once enough minutes are known."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.policies.policy import is_span_end
from surescale.services.state.read.staleness import NextDecision, Stale, next_decision, next_in_words

JOB = "shop/orders"
TOPOLOGY = JobTopology(job=JOB, version=1, at_ms=0, tasks=(TaskSpec(task="parse"),))


def due(
    minute: int,
    known: int,
    *decided: int,
    span: int = 10,
    settings: JobSettings | None = None,
    topology: JobTopology = TOPOLOGY,
) -> NextDecision | None:
    """Return what is due after the window that ends with a minute; ``decided``: minutes of the newest decisions."""
    return next_decision(topology, settings, minute * MINUTE_MS, known, [each * MINUTE_MS for each in decided], span)


@pytest.mark.parametrize(
    ("minute", "known", "at", "missing", "words"),
    [
        (13, 60, 20, 0, "due at 1970-01-01 00:20 UTC, after 7 more minutes of figures"),
        (20, 60, 30, 0, "due at 1970-01-01 00:30 UTC, after 10 more minutes of figures"),
        (19, 60, 20, 0, "due at 1970-01-01 00:20 UTC, after 1 more minute of figures"),
        (17, 3, 20, 2, "due at 1970-01-01 00:20 UTC, after 3 more minutes of figures, 2 of which must be known"),
        (17, 2, 20, 3, "due at 1970-01-01 00:20 UTC, after 3 more minutes of figures, which must be known"),
        (17, 1, 30, 4, "due at 1970-01-01 00:30 UTC, after 13 more minutes of figures, 4 of which must be known"),
    ],
)
def test_the_end_of_a_span_and_enough_known_minutes(minute: int, known: int, at: int, missing: int, words: str) -> None:
    """Five minutes by default; a window that ends a span has had its decision."""
    found = due(minute, known)
    assert found == NextDecision(at_ms=at * MINUTE_MS, minutes_missing=missing, words=words)


def test_the_jobs_settings_and_labels_say_how_many_minutes_must_be_known() -> None:
    """Settings win over labels."""
    labelled = msgspec.structs.replace(TOPOLOGY, labels={"surescale.minutes-known": "3"})
    found = due(11, 0, span=1, topology=labelled)
    assert found is not None
    assert (found.at_ms, found.minutes_missing) == (14 * MINUTE_MS, 3)
    found = due(11, 0, span=1, topology=labelled, settings=JobSettings(job=JOB, minutes_known_min=1))
    assert found is not None
    assert (found.at_ms, found.minutes_missing) == (12 * MINUTE_MS, 1)


@pytest.mark.parametrize(
    ("decided", "at"),
    [
        ((), 46),  # as the settings say
        ((40,), 46),
        ((40, 30, 20, 10), 50),  # a policy with a span of its own
        ((40, 33, 30, 20, 10), 50),  # an emergency came between
        ((45, 44, 43, 30), 46),  # some were missing
    ],
)
def test_decisions_tell_how_long_a_span_is(decided: tuple[int, ...], at: int) -> None:
    """Where there are enough of them."""
    found = due(45, 60, *decided, span=1)
    assert found is not None
    assert found.at_ms == at * MINUTE_MS


@pytest.mark.parametrize("state", ["suspended", "finished", "restarting"])
def test_a_job_that_does_not_run_waits_for_no_decision(state: str) -> None:
    """Nor does one without a window, or without a topology."""
    assert due(13, 60, topology=msgspec.structs.replace(TOPOLOGY, state=state)) is None
    assert next_decision(TOPOLOGY, None, None, 0, (), 10) is None
    assert next_decision(None, None, MINUTE_MS, 60, (), 10) is None


@given(minute=st.integers(1, 10_000), known=st.integers(0, 60), span=st.integers(1, 60))
def test_it_is_the_first_span_end_at_which_the_policy_may_be_asked(minute: int, known: int, span: int) -> None:
    """None between the window and it would do."""
    found = due(minute, known, span=span)
    assert found is not None
    assert is_span_end(found.at_ms, span)
    ends = [each for each in range(minute + 1, found.at_ms // MINUTE_MS) if is_span_end(each * MINUTE_MS, span)]
    assert all(known + each - minute < 5 for each in ends)
    assert known + found.at_ms // MINUTE_MS - minute >= 5


def test_a_job_on_which_nothing_is_decided_says_why() -> None:
    """It does not run, something is overdue, or no minute is known yet."""
    soon = due(13, 60)
    assert soon is not None
    late = Stale(role="agent", minutes=25, words="no decision for 25 min")
    asleep = msgspec.structs.replace(TOPOLOGY, state="resting")
    assert next_in_words(TOPOLOGY, None, soon) == soon.words
    assert next_in_words(TOPOLOGY, late, soon) == "held up: no decision for 25 min"
    assert next_in_words(TOPOLOGY, None, None) == "due once its first minute of figures is known"
    assert next_in_words(asleep, late, None) == "none while the job does not run (resting)"
    assert next_in_words(None, None, None) == ""
