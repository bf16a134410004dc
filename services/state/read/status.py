"""How a job is, in one word that people understand without the documentation. Pure."""

from collections.abc import Collection
from typing import Literal

from contracts.clock import MINUTE_MS, pipeline_time_ms
from contracts.job_settings import Mode
from contracts.messages import ClockSegment
from contracts.summaries import WindowSummary
from services.state.record_documents import GateDocument, TopologyDocument, WindowDocument

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
    "unmeasured",
    "silent",
    "ended",
    "unknown",
]
"""``held``: a change waits for the gate. ``paused``: somebody has stopped rescales, in one direction or both.
``restarting``: again and again. ``unmeasured``: no window yet, or its newest minute lacks figures. ``silent``: no window for a
while, though its cluster has some. ``unknown``: no topology, or no new window for more than two minutes."""

FRESH_MINUTES = 2
"""A window that is older says nothing about now."""
RESTARTS_MIN = 3  # within ten minutes: a loop, and no accident
SILENT_MINUTES_MIN = 15  # windows may be on their way for less, when the pipeline's clock runs fast
RAN_LEAST = 0.5  # of its newest minute: a job that ran for less, and is not being changed, is down
_BY_STATE: dict[str, Status] = {
    "finished": "ended",
    "failed": "down",
    "restarting": "down",
    "waiting": "down",
    "suspended": "down",
    "created": "starting",
}
AVAILABLE, _PAUSED = "Available", "Paused"


def status_of(
    topology: TopologyDocument | None,
    gate: GateDocument | None,
    window: WindowDocument | None,
    *,
    mode: Mode,
    silent_minutes: int | None,
    late: bool = False,
) -> Status:
    """Return the word. What an operator must act on comes first, then what surescale does about the job, then its mode.

    ``late``: what `is_late` says of the window.
    """
    if topology is None:
        return "unknown"
    if topology.state in _BY_STATE:
        return _BY_STATE[topology.state]
    if silent_minutes is not None and silent_minutes >= SILENT_MINUTES_MIN:
        return "silent"
    ran = window.minute.ran if window and window.minute and not late else None
    return _down_or_moving(gate, ran) or ("unknown" if late else _load_or_mode(gate, window, mode))


def is_late(window: WindowSummary | None, clocks: Collection[ClockSegment], wall_ms: int) -> bool:
    """Say whether a window is older than two whole minutes of its pipeline's clock; False if there is none.

    Of the wall's, where the clock runs faster: then the next window is on its way for as long.

    Args:
        window: the newest of a job.
        clocks: the present segment of each pipeline of the view; without any, the clock is the wall's.
        wall_ms: the wall's time.
    """
    if window is None:
        return False
    if not clocks:
        return _is_older(window, wall_ms, FRESH_MINUTES)
    # A view holds several only if pipelines share their topics: then nothing tells whose the job is.
    return all(_is_older(window, pipeline_time_ms(each, wall_ms), FRESH_MINUTES * max(1.0, each.speed)) for each in clocks)


def _is_older(window: WindowSummary, now_ms: int, minutes: float) -> bool:
    return (now_ms - window.window_end_ms) // MINUTE_MS > minutes


def is_measured(window: WindowSummary) -> bool:
    """Say whether the newest minute of a window has what a job is judged by: its load, and how busy or how far behind it is.

    An engine need not know both of the last: a group without a busy counter is judged by what waits.
    """
    minute = window.minute
    is_judged = minute is None or minute.utilisation is not None or minute.backlog is not None  # None: of an earlier version
    return window.load_records_per_minute is not None and is_judged


def is_down(*, state: str, is_available: bool, ran: float | None, is_changing: bool) -> bool:
    """Say whether a job is down, by what its engine, its control and its newest minute say.

    Args:
        state: of its topology.
        is_available: what the rescaler's condition says.
        ran: share of its newest minute in which it ran; None: unknown.
        is_changing: a command is being carried out that may stop it for a while.
    """
    if _BY_STATE.get(state) == "down":
        return True
    return not is_changing and (not is_available or (ran is not None and ran < RAN_LEAST))


def _down_or_moving(gate: GateDocument | None, ran: float | None) -> Status | None:
    is_moving = gate is not None and gate.outstanding_command_id is not None
    is_changing = is_moving and gate is not None and gate.step != "prepare"
    available = gate is None or is_moving or not any(each.type == AVAILABLE and not each.status for each in gate.conditions)
    if is_down(state="running", is_available=available, ran=ran, is_changing=is_changing):
        return "down"
    if gate is None or not is_moving:
        return None
    return "warming" if gate.step == "prepare" else "scaling"


def _load_or_mode(gate: GateDocument | None, window: WindowDocument | None, mode: Mode) -> Status:
    if window is not None and window.restarts >= RESTARTS_MIN:
        return "restarting"
    if window is not None and window.minute is not None and window.minute.overloaded:
        return "overloaded"
    if window is None or not is_measured(window):
        return "unmeasured"
    if mode != "act":
        return "advised" if mode == "advise" else "observed"
    if gate is not None and any(each.type == _PAUSED and each.status for each in gate.conditions):
        return "paused"
    return "held" if gate is not None and gate.pending_decision_id is not None else "fine"
