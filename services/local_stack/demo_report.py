"""The report of a demo: what ``--out`` writes and what the command prints, each job by name while they are few. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from statistics import fmean
from typing import Self

import msgspec

from surescale.contracts.plurals import counted
from surescale.contracts.rent import RentCost
from surescale.services.engine.documents import EngineReport, ReportedJob
from surescale.services.local_stack.pipeline_figures import Counts, Freshness, Rescaling
from surescale.services.state.read.words import phase_words
from surescale.simulation.engine.job_report import RunFigures


class JobCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one job's hosts cost in dollars, and what its placement saved against two others."""

    dollars: float
    per_s: float
    per_day: float
    saved_round_robin: float
    saved_default: float

    @classmethod
    def of(cls, bill: RentCost) -> Self:
        """Return a bill rounded for the report."""
        return cls(**bill.document())


class ClusterCost(msgspec.Struct, frozen=True):
    """Cost of all hosts in use, in dollars; a host that jobs share is paid once."""

    dollars: float


class JobFigures(RunFigures, frozen=True, kw_only=True):
    """How one job did under one policy, and what its hosts cost."""

    rent: JobCost | None

    @classmethod
    def of(cls, job: ReportedJob, rent: JobCost | None) -> Self:
        """Return the figures of a job that ran in the pipeline."""
        return cls(**{name: getattr(job, name) for name in RunFigures.__struct_fields__}, rent=rent)


class Twins(msgspec.Struct, frozen=True):
    """What other policies would have made of the same run, by job and policy: the output of ``surescale policy twin``."""

    jobs: dict[str, dict[str, JobFigures]] = {}
    rent: dict[str, ClusterCost] = {}


class PolicyRan(msgspec.Struct, frozen=True):
    """The policy that decided in the pipeline; the hash is empty for a rule."""

    name: str
    sha256: str


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pipeline can be reached while it is up."""

    kafka: str
    redis: str
    http: str


class DemoReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run of the pipeline came to. ``jobs`` and ``rent`` are by policy; the one that acted comes first.

    ``decided_by``: by job, the policies that were asked in the pipeline, in their order; ``policy`` is the first one.
    """

    jobs: dict[str, dict[str, JobFigures]]
    rent: dict[str, ClusterCost]
    counts: Counts
    rescaling: Rescaling
    freshness_s: Freshness
    policy: PolicyRan
    decided_by: dict[str, tuple[str, ...]]
    window_minutes: int
    span_minutes: int
    minutes: int
    seed: int
    pace: str
    lockstep_misses: int
    wall_s: float
    endpoints: Endpoints


def together(jobs: Mapping[str, Mapping[str, JobFigures]]) -> dict[str, JobFigures]:
    """Return the figures of all jobs by policy, without their minutes.

    Reward, latency and utilisation are means over the jobs; subtask minutes, rescales and overload are sums. There is no rent:
    a host that two jobs share is in the bill of both.
    """
    policies = next(iter(jobs.values()))
    return {policy: _together([figures[policy] for figures in jobs.values()]) for policy in policies}


def _together(jobs: list[JobFigures]) -> JobFigures:
    return JobFigures(
        reward=fmean(job.reward for job in jobs),
        latency_mean_s=fmean(job.latency_mean_s for job in jobs),
        latency_p99_s=fmean(job.latency_p99_s for job in jobs),
        utilisation=fmean(job.utilisation for job in jobs),
        task_minutes=sum(job.task_minutes for job in jobs),
        rescales=sum(job.rescales for job in jobs),
        overload_minutes=sum(job.overload_minutes for job in jobs),
        parallelism=(),
        rent=None,
    )


JOBS_SHOWN = 4


def progress_line(report: EngineReport, gates: Mapping[str, str]) -> str:
    """Return how far the trace is and what the jobs do, given the engine's report and the phase of each job's gate."""
    jobs = {job: figures for job, figures in sorted(report.jobs.items()) if figures.parallelism}
    lines = [_all_jobs(jobs, gates)] if len(jobs) > JOBS_SHOWN else [_job(job, jobs[job], gates.get(job)) for job in jobs]
    return f"minute {report.minutes_done:>4} of {report.minutes}  " + "   ".join(lines)


def host_lines(kill_minutes: Collection[int], join_minutes: Collection[int], *, after: int, until: int) -> list[str]:
    """Return what was done to hosts at the end of the minutes from ``after`` (exclusive) to ``until``, as the options asked."""
    done = [(minute, "the busiest host was killed") for minute in kill_minutes]
    done += [(minute, "a host joined") for minute in join_minutes]
    return [f"minute {minute:>4}  {what}" for minute, what in sorted(done) if after < minute <= until]


