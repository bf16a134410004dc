"""``python -m benchmarks.pipeline.monitor``: what a minute of many jobs costs their monitor, and whether its memory grows."""

import gc
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import click
import psutil
from confluent_kafka import Producer

from benchmarks.machine import conditions
from benchmarks.pipeline.fleet import FIRST_MINUTE, Fleet
from benchmarks.pipeline.stage import stage
from benchmarks.report import Document, say, show
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import ClusterTopology, EngineEvent, Host, HourlyLoad, JobTopology
from surescale.contracts.topics import TopicNames
from surescale.engines.ports.minutes import JobSnapshot, MinuteCollector
from surescale.engines.ports.source import FinishedMinute
from surescale.monitor.delivery import LINGER_MS, Outbox, Reports
from surescale.monitor.progress import LOOK_EVERY_S, OtherMonitors
from surescale.monitor.service import ClusterWatcher, EndedJobs, JobWatcher
from surescale.runtime import options
from surescale.runtime.kafka import producer
from surescale.services.local_stack.supervisor import StopRequested

TASKS, SUBTASKS, HOSTS = 5, 2, 100
LOOKS_A_MINUTE = round(60 / LOOK_EVERY_S)


class _Clock:
    """A clock that only whoever drives it moves."""

    def __init__(self) -> None:
        self.at_ms = FIRST_MINUTE * MINUTE_MS

    def now_ms(self) -> int:
        return self.at_ms

    def wait(self, seconds: float) -> bool:
        return False


class _Collector(MinuteCollector):
    """Looks when it is told to."""

    def _start(self) -> None:
        pass


class _Source:
    """A fleet as an engine that can only be asked how things are now."""

    is_finite = False

    def __init__(self, fleet: Fleet, clock: _Clock) -> None:
        self._fleet, self._clock, closed = fleet, clock, threading.Event()
        self.collectors = {
            fleet.job(index): _Collector(
                fleet.job(index), partial(self._look, index), "bench", clock, closed, answer_within_s=0.0
            )
            for index in range(fleet.jobs)
        }

    def _look(self, index: int) -> JobSnapshot:
        minute = self._clock.at_ms // MINUTE_MS - FIRST_MINUTE
        return JobSnapshot(self._fleet.topology(index), tuple(self._fleet.samples(index, minute, (MINUTE_MS,))))

    def jobs(self) -> list[str]:
        return sorted(self.collectors)

    def minutes(self, job: str, after_ms: int) -> list[FinishedMinute]:
        return self.collectors[job].minutes(after_ms)

    def end_of(self, last: JobTopology) -> JobTopology | None:
        return None

    def load_history(self, job: str) -> tuple[HourlyLoad, ...]:
        return ()

    def cluster_topology(self) -> ClusterTopology | None:
        hosts = tuple(Host(host=f"host-{number}", units=(1, 2, 3)) for number in range(HOSTS))
        return ClusterTopology(cluster="bench0", version=1, at_ms=0, hosts=hosts)

    def events(self, after_id: str) -> list[EngineEvent]:
        return []

    def close(self) -> None:
        pass


class Watched:
    """Everything that a monitor keeps of its jobs, driven minute by minute by as many threads as wanted."""

    def __init__(self, fleet: Fleet, client: Producer, names: TopicNames, threads: int) -> None:
        """Watch every job of a fleet from its first minute on, and send through a client."""
        self._clock = _Clock()
        self._source = _Source(fleet, self._clock)
        log, stop = logging.getLogger("surescale.bench"), threading.Event()
        self.stop = stop
        outbox = partial(Outbox, Reports(client, stop), names, stop=stop, log=log)
        cluster, ends = ClusterWatcher(self._source, outbox()), EndedJobs(self._source, outbox())
        self._watchers = [
            JobWatcher(job, self._source, outbox(), cluster, 0, lambda minute: ends.note(minute.topology))
            for job in self._source.jobs()
        ]
        self._threads = ThreadPoolExecutor(threads)
        self.cpu_s = 0.0  # of the process, while minutes were sent

    @property
    def minutes_sent(self) -> int:
        """Return the minutes of all jobs that were sent."""
        return sum(watcher.minutes_sent for watcher in self._watchers)

    def minute(self) -> None:
        """Let a minute pass: look at each job, and send what was seen."""
        end_ms = (self._clock.at_ms // MINUTE_MS + 1) * MINUTE_MS
        for collector in self._source.collectors.values():
            self._clock.at_ms = end_ms - 1
            collector.take_minute()
        self._clock.at_ms = end_ms
        began_s = time.process_time()
        list(self._threads.map(JobWatcher.step, self._watchers))
        self.cpu_s += time.process_time() - began_s


def measured(
    watched: Watched, minutes: int, every: int, more: Callable[[], None] = lambda: None
) -> Iterator[tuple[int, int, float]]:
    """Yield, every so many minutes: which it is, how many objects Python's collector knows, and the process's memory in MB.

    ``more`` happens in each minute besides.
    """
    for number in range(1, minutes + 1):
        watched.minute()
        more()
        if number % every == 0:
            gc.collect()
            yield number, len(gc.get_objects()), psutil.Process().memory_info().rss / 1e6


@click.command()
@click.option("--jobs", type=click.IntRange(min=1), default=1_000, show_default=True, help="Number of jobs.")
@click.option("--minutes", type=click.IntRange(min=1), default=60, show_default=True, help="Minutes of the jobs.")
@click.option("--every", type=click.IntRange(min=1), default=10, show_default=True, help="Minutes between two looks at it.")
@click.option("--threads", type=click.IntRange(min=1), help="That send them; the role has one a job. [as many as jobs]")
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the input.")
@options.as_json
def command(jobs: int, minutes: int, every: int, threads: int | None, seed: int, as_json: bool) -> None:
    """Processor time and memory of a monitor of many jobs, minute after minute.

    What the role keeps of each job, its producer and its looks for another monitor, on a real broker.
    """
    fleet = Fleet(jobs, TASKS, SUBTASKS, seed)
    report: Document = {"conditions": conditions(seed), "jobs": jobs, "samples_of_a_job_and_minute": TASKS * SUBTASKS}
    try:
        with stage(say, cluster="bench0") as pipeline:
            settings = pipeline.settings
            ticks = itertools.count(step=LOOK_EVERY_S)
            others = OtherMonitors(settings, logging.getLogger("surescale.bench"), lambda: next(ticks))

            def look() -> None:
                for _ in range(LOOKS_A_MINUTE):
                    others.look()

            watched = Watched(
                fleet, producer(settings, **{"linger.ms": LINGER_MS}), TopicNames(settings.topic_prefix), threads or jobs
            )
            for minute, objects, memory_mb in measured(watched, minutes, every, look):
                say(f"minute {minute}: {objects:,} objects, {memory_mb:.1f} MB")
                report[f"after_{minute}_minutes"] = {"objects": objects, "memory_mb": round(memory_mb, 1)}
    except StopRequested as asked:
        raise SystemExit(asked.exit_code) from None
    report["minutes_sent"] = watched.minutes_sent
    report["cpu_ms_a_job_minute"] = round(1000 * watched.cpu_s / watched.minutes_sent, 2)
    show("python -m benchmarks.pipeline.monitor", report, as_json=as_json)


if __name__ == "__main__":
    command()
