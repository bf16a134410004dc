"""The word that says how a job is."""

from typing import Any

import pytest
from msgspec.structs import replace

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_settings import Mode
from surescale.contracts.rescaler_state import CommandUnderway, Condition, JobControl, Step, WaitingAct
from surescale.contracts.summaries import JobMinute, WindowSummary
from surescale.services.state.read.staleness import Stale, why_stale
from surescale.services.state.read.status import conditions_of, status_of
from tests.support.builders import topology
from tests.support.view_documents import WINDOW

TOPOLOGY = topology()
GATE = JobControl(applied_generation=1, desired_generation=1, observed_generation=1, phase="Idling")


def underway(step: Step | None) -> CommandUnderway:
    """Return a command whose end is not known."""
    return CommandUnderway(decision_id="d", command_id="c", step=step)


BUSY = replace(WINDOW, minute=JobMinute(overloaded=1))
DOWN = replace(WINDOW, minute=JobMinute(ran=0.49, overloaded=1))
GONE = Condition(last_transition_ms=0, message="", observed_generation=1, reason="Failed", status=False, type="Available")
STARTED = replace(GATE, conditions=(replace(GONE, reason="Running", status=True),))
AT_REST = replace(GATE, conditions=(replace(GONE, reason="AtRest", status=True),))

PAUSED = replace(GONE, reason="Rescaling", status=True, type="Paused")

NO_FIGURES = Stale(role="monitor", minutes=25, words="no figures for 25 min")
NO_ANSWER = Stale(role="rescaler", minutes=25, words="no answer for 25 min")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "fine"),
        ({"topology": None}, "unknown"),
        ({"topology": replace(TOPOLOGY, state="failed")}, "down"),
        ({"topology": replace(TOPOLOGY, state="finished")}, "ended"),
        ({"topology": replace(TOPOLOGY, state="resting"), "window": DOWN, "gate": AT_REST}, "resting"),
        ({"topology": replace(TOPOLOGY, state="resting"), "window": DOWN, "stale": NO_FIGURES, "gate": AT_REST}, "unknown"),
        ({"topology": replace(TOPOLOGY, state="resting"), "stale": NO_ANSWER, "gate": AT_REST}, "stalled"),
        ({"topology": replace(TOPOLOGY, state="resting"), "stale": NO_ANSWER, "gate": STARTED}, "starting"),
        ({"topology": replace(TOPOLOGY, state="resting"), "stale": NO_FIGURES, "gate": STARTED}, "unknown"),
        ({"topology": replace(TOPOLOGY, state="resting")}, "down"),
        ({"topology": replace(TOPOLOGY, state="resting"), "gate": replace(GATE, conditions=(GONE,))}, "down"),
        ({"topology": replace(TOPOLOGY, state="resting"), "gate": replace(GATE, underway=underway("barrier"))}, "starting"),
        ({"topology": replace(TOPOLOGY, state="resting"), "gate": STARTED}, "starting"),
        ({"gate": replace(GATE, conditions=(GONE,))}, "down"),
        ({"gate": replace(GATE, conditions=(GONE,), underway=underway("barrier"))}, "scaling"),
        ({"gate": replace(GATE, underway=underway("prepare"))}, "warming"),
        ({"gate": replace(GATE, underway=underway("barrier")), "window": BUSY}, "scaling"),
        ({"window": BUSY}, "overloaded"),
        ({"window": BUSY, "mode": "observe"}, "overloaded"),
        ({"window": DOWN}, "down"),
        ({"window": DOWN, "gate": None}, "down"),
        ({"window": DOWN, "gate": replace(GATE, underway=underway("prepare"))}, "down"),
        ({"window": DOWN, "gate": replace(GATE, underway=underway("barrier"))}, "scaling"),
        ({"window": replace(WINDOW, minute=JobMinute(ran=0.5, utilisation=0.9))}, "fine"),
        ({"window": replace(WINDOW, minute=JobMinute(backlog=0.0))}, "fine"),
        ({"window": replace(WINDOW, minute=JobMinute())}, "unmeasured"),
        ({"window": replace(WINDOW, load_records_per_minute=None, minute=JobMinute(utilisation=0.9))}, "unmeasured"),
        ({"window": replace(WINDOW, minute=JobMinute()), "mode": "observe"}, "unmeasured"),
        ({"window": replace(WINDOW, restarts=3)}, "restarting"),
        ({"window": replace(WINDOW, restarts=2)}, "fine"),
        ({"window": replace(BUSY, restarts=3), "mode": "advise"}, "restarting"),
        ({"window": replace(DOWN, restarts=3)}, "down"),
        ({"stale": NO_FIGURES}, "unknown"),
        ({"stale": NO_FIGURES, "window": BUSY}, "unknown"),
        ({"stale": NO_FIGURES, "window": DOWN}, "unknown"),
        ({"stale": NO_FIGURES, "mode": "observe"}, "unknown"),
        ({"stale": NO_ANSWER, "window": BUSY}, "overloaded"),
        ({"stale": NO_ANSWER, "gate": replace(GATE, pending=WaitingAct(decision_id="d"))}, "stalled"),
        ({"stale": NO_ANSWER, "mode": "observe"}, "stalled"),
        ({"stale": NO_FIGURES, "gate": replace(GATE, conditions=(GONE,))}, "down"),
        ({"gate": replace(GATE, pending=WaitingAct(decision_id="d"))}, "held"),
        ({"gate": replace(GATE, conditions=(PAUSED,), pending=WaitingAct(decision_id="d"))}, "paused"),
        ({"gate": replace(GATE, conditions=(replace(PAUSED, status=False),))}, "fine"),
        ({"gate": replace(GATE, conditions=(PAUSED,)), "window": BUSY}, "overloaded"),
        ({"gate": replace(GATE, conditions=(PAUSED,)), "mode": "observe"}, "observed"),
        ({"mode": "advise"}, "advised"),
        ({"mode": "observe"}, "observed"),
        ({"stale": NO_ANSWER}, "stalled"),
        ({"gate": None, "window": None}, "unmeasured"),
        ({"topology": replace(TOPOLOGY, state="created"), "window": None}, "starting"),
    ],
)
def test_the_word_is_the_first_that_holds(changes: dict[str, Any], word: str) -> None:
    """What must be acted on, then what is being done, then the mode."""
    mode: Mode = changes.pop("mode", "act")
    given = {"topology": TOPOLOGY, "gate": GATE, "window": WINDOW} | changes
    assert status_of(**({"stale": None} | given), mode=mode) == word  # type: ignore[arg-type]


