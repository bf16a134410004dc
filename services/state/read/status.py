"""How a job is, in one word that people understand without the documentation. Pure."""

from collections.abc import Iterable
from typing import Any, Literal

from msgspec.structs import replace

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_settings import Mode
from surescale.contracts.messages import JobTopology
from surescale.contracts.rescaler_state import Condition, JobControl
from surescale.contracts.summaries import WindowSummary
from surescale.contracts.topology import RESTING, has_ended
from surescale.services.state.read.staleness import FRESH_MINUTES, WHO, Stale, minute_of, why_stale

Status = Literal[
    "fine",
    "scaling",
    "warming",
    "held",
    "paused",
    "advised",
    "observed",
    "overloaded",
    "restarting",
    "down",
    "starting",
    "resting",
    "unmeasured",
    "stalled",
    "ended",
    "unknown",
]
"""``held``: a change waits for the gate. ``paused``: somebody has stopped rescales, in one direction or both.
``restarting``: again and again. ``unmeasured``: no window yet, or its newest minute lacks figures. ``unknown``: no topology, or
no new window for more than two minutes. ``stalled``: figures come, and no decisions on them or no answers to these."""

RESTARTS_MIN = 3  # within ten minutes: a loop, and no accident
RAN_LEAST = 0.5  # of its newest minute: a job that ran for less, and is not being changed, is down
_BY_STATE: dict[str, Status] = {
    "finished": "ended",
    "failed": "down",
    "restarting": "down",
    "waiting": "down",
    "suspended": "down",
    "resting": "down",
}
_WORSE: tuple[Status, ...] = ("restarting", "overloaded", "unmeasured")  # than a job on which nobody decides
AVAILABLE, DEGRADED, _PAUSED = "Available", "Degraded", "Paused"
AT_REST = "AtRest"
"""The reason of the condition of a job that surescale has at rest. Another one without members was stopped by somebody."""


def status_of(
    topology: JobTopology | None,
    gate: JobControl | None,
    window: WindowSummary | None,
    *,
    mode: Mode,
    stale: Stale | None,
) -> Status:
    """Return the word. What an operator must act on comes first, then what surescale does about the job, then its mode."""
    if topology is None:
        return "unknown"
    late = has_no_figures(stale)
    if topology.state == RESTING and gate is not None and (word := _without_members(gate)) is not None:
        return "unknown" if late else "stalled" if stale is not None and word == "resting" else word
    if topology.state == "created":
        return "down" if _does_not_start(topology, gate) else "unknown" if late else "starting"
    if topology.state in _BY_STATE:
        return _BY_STATE[topology.state]
    ran = window.minute.ran if window and not late else None
    if (word := _down_or_moving(gate, ran)) is not None:
        return word
    if late:
        return "unknown"
    word = _load_or_mode(gate, window, mode)
    return "stalled" if stale is not None and word not in _WORSE else word


def _does_not_start(topology: JobTopology, gate: JobControl | None) -> bool:
    """Say whether a job that is to start has not for longer than that takes.

    It has lacked something since it became both degraded and not available. Without the rescaler's word: if the engine says what.
    """
    lacks = [
        each.last_transition_ms
        for each in (gate.conditions if gate else ())
        if (each.type, each.status) in ((AVAILABLE, False), (DEGRADED, True))
    ]
    if not lacks:
        return any(spec.hindrance for spec in topology.tasks)
    return topology.at_ms - max(lacks) > FRESH_MINUTES * MINUTE_MS


def has_no_figures(stale: Stale | None) -> bool:
    """Say whether figures have not come, or nobody can say how new they are."""
    return stale is not None and stale.role in ("monitor", "spark", "state")


def is_measured(window: WindowSummary) -> bool:
    """Say whether the newest minute of a window has what a job is judged by: its load, and how busy or how far behind it is.

    An engine need not know both of the last: a group without a busy counter is judged by what waits.
    """
    minute = window.minute
    is_judged = minute.utilisation is not None or minute.backlog is not None
    return window.load_records_per_minute is not None and is_judged


def is_down(*, state: str, is_available: bool, ran: float | None, is_changing: bool) -> bool:
    """Say whether a job is down, by what its engine, its control and its newest minute say.

    Args:
        state: of its topology.
        is_available: what the rescaler's condition says.
        ran: share of its newest minute in which it ran; None: unknown.
        is_changing: a command is being carried out that may stop it for a while.
    """
    if state == RESTING:
        return not is_available
    if _BY_STATE.get(state) == "down":
        return True
    return not is_changing and (not is_available or (ran is not None and ran < RAN_LEAST))


def standing(is_moving: bool, step: str | None, conditions: Iterable[Condition]) -> tuple[bool, bool]:
    """Return whether the rescaler counts a job as available, and whether a command may stop it for a while.

    ``is_moving``: a command is being carried out; its ``step`` is None where standbys change. Learners that warm up (``prepare``)
    stop nothing.
    """
    is_available = is_moving or not any(each.type == AVAILABLE and not each.status for each in conditions)
    return is_available, is_moving and step != "prepare"


