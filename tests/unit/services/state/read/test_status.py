"""The word that says how a job is."""

from typing import Any

import pytest
from msgspec import convert, to_builtins
from msgspec.structs import replace

from contracts.clock import MINUTE_MS
from contracts.job_settings import Mode
from contracts.messages import ClockSegment
from contracts.minute_figures import JobMinute
from services.state.read.conditions import conditions_of, silence_of
from services.state.read.status import is_late, status_of
from services.state.record_documents import ConditionDocument, GateDocument, TopologyDocument, WindowDocument
from tests.support.builders import topology
from tests.support.view_documents import WINDOW

TOPOLOGY = convert(to_builtins(topology()) | {"appended_ms": 1}, TopologyDocument)
GATE = GateDocument(
    applied_generation=1, at_ms=0, conditions=(), desired_generation=1, failures=0, given_up=None, mode=None,
    observed_generation=1, outstanding_command_id=None, pending_decision_id=None, pending_reason=None, phase="Idling",
    standbys=(), step=None, wake_up_ms=None, appended_ms=1,
)  # fmt: skip
BUSY = replace(WINDOW, minute=JobMinute(overloaded=1))
DOWN = replace(WINDOW, minute=JobMinute(ran=0.49, overloaded=1))
GONE = ConditionDocument(last_transition_ms=0, message="", observed_generation=1, reason="Failed", status=False, type="Available")

PAUSED = replace(GONE, reason="Rescaling", status=True, type="Paused")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "fine"),
        ({"topology": None}, "unknown"),
        ({"topology": replace(TOPOLOGY, state="failed")}, "down"),
        ({"topology": replace(TOPOLOGY, state="finished")}, "ended"),
        ({"gate": replace(GATE, conditions=(GONE,))}, "down"),
        ({"gate": replace(GATE, conditions=(GONE,), outstanding_command_id="c", step="commit")}, "scaling"),
        ({"gate": replace(GATE, outstanding_command_id="c", step="prepare")}, "warming"),
        ({"gate": replace(GATE, outstanding_command_id="c", step="commit"), "window": BUSY}, "scaling"),
        ({"window": BUSY}, "overloaded"),
        ({"window": BUSY, "mode": "observe"}, "overloaded"),
        ({"window": DOWN}, "down"),
        ({"window": DOWN, "gate": None}, "down"),
        ({"window": DOWN, "gate": replace(GATE, outstanding_command_id="c", step="prepare")}, "down"),
        ({"window": DOWN, "gate": replace(GATE, outstanding_command_id="c", step="barrier")}, "scaling"),
        ({"window": replace(WINDOW, minute=JobMinute(ran=0.5, utilisation=0.9))}, "fine"),
        ({"window": replace(WINDOW, minute=JobMinute(backlog=0.0))}, "fine"),
        ({"window": replace(WINDOW, minute=JobMinute())}, "unmeasured"),
        ({"window": replace(WINDOW, load_records_per_minute=None, minute=JobMinute(utilisation=0.9))}, "unmeasured"),
        ({"window": replace(WINDOW, minute=JobMinute()), "mode": "observe"}, "unmeasured"),
        ({"window": replace(WINDOW, restarts=3)}, "restarting"),
        ({"window": replace(WINDOW, restarts=2)}, "fine"),
        ({"window": replace(BUSY, restarts=3), "mode": "advise"}, "restarting"),
        ({"window": replace(DOWN, restarts=3)}, "down"),
        ({"late": True}, "unknown"),
        ({"late": True, "window": BUSY}, "unknown"),
        ({"late": True, "window": DOWN}, "unknown"),
        ({"late": True, "mode": "observe"}, "unknown"),
        ({"late": True, "silent_minutes": 15}, "silent"),
        ({"late": True, "gate": replace(GATE, conditions=(GONE,))}, "down"),
        ({"gate": replace(GATE, pending_decision_id="d")}, "held"),
        ({"gate": replace(GATE, conditions=(PAUSED,), pending_decision_id="d")}, "paused"),
        ({"gate": replace(GATE, conditions=(replace(PAUSED, status=False),))}, "fine"),
        ({"gate": replace(GATE, conditions=(PAUSED,)), "window": BUSY}, "overloaded"),
        ({"gate": replace(GATE, conditions=(PAUSED,)), "mode": "observe"}, "observed"),
        ({"mode": "advise"}, "advised"),
        ({"mode": "observe"}, "observed"),
        ({"silent_minutes": 15, "window": BUSY}, "silent"),
        ({"silent_minutes": 14}, "fine"),
        ({"gate": None, "window": None}, "unmeasured"),
        ({"topology": replace(TOPOLOGY, state="created"), "window": None}, "starting"),
    ],
)
def test_the_word_is_the_first_that_holds(changes: dict[str, Any], word: str) -> None:
    """What must be acted on, then what is being done, then the mode."""
    mode: Mode = changes.pop("mode", "act")
    given = {"topology": TOPOLOGY, "gate": GATE, "window": WINDOW} | changes
    silent_minutes, late = given.pop("silent_minutes", None), given.pop("late", False)
    assert status_of(**given, mode=mode, silent_minutes=silent_minutes, late=late) == word  # type: ignore[arg-type]


