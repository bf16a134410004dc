"""How a job is, in one word that people understand without the documentation. Pure."""

from typing import Literal

from contracts.job_settings import Mode
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
    "down",
    "starting",
    "silent",
    "ended",
    "unknown",
]
"""``held``: a change waits for the gate. ``paused``: somebody has stopped rescales, in one direction or both.
``silent``: no window for a while, though its cluster has some."""

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
) -> Status:
    """Return the word. What an operator must act on comes first, then what surescale does about the job, then its mode."""
    if topology is None:
        return "unknown"
    if topology.state in _BY_STATE:
        return _BY_STATE[topology.state]
    if silent_minutes is not None and silent_minutes >= SILENT_MINUTES_MIN:
        return "silent"
    ran = window.minute.ran if window and window.minute else None
    return _down_or_moving(gate, ran) or _load_or_mode(gate, window, mode)


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
    if window is not None and window.minute is not None and window.minute.overloaded:
        return "overloaded"
    if mode != "act":
        return "advised" if mode == "advise" else "observed"
    if gate is not None and any(each.type == _PAUSED and each.status for each in gate.conditions):
        return "paused"
    return "held" if gate is not None and gate.pending_decision_id is not None else "fine"
