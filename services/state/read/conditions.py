"""A job's conditions as the view shows them: those of the rescaler, and what the view itself knows of the figures. Pure."""

from msgspec.structs import replace

from surescale.contracts.messages import JobTopology
from surescale.contracts.rescaler_state import Condition, JobControl
from surescale.contracts.summaries import WindowSummary
from surescale.contracts.topology import has_ended
from surescale.services.state.read.staleness import WHO, Stale, minute_of, why_stale
from surescale.services.state.read.status import AVAILABLE, has_no_figures, is_measured

MEASURED = "Measured"
_GOOD_NEWS = ((AVAILABLE, True), ("Degraded", False))
"""What holds only as long as the engine tells so."""


def conditions_of(
    topology: JobTopology | None, gate: JobControl | None, window: WindowSummary | None, stale: Stale | None
) -> tuple[Condition, ...]:
    """Return how a job is: without a new window nobody knows whether it is available."""
    known = gate.conditions if gate else ()
    if topology is None or has_ended(topology):
        return known
    if stale is not None and window is not None and has_no_figures(stale):
        away = why_stale(stale, window.window_end_ms, topology.at_ms)
        unknown = {"status": None, "reason": "NoNewMinute", "message": away, "last_transition_ms": window.window_end_ms}
        known = tuple(replace(each, **unknown) if (each.type, each.status) in _GOOD_NEWS else each for each in known)
    return (*known, _measured(topology, gate, window, stale))


def _measured(topology: JobTopology, gate: JobControl | None, window: WindowSummary | None, stale: Stale | None) -> Condition:
    status, reason = False, "NoWindowYet"
    since_ms = topology.began_ms or topology.at_ms
    message = f"no window has come yet: the first one ends with the job's first whole minute; if none comes, {WHO}"
    if window is not None:
        since_ms, end = window.window_end_ms, minute_of(window.window_end_ms)
        if stale is not None and has_no_figures(stale):
            reason, message = "Silent", f"{stale.words}: nothing is known of the minutes after {end} UTC; {WHO}"
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