def clock(speed: float = 1.0, until_minute: int = 1_000) -> ClockSegment:
    """Return a clock that starts at 0 when the wall's does."""
    return ClockSegment(road="main", sequence=0, e0_ms=0, w0_ms=0, speed=speed, until_ms=until_minute * MINUTE_MS)


@pytest.mark.parametrize(
    ("clocks", "wall_ms", "late"),
    [
        ([], 13 * MINUTE_MS - 1, False),
        ([], 13 * MINUTE_MS, True),
        ([clock()], 13 * MINUTE_MS, True),
        ([clock(until_minute=12)], 100 * MINUTE_MS, False),
        ([clock(speed=60.0)], 2 * MINUTE_MS, False),
        ([clock(speed=60.0)], 4 * MINUTE_MS, True),
        ([clock(), clock(until_minute=5)], 13 * MINUTE_MS, False),
    ],
)
def test_a_window_is_late_when_two_more_minutes_should_have_come(clocks: list[ClockSegment], wall_ms: int, late: bool) -> None:
    """By the pipeline's clock, which may stand still; by the wall's where the pipeline's runs faster."""
    assert is_late(replace(WINDOW, window_end_ms=10 * MINUTE_MS), clocks, wall_ms) is late


def test_without_a_window_nothing_is_late() -> None:
    """The word for that is another."""
    assert not is_late(None, [], 100 * MINUTE_MS)


CONDITIONED = replace(GATE, conditions=(replace(GONE, status=True, reason="Running"), replace(PAUSED, status=False)))


@pytest.mark.parametrize(
    ("window", "late", "reason", "words"),
    [
        (WINDOW, False, "Known", "figures are known up to 00:00"),
        (None, False, "NoWindowYet", "`surescale doctor`"),
        (WINDOW, True, "Silent", "nothing is known of the minutes after 00:00 UTC; `surescale doctor`"),
        (replace(WINDOW, load_records_per_minute=None), False, "NoCounters", "how much came"),
        (replace(WINDOW, minute=JobMinute()), False, "NoCounters", "how busy its tasks were"),
    ],
)
def test_a_condition_says_whether_figures_come(window: WindowDocument | None, late: bool, reason: str, words: str) -> None:
    """With the remedy; beside those of the rescaler, or alone while there are none."""
    found = conditions_of(TOPOLOGY, CONDITIONED, window, late=late)
    assert [each.type for each in found] == ["Available", "Paused", "Measured"]
    assert (found[-1].status, found[-1].reason) == (reason == "Known", reason)
    assert words in found[-1].message
    assert [each.reason for each in conditions_of(TOPOLOGY, None, window, late=late)] == [reason]


def test_whether_a_silent_job_is_available_nobody_knows() -> None:
    """What the rescaler wrote last was true of an hour ago; that it is down stays, until something says otherwise."""
    healthy = replace(GONE, type="Degraded", reason="Healthy")
    known = replace(CONDITIONED, conditions=(*CONDITIONED.conditions, healthy))
    (available, _, degraded, _) = conditions_of(TOPOLOGY, known, WINDOW, late=True)
    assert [(each.status, each.reason) for each in (available, degraded)] == [(None, "NoNewMinute")] * 2
    assert "has not answered since 00:00:00 UTC" in available.message
    bad = (GONE, replace(healthy, status=True))
    assert conditions_of(TOPOLOGY, replace(GATE, conditions=bad), WINDOW, late=True)[:2] == bad
    ended = replace(TOPOLOGY, state="finished")
    assert conditions_of(ended, CONDITIONED, WINDOW, late=True) == CONDITIONED.conditions


def test_an_engine_that_is_seen_is_not_the_one_that_is_silent() -> None:
    """Then windows do not come though the monitor writes."""
    assert "the engine has not answered since 00:01:02 UTC" in silence_of(MINUTE_MS, 62_000)
    assert "the engine was seen at 00:05:00 UTC, but no window is newer than 00:01" in silence_of(MINUTE_MS, 300_000)