def acting(policies: Iterable[tuple[str, ...]], first: str) -> str:
    """Return who decided in the pipeline, over some jobs: one policy, or several that were released one after the other.

    >>> acting([("sure", "forecast"), ("sure", "forecast")], "sure"), acting([("sure",), ("sure", "ds2")], "sure")
    ('sure, then forecast', 'sure, then others')
    """
    found = {names for names in policies if names}
    if len(found) > 1:
        return f"{first}, then others"
    return ", then ".join(found.pop()) if found else first


def result_lines(report: DemoReport) -> list[str]:
    """Return the run in two sentences: what the acting policy saved of the configured sizes, and what the jobs suffered for it.

    Without a twin that kept the configured sizes, they say what the run cost, beside nothing.
    """
    policies = together(report.jobs)
    ran = next(iter(policies.values()))
    configured = None if report.policy.name == "static" else policies.get("static")
    jobs = len(report.jobs)
    pauses = [found.pause_s.max for found in report.rescaling.jobs.values() if found.pause_s.max is not None]
    pays = f"{report.policy.name} ran {_count(jobs, 'job')} on {ran.task_minutes:,} subtask-minutes"
    suffers = f"Jobs were over capacity in {ran.overload_minutes:,} of {report.minutes * jobs:,} minutes"
    if configured:
        less = 1 - ran.task_minutes / configured.task_minutes
        pays += f", {abs(less):.0%} {'fewer' if less >= 0 else 'more'} than the configured sizes take"
        suffers += f" ({configured.overload_minutes:,} at the configured sizes)"
    if (own := report.rent.get(report.policy.name)) is not None:
        beside = report.rent.get("static") if configured else None
        pays += f", for ${own.dollars:.2f} of hosts" + (f" instead of ${beside.dollars:.2f}" if beside else "")
    suffers += f" and rescaled {_count(ran.rescales, 'time')}"
    return [f"{pays}.", suffers + (f", with a pause of {max(pauses):g} s at most." if pauses else ".")]


def incident_lines(rescaling: Rescaling, counts: Counts) -> list[str]:
    """Return what did not go as usual: hosts and jobs lost, rescales given up, acts made to wait, records not used."""
    lines = [f"minute {each.minute}: {each.what}" for each in rescaling.incidents]
    for job, found in rescaling.jobs.items():
        if found.failed:
            lines.append(f"{job}: rescales given up: " + ", ".join(f"{code} {count}" for code, count in found.failed.items()))
    if rescaling.waits:
        waits = ", ".join(f"{reason} {count}" for reason, count in rescaling.waits.items())
        lines.append(f"gates made acts wait: {waits}")
    refused = {"late": counts.late, "duplicates": counts.duplicates, "dead letters": counts.dead_letters}
    if any(refused.values()):
        lines.append("records not used: " + ", ".join(f"{what} {count:,}" for what, count in refused.items() if count))
    return lines


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _job(job: str, figures: ReportedJob, gate: str | None) -> str:
    words = [phase_words(gate)] if gate else []
    if _is_warming(figures):
        words.append(_warming([figures]))
    elif figures.state != "running":
        words.append(figures.state)
    load, subtasks = figures.load_records_per_minute, figures.parallelism[-1]
    return f"{job}: {load:,.0f} records/min on {counted(subtasks, 'subtask')}" + (f" ({', '.join(words)})" if words else "")


def _all_jobs(jobs: Mapping[str, ReportedJob], gates: Mapping[str, str]) -> str:
    load = sum(figures.load_records_per_minute for figures in jobs.values())
    subtasks = sum(figures.parallelism[-1] for figures in jobs.values())
    words = _counted(phase_words(gates[job]) for job in jobs if gates.get(job))
    warming = [figures for figures in jobs.values() if _is_warming(figures)]
    words += [_warming(warming)] if warming else []
    words += _counted(figures.state for figures in jobs.values() if not _is_warming(figures) and figures.state != "running")
    return f"{len(jobs)} jobs: {load:,.0f} records/min on {subtasks:,} subtasks" + (f" ({', '.join(words)})" if words else "")


def _counted(words: Iterable[str]) -> list[str]:
    return [f"{count} {word}" for word, count in sorted(Counter(words).items())]


def _is_warming(job: ReportedJob) -> bool:
    return job.rescale is not None and job.rescale.state == "warming"


def _warming(jobs: Collection[ReportedJob]) -> str:
    rescales = [job.rescale for job in jobs if job.rescale]
    learners, behind = sum(each.learners for each in rescales), sum(each.lag_bytes for each in rescales)
    return f"{learners} learners, {behind / 2**20:.0f} MiB behind"
