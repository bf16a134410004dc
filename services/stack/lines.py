"""What the demo prints of jobs: all of them by name while they are few, together when they are many. Pure."""

from collections import Counter
from collections.abc import Mapping
from statistics import fmean
from typing import Any

JOBS_SHOWN = 4
SUMMED = ("task_minutes", "rescales", "overload_minutes")

Document = Mapping[str, Any]


def progress_line(report: Document, gates: Mapping[str, str]) -> str:
    """Return how far the trace is and what the jobs do, from the engine's figures so far and the phase of each job's gate."""
    jobs = {job: figures for job, figures in sorted(report["jobs"].items()) if figures["parallelism"]}
    lines = [_together(jobs, gates)] if len(jobs) > JOBS_SHOWN else [_job(job, jobs[job], gates.get(job)) for job in jobs]
    return f"minute {report['minutes_done']:>4} of {report['minutes']}  " + "   ".join(lines)


def _job(job: str, figures: Document, gate: str | None) -> str:
    load, subtasks = figures["load_records_per_minute"], figures["parallelism"][-1]
    words = [gate] if gate else []
    if _warms(figures):
        words.append(_warming([figures]))
    elif figures["state"] != "running":
        words.append(figures["state"])
    return f"{job}: {load:.0f} records/min on {subtasks} subtasks" + (f" ({', '.join(words)})" if words else "")


def _together(jobs: Mapping[str, Document], gates: Mapping[str, str]) -> str:
    load = sum(figures["load_records_per_minute"] for figures in jobs.values())
    subtasks = sum(figures["parallelism"][-1] for figures in jobs.values())
    words = [f"{count} {phase}" for phase, count in sorted(Counter(gates[job] for job in jobs if gates.get(job)).items())]
    warming = [figures for figures in jobs.values() if _warms(figures)]
    words += [_warming(warming)] if warming else []
    others = Counter(figures["state"] for figures in jobs.values() if not _warms(figures) and figures["state"] != "running")
    words += [f"{count} {state}" for state, count in sorted(others.items())]
    return f"{len(jobs)} jobs: {load:,.0f} records/min on {subtasks:,} subtasks" + (f" ({', '.join(words)})" if words else "")


def _warms(figures: Document) -> bool:
    return bool(figures["rescale"]) and figures["rescale"].get("state") == "warming"


def _warming(jobs: list[Document]) -> str:
    learners, behind = (sum(figures["rescale"][name] for figures in jobs) for name in ("learners", "lag_bytes"))
    return f"{learners} learners, {behind / 2**20:.0f} MiB behind"


def together(jobs: Mapping[str, Mapping[str, Document]]) -> dict[str, dict[str, Any]]:
    """Return the figures of all jobs by policy: means, but sums of subtask minutes, rescales, minutes over capacity and rent."""
    policies = next(iter(jobs.values()))
    found: dict[str, dict[str, Any]] = {}
    for policy in policies:
        each = [figures[policy] for figures in jobs.values()]
        numbers = [name for name, value in each[0].items() if isinstance(value, int | float)]
        found[policy] = {name: (sum if name in SUMMED else fmean)(figures[name] for figures in each) for name in numbers}
        rents = [figures["rent"]["dollars"] for figures in each if figures["rent"]]
        found[policy]["rent"] = {"dollars": sum(rents)} if rents else None
    return found
