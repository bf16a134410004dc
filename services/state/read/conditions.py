"""A job's conditions as the view shows them: those of the rescaler, and what the view itself knows of the figures. Pure."""

from msgspec.structs import replace

from contracts.clock import MINUTE_MS
from contracts.topology import has_ended
from runtime.instants import to_the_minute, to_the_second
from services.state.read.status import AVAILABLE, FRESH_MINUTES, is_measured
from services.state.record_documents import ConditionDocument, GateDocument, TopologyDocument, WindowDocument

MEASURED = "Measured"
_GOOD_NEWS = ((AVAILABLE, True), ("Degraded", False))
"""What holds only as long as the engine tells so."""
_WHO = "`surescale doctor` says who is at fault: engine, monitor, Spark or Kafka"


def conditions_of(
    topology: TopologyDocument | None, gate: GateDocument | None, window: WindowDocument | None, *, late: bool
) -> tuple[ConditionDocument, ...]:
    """Return how a job is: without a new window nobody knows whether it is available.

    ``late``: what `services.state.read.status.is_late` says of the window.
    """
    known = gate.conditions if gate else ()
    if topology is None or has_ended(topology):
        return known
    if late and window is not None:
        away = silence_of(window.window_end_ms, topology.at_ms)
        unknown = {"status": None, "reason": "NoNewMinute", "message": away, "last_transition_ms": window.window_end_ms}
        known = tuple(replace(each, **unknown) if (each.type, each.status) in _GOOD_NEWS else each for each in known)
    return (*known, _measured(topology, gate, window, late=late))


def silence_of(window_end_ms: int, seen_ms: int | None) -> str:
    """Return what has not come, and since when, of a job or of all jobs of a cluster.

    Args:
        window_end_ms: end of the newest window.
        seen_ms: when the monitor last saw the engine; None: unknown.
    """
    if seen_ms is not None and seen_ms > window_end_ms + FRESH_MINUTES * MINUTE_MS:
        return f"the engine was seen at {_time(seen_ms)} UTC, but no window is newer than {_minute(window_end_ms)}; {_WHO}"
    return f"the engine has not answered since {_time(max(seen_ms or 0, window_end_ms))} UTC, or nobody asks it; {_WHO}"


def _measured(
    topology: TopologyDocument, gate: GateDocument | None, window: WindowDocument | None, *, late: bool
) -> ConditionDocument:
    status, reason = False, "NoWindowYet"
    since_ms = topology.began_ms or topology.at_ms
    message = f"no window has come yet: the first one ends with the job's first whole minute; if none comes, {_WHO}"
    if window is not None:
        since_ms, end = window.window_end_ms, _minute(window.window_end_ms)
        if late:
            reason, message = "Silent", f"nothing is known of the minutes after {end} UTC; {_WHO}"
        elif not is_measured(window):
            reason = "NoCounters"
            lacks = "how much came" if window.load_records_per_minute is None else "how busy its tasks were"
            message = (
                f"nobody knows {lacks} in the minute up to {end} UTC, so nothing shrinks: docs/state.md#measured lists the causes"
            )
        else:
            status, reason, message = True, "Known", f"its figures are known up to {end} UTC"
    observed = (gate.observed_generation if gate else None) or 0
    return ConditionDocument(
        type=MEASURED, status=status, reason=reason, message=message, last_transition_ms=since_ms, observed_generation=observed
    )


def _minute(at_ms: int) -> str:
    return to_the_minute(at_ms)[-len("00:00") :]


def _time(at_ms: int) -> str:
    return to_the_second(at_ms)[-len("00:00:00") :]