CONDITIONED = replace(GATE, conditions=(replace(GONE, status=True, reason="Running"), replace(PAUSED, status=False)))


@pytest.mark.parametrize(
    ("window", "stale", "reason", "words"),
    [
        (WINDOW, None, "Known", "figures are known up to 00:00"),
        (None, None, "NoWindowYet", "`surescale doctor`"),
        (
            WINDOW,
            NO_FIGURES,
            "Silent",
            "no figures for 25 min: nothing is known of the minutes after 00:00 UTC; `surescale doctor`",
        ),
        (replace(WINDOW, load_records_per_minute=None), None, "NoCounters", "how much came"),
        (replace(WINDOW, minute=JobMinute()), None, "NoCounters", "how busy its tasks were"),
    ],
)
def test_a_condition_says_whether_figures_come(
    window: WindowSummary | None, stale: Stale | None, reason: str, words: str
) -> None:
    """With the remedy; beside those of the rescaler, or alone while there are none."""
    found = conditions_of(TOPOLOGY, CONDITIONED, window, stale)
    assert [each.type for each in found] == ["Available", "Paused", "Measured"]
    assert (found[-1].status, found[-1].reason) == (reason == "Known", reason)
    assert words in found[-1].message
    assert [each.reason for each in conditions_of(TOPOLOGY, None, window, stale)] == [reason]


def test_whether_a_silent_job_is_available_nobody_knows() -> None:
    """What the rescaler wrote last was true of an hour ago; that it is down stays, until something says otherwise."""
    healthy = replace(GONE, type="Degraded", reason="Healthy")
    known = replace(CONDITIONED, conditions=(*CONDITIONED.conditions, healthy))
    (available, _, degraded, _) = conditions_of(TOPOLOGY, known, WINDOW, NO_FIGURES)
    assert [(each.status, each.reason) for each in (available, degraded)] == [(None, "NoNewMinute")] * 2
    assert "has not answered since 00:00:00 UTC" in available.message
    bad = (GONE, replace(healthy, status=True))
    assert conditions_of(TOPOLOGY, replace(GATE, conditions=bad), WINDOW, NO_FIGURES)[:2] == bad
    ended = replace(TOPOLOGY, state="finished")
    assert conditions_of(ended, CONDITIONED, WINDOW, NO_FIGURES) == CONDITIONED.conditions


HEALTHY = replace(CONDITIONED, conditions=(*STARTED.conditions, replace(GONE, type="Degraded", reason="Healthy")))
CHANGING = replace(HEALTHY, underway=underway("barrier"))


@pytest.mark.parametrize(
    ("gate", "window", "told"),
    [
        (HEALTHY, WINDOW, [(True, "Running"), (False, "Healthy")]),
        (HEALTHY, None, [(True, "Running"), (None, "NoWindowYet")]),
        (HEALTHY, replace(WINDOW, restarts=2), [(True, "Running"), (False, "Healthy")]),
        (HEALTHY, replace(WINDOW, restarts=3), [(True, "Running"), (True, "RestartLoop")]),
        (HEALTHY, DOWN, [(False, "RanTooLittle"), (True, "RanTooLittle")]),
        (HEALTHY, replace(DOWN, restarts=3), [(False, "RanTooLittle"), (True, "RanTooLittle")]),
        (CHANGING, DOWN, [(True, "Running"), (False, "Healthy")]),
    ],
)
def test_the_rescalers_good_news_holds_only_as_far_as_the_minutes_bear_it_out(
    gate: JobControl, window: WindowSummary | None, told: list[tuple[bool | None, str]]
) -> None:
    """Before the first window, in a restart loop, and where the job ran for less than half of its newest minute."""
    found = conditions_of(TOPOLOGY, gate, window, None)
    assert [(each.status, each.reason) for each in found if each.type != "Measured"] == told
    bad = replace(gate, conditions=(GONE, replace(GONE, type="Degraded", status=True, reason="Hindered")))
    assert conditions_of(TOPOLOGY, bad, window, None)[:2] == bad.conditions


def test_an_engine_that_is_seen_is_not_the_one_that_is_silent() -> None:
    """Then windows do not come though the monitor writes."""
    assert "the engine has not answered since 00:01:02 UTC" in why_stale(NO_FIGURES, MINUTE_MS, 62_000)
    assert "the engine was seen at 00:05:00 UTC, but no window is newer than 00:01" in why_stale(
        replace(NO_FIGURES, role="spark"), MINUTE_MS, 300_000
    )
