"""What the demo prints about jobs: each by name while they are few, all together when they are many. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from services.engine.documents import Report, ReportedJob
from services.local_stack.demo_report import ClusterCost, JobFigures
from services.local_stack.rescale_figures import Rescaling
from services.state.read.words import phase_words

JOBS_SHOWN = 4


def progress_line(report: Report, gates: Mapping[str, str]) -> str:
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


def rent_lines(
    jobs: Mapping[str, Mapping[str, JobFigures]], rent: Mapping[str, ClusterCost], *, jobs_shown: bool = True
) -> list[str]:
    """Return what the jobs cost in money and what their placement saved; the last line has each policy's cluster."""
    lines = []
    for job, policies in jobs.items() if jobs_shown else ():
        found = next(iter(policies.values())).rent  # the policy that acted comes first
        if found:
            lines.append(
                f"{job}: hosts for ${found.per_day:.2f} a day, ${found.dollars:.2f} in this run; "
                f"saved ${found.saved_round_robin:.2f} against round robin, "
                f"${found.saved_default:.2f} against Flink's default"
            )
    clusters = ", ".join(f"{policy} ${each.dollars:.2f}" for policy, each in sorted(rent.items()))
    return [*lines, f"all hosts in use, each paid once: {clusters}"]


def rescale_lines(rescaling: Rescaling, *, jobs_shown: bool = True) -> list[str]:
    """Return in words how rescales went (for each job, if asked), and what happened to hosts and jobs meanwhile."""
    lines = []
    for job, found in rescaling.jobs.items() if jobs_shown else ():
        words = f"{job}: {found.rescales} rescales"
        if found.learners:
            warm = found.warm_up_s
            words += f", {found.learners} learners warmed for {warm.mean} s on average, {warm.max} s at most"
        if found.rescales:
            words += f"; pause {found.pause_s.mean} s on average, {found.pause_s.max} s at most"
        failed = ", ".join(f"{code} {count}" for code, count in found.failed.items())
        lines.append(words + (f"; given up: {failed}" if failed else ""))
    lines += [f"minute {each.minute}: {each.what}" for each in rescaling.incidents]
    waits = ", ".join(f"{reason} {count}" for reason, count in rescaling.waits.items())
    return [*lines, f"gates made acts wait: {waits}"] if waits else lines


def _job(job: str, figures: ReportedJob, gate: str | None) -> str:
    words = [phase_words(gate)] if gate else []
    if _is_warming(figures):
        words.append(_warming([figures]))
    elif figures.state != "running":
        words.append(figures.state)
    load, subtasks = figures.load_records_per_minute, figures.parallelism[-1]
    return f"{job}: {load:.0f} records/min on {subtasks} subtasks" + (f" ({', '.join(words)})" if words else "")


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
