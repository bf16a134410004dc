"""Looks at a job on a real Flink, as the monitor takes them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from surescale.engines.flink.source import FlinkSource
from surescale.engines.ports.minutes import JobSnapshot
from surescale.engines.ports.source import SourceUnavailable
from surescale.monitor.settings import MonitorSettings
from tests.support.live_flink import LiveFlink, LiveJob
from tests.support.waiting import wait_until


@contextmanager
def watched(flink: LiveFlink, job: LiveJob, **changes: str) -> Iterator[tuple[FlinkSource, str]]:
    """Give a source that watches one job, and the job's id."""
    settings = MonitorSettings(
        engine="flink", engine_url=flink.rest_url, cluster="flink", source_bootstrap=flink.bootstrap, jobs=job.name
    )
    source = FlinkSource(replace(settings, **changes))
    try:
        (job,) = source.jobs()
        yield source, job
    finally:
        source.close()


def look_until(
    source: FlinkSource, job: str, condition: Callable[[JobSnapshot], bool], what: str, timeout_s: float = 90.0
) -> JobSnapshot:
    """Return the first look that a condition holds of; the source may be away meanwhile. A failure tells the last answer."""
    answers: list[JobSnapshot | SourceUnavailable] = []

    def once() -> JobSnapshot | None:
        try:
            source.jobs()
            answers[:] = [source.follow(job).look()]
        except SourceUnavailable as error:
            answers[:] = [error]
        (found,) = answers
        return found if isinstance(found, JobSnapshot) and condition(found) else None

    try:
        return wait_until(once, timeout_s, what)
    except AssertionError as error:
        error.add_note(f"the last answer: {answers}")
        raise


def total(look: JobSnapshot, figure: str, label: str = "Source: source") -> int:
    """Return a figure of a task, summed over its subtasks."""
    task = next(spec.task for spec in look.topology.tasks if spec.label == label)
    return sum(int(getattr(sample, figure) or 0) for sample in look.samples if sample.task == task)


def parallelism(look: JobSnapshot) -> dict[str, int]:
    """Return it by label."""
    return {spec.label: spec.parallelism for spec in look.topology.tasks}


def runs(look: JobSnapshot) -> bool:
    """Say whether all tasks run and report."""
    return all(spec.state == "running" for spec in look.topology.tasks) and look.samples != ()


def attempt_of(look: JobSnapshot) -> int:
    """Return the number of the execution graph, which all samples share."""
    assert {sample.attempt for sample in look.samples} <= {look.topology.attempt}
    return look.topology.attempt
