"""What the options of ``surescale job set`` ask for, as fields of the settings. Pure."""

import difflib
from collections.abc import Mapping, Sequence

from msgspec import UNSET

from contracts.errors import SettingsError
from contracts.job_labels import CHOICES
from contracts.job_settings import ExcludedPeriod, JobSettings, LatencyBound, TaskLimits
from contracts.limits_in_words import NONE, read_period, read_task
from contracts.messages import JobTopology
from services.tools.job_settings.limit_options import DEFAULT

NEAR_MAX = 3


def as_settings(given: Mapping[str, object]) -> dict[str, object]:
    """Return options as fields of ``JobSettings``; ``tasks`` become (name, limits), still to be joined to those before.

    Raises:
        SettingsError: a period or the limits of a task do not parse, or contradict one another.
    """
    wanted = {name: None if value == DEFAULT else value for name, value in given.items()}
    if "objective" in wanted:
        objective = wanted.pop("objective")
        bound = objective if isinstance(objective, LatencyBound) else UNSET
        wanted |= {"objective": None if bound else objective, "latency_bound": bound}
    if "step" in wanted:
        step = wanted.pop("step")
        wanted = {"step_up_max": step, "step_down_max": step} | wanted
    if "block_ineffective" in wanted:
        wanted["block_ineffective"] = CHOICES["block_ineffective"].get(str(given["block_ineffective"]))
    if "emergency_growth" in wanted:
        wanted["emergency_growth"] = CHOICES["emergency_growth"].get(str(given["emergency_growth"]), UNSET)
    if "calibrated_spread" in wanted:
        wanted["calibrated_spread"] = CHOICES["calibrated_spread"].get(str(given["calibrated_spread"]), UNSET)
    for name in ("memory_limit", "feature_drift_max", "utilisation"):
        if wanted.get(name, UNSET) is None:
            wanted[name] = UNSET
    if "excluded" in given:
        wanted["excluded"] = _periods(given["excluded"])  # type: ignore[arg-type]  # an option that may be repeated
    if "tasks" in given:
        wanted["tasks"] = tuple(read_task(text) for text in given["tasks"])  # type: ignore[attr-defined]  # the same
    return wanted


def choice_in_words(field: str, value: object) -> str | None:
    """Return a field that is true or false as its option has it; None: it is another field, or not set.

    >>> choice_in_words("calibrated_spread", True)
    'calibrated'
    """
    return next((word for word, meant in CHOICES.get(field, {}).items() if meant is value), None)


def with_tasks(wanted: Mapping[str, object], before: JobSettings, topology: JobTopology | None) -> dict[str, object]:
    """Return what is wanted, with limits of single tasks joined to those that other tasks have already.

    Raises:
        SettingsError: the job has no such task. Of a job that is not known yet any may be named.
    """
    if "tasks" not in wanted:
        return dict(wanted)
    named: tuple[tuple[str, TaskLimits | None], ...] = wanted["tasks"]  # type: ignore[assignment]  # made by ``as_settings``
    known = {name for spec in (topology.tasks if topology else ()) for name in (spec.task, spec.label) if name}
    for name, limits in named if topology is not None else ():
        if name not in known and not (limits is None and name in before.tasks):
            near = difflib.get_close_matches(name, sorted(known), n=NEAR_MAX, cutoff=0.3) or sorted(known)[:NEAR_MAX]
            raise SettingsError(f"--task: job {before.job} has no task {name!r}; known: {', '.join(near)}")
    joined = {**before.tasks, **dict(named)}
    return {**wanted, "tasks": {name: limits for name, limits in sorted(joined.items()) if limits is not None}}


def _periods(texts: Sequence[str]) -> tuple[ExcludedPeriod, ...]:
    if NONE not in texts:
        return tuple(read_period(text) for text in texts)
    if len(texts) > 1:
        raise SettingsError(f"--exclude: {NONE} means no excluded period at all; leave it or the other periods out")
    return ()