def _without_members(gate: JobControl) -> Status | None:
    """Return how a job without members is, unless somebody else has stopped it. Topologies come a minute after its start."""
    if gate.underway is not None:
        return "starting"
    found = next((each for each in gate.conditions if each.type == AVAILABLE and each.status), None)
    return None if found is None else "resting" if found.reason == AT_REST else "starting"


def _standing(gate: JobControl | None) -> tuple[bool, bool]:
    if gate is None:
        return True, False
    return standing(gate.underway is not None, gate.underway.step if gate.underway else None, gate.conditions)


def _down_or_moving(gate: JobControl | None, ran: float | None) -> Status | None:
    is_moving = gate is not None and gate.underway is not None
    is_available, is_changing = _standing(gate)
    if is_down(state="running", is_available=is_available, ran=ran, is_changing=is_changing):
        return "down"
    if not is_moving:
        return None
    return "scaling" if is_changing else "warming"


def _load_or_mode(gate: JobControl | None, window: WindowSummary | None, mode: Mode) -> Status:
    if window is not None and window.restarts >= RESTARTS_MIN:
        return "restarting"
    if window is not None and window.minute.overloaded:
        return "overloaded"
    if window is None or not is_measured(window):
        return "unmeasured"
    if mode != "act":
        return "advised" if mode == "advise" else "observed"
    if gate is not None and any(each.type == _PAUSED and each.status for each in gate.conditions):
        return "paused"
    return "held" if gate is not None and gate.pending is not None else "fine"


MEASURED = "Measured"
_GOOD_NEWS = ((AVAILABLE, True), (DEGRADED, False))
"""What holds only as long as the engine tells so."""


def conditions_of(
    topology: JobTopology | None, gate: JobControl | None, window: WindowSummary | None, stale: Stale | None
) -> tuple[Condition, ...]:
    """Return how a job is. The rescaler's good news holds only as far as the minutes bear it out."""
    known = gate.conditions if gate else ()
    if topology is None or has_ended(topology):
        return known
    borne_out = _borne_out(topology, gate, window, stale)
    known = tuple(
        replace(each, **borne_out.get(each.type, {})) if (each.type, each.status) in _GOOD_NEWS else each for each in known
    )
    return (*known, _measured(topology, gate, window, stale))


def _borne_out(
    topology: JobTopology, gate: JobControl | None, window: WindowSummary | None, stale: Stale | None
) -> dict[str, dict[str, Any]]:
    """Return what becomes of good news, by condition: without a new window nobody knows, and a minute may say otherwise."""
    if stale is not None and has_no_figures(stale):
        away = why_stale(stale, window.window_end_ms if window else None, topology.at_ms)
        since_ms = window.window_end_ms if window else topology.at_ms
        unknown = {"status": None, "reason": "NoNewMinute", "message": away, "last_transition_ms": since_ms}
        return {AVAILABLE: unknown, DEGRADED: unknown}
    if window is None:
        early = "no minute of it has been measured yet"
        return {DEGRADED: {"status": None, "reason": "NoWindowYet", "message": early, "last_transition_ms": topology.at_ms}}
    until = {"last_transition_ms": window.window_end_ms}
    if topology.state == "running" and is_down(
        state="running", is_available=True, ran=window.minute.ran, is_changing=_standing(gate)[1]
    ):
        little = f"it ran {window.minute.ran or 0.0:.0%} of the minute up to {minute_of(window.window_end_ms)} UTC"
        return {
            AVAILABLE: {"status": False, "reason": "RanTooLittle", "message": little, **until},
            DEGRADED: {"status": True, "reason": "RanTooLittle", "message": little, **until},
        }
    if window.restarts >= RESTARTS_MIN:
        often = f"it restarted in {window.restarts} of the ten minutes up to {minute_of(window.window_end_ms)} UTC"
        return {DEGRADED: {"status": True, "reason": "RestartLoop", "message": often, **until}}
    return {}


def _measured(topology: JobTopology, gate: JobControl | None, window: WindowSummary | None, stale: Stale | None) -> Condition:
    status, reason = False, "NoWindowYet"
    since_ms = topology.began_ms or topology.at_ms
    message = f"no window has come yet: the first one ends with the job's first whole minute; if none comes, {WHO}"
    if window is None and stale is not None and has_no_figures(stale):
        reason, message = "Silent", f"{stale.words}: {why_stale(stale, None, topology.at_ms)}"
    elif window is not None:
        since_ms, end = window.window_end_ms, minute_of(window.window_end_ms)
        if stale is not None and has_no_figures(stale):
            who = why_stale(stale, window.window_end_ms, topology.at_ms) if stale.role == "state" else WHO
            reason, message = "Silent", f"{stale.words}: nothing is known of the minutes after {end} UTC; {who}"
        elif not is_measured(window):
            reason = "NoCounters"
            lacks = "how much came" if window.load_records_per_minute is None else "how busy its tasks were"
            message = (
                f"nobody knows {lacks} in the minute up to {end} UTC, so nothing shrinks: docs/state.md#measured lists the causes"
            )
        else:
            status, reason, message = True, "Known", f"its figures are known up to {end} UTC"
    observed = (gate.observed_generation if gate else None) or 0
    return Condition(
        type=MEASURED, status=status, reason=reason, message=message, last_transition_ms=since_ms, observed_generation=observed
    )
