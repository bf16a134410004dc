"""A pipeline with a chain of three consumer groups for each policy compared.

surescale scales the chains of its policies, a rival (`benchmarks/rivals`) its own; the chain `static` is not touched. The clock
of the pipeline and of the rivals runs several times as fast as the wall's, so that all decide every few seconds; all else happens
as it does.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_settings import JobSettings, Mode
from surescale.contracts.messages import ClockSegment
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLOCK
from surescale.engines.groups import GroupsSettings
from surescale.engines.groups.broker import GroupReader, GroupsUnavailable
from surescale.engines.kafka.offsets import TopicOffsets
from surescale.engines.processes import ProcessesSettings
from surescale.engines.processes.worker_store import WorkerStore
from surescale.engines.settings import ClusterSettings
from surescale.runtime.topic_records import send
from surescale.services.local_stack.comparison.comparison_pipeline import (
    HPA_CPU,
    KEDA,
    STATIC,
    ComparisonPipeline,
    ComparisonReport,
    LoadOptions,
    checked_jobs,
    environment,
    is_rival,
    limits_of,
    rival,
)
from surescale.services.local_stack.comparison.load import PARTITIONS, TOPIC
from surescale.services.local_stack.comparison.watch import JobWatch, WatchedFigures, number_of, read_to_end
from surescale.services.local_stack.consumers.worker import hold
from surescale.services.local_stack.errors import Say, silent
from surescale.services.local_stack.supervisor import Role


class ChainFigures(WatchedFigures, frozen=True, kw_only=True):
    """How one chain did. What was not through before the end counts as late, too.

    Attributes:
        member_minutes: members of all groups, summed over the time.
        rebalances: looks, one a second, at which some group had other members than before.
    """

    member_minutes: float
    rebalances: int


class ChainWatch(JobWatch):
    """One chain."""

    late_s = 30.0

    def __init__(self, bootstrap: str, job: str) -> None:
        super().__init__(bootstrap, last_output(job))
        self._job = job
        self._groups = GroupReader(PipelineSettings(bootstrap=bootstrap))
        self._rebalances = 0
        self._ids: frozenset[str] = frozenset()

    def figures(self) -> ChainFigures:
        """Read the whole output of a chain that has been stopped, and return the figures."""
        times = Counter(number_of(record) for record in read_to_end(self._bootstrap, self._topic_out))
        waiting = self._waiting()
        found = self._figures(times, waiting)
        found["late"] += waiting
        return ChainFigures(**found, member_minutes=self.size_minutes, rebalances=self._rebalances)

    def _waiting(self) -> int:
        """Return what waits: stopped workers have committed all that they wrote, so each record waits for at most one group."""
        topics = TopicOffsets(PipelineSettings(bootstrap=self._bootstrap))
        seen = self._groups.look([group for group, _ in inputs_of(self._job)])
        return sum(
            sum(topics.ends([reads]).values()) - sum(seen[group].committed.values()) for group, reads in inputs_of(self._job)
        )

    def _sizes_now(self) -> Mapping[str, int]:
        names = {stage.task: group_of(self._job, stage.task) for stage in STAGES}
        try:
            seen = self._groups.look(list(names.values()))
        except GroupsUnavailable:  # a busy machine
            return {}
        ids = frozenset(member.id for group in seen.values() for member in group.members)
        self._rebalances += bool(self._ids) and ids != self._ids
        self._ids = ids
        return {task: len(seen[group].members) for task, group in names.items()}


CLUSTER: Final = "consumers"
CATCH_UP_MINUTES: Final = 1.0
_STARTED_WITHIN_S: Final = 60.0
_STOPPED_WITHIN_S: Final = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumersPipelineOptions(LoadOptions):
    """What runs in the pipeline.

    Attributes:
        policies: one chain each; `static` is one that nobody scales, `keda`, `keda-N` and `hpa-cpu` are rivals.
        speed: minutes of the pipeline and of the rivals in one minute.
    """

    seconds: int = 105
    mean: float = 14.0
    policies: tuple[str, ...] = ("target-utilisation", STATIC)
    speed: float = 6.0


class ConsumersReport(ComparisonReport, frozen=True, kw_only=True):
    """Everything a run came to, by chain."""

    jobs: dict[str, ChainFigures]
    speed: float


class ConsumersPipeline(ComparisonPipeline):
    """The chains are named after what scales them. The workers end by themselves when this process does, however it ends."""

    options: ConsumersPipelineOptions
    drain_s_max = 15.0
    by_the_wall = False

    def __init__(self, options: ConsumersPipelineOptions, say: Say = silent) -> None:
        self.jobs = checked_jobs(options.policies, is_rival, "run", KEDA, HPA_CPU)
        super().__init__(options, say)

    def _make_ready(self) -> ClusterSettings:
        folder = self.supervisor.folder / "workers"
        folder.mkdir()
        self._presence = hold(folder / OWNER)
        groups_file = folder / "groups.json"
        modes: dict[str, Mode] = {job: "act" if job in self._policies else "observe" for job in self.jobs}
        write_groups_file(groups_file, self._broker.bootstrap, modes)
        return ClusterSettings(
            bootstrap=self._broker.bootstrap,
            redis_url=self._redis.url,
            cluster=CLUSTER,
            engine="kafka",
            actuator="processes",
            parts=(
                # No chain takes another's place.
                GroupsSettings(groups_file=str(groups_file), workers_max=len(self.jobs) * len(STAGES) * PARTITIONS),
                ProcessesSettings(workers_folder=str(folder)),
            ),
            policy=self._policies[0] if self._policies else "target-utilisation",
            seed=self.options.seed,
            span_minutes=1,
            pipeline_clock=True,
        )

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)
        self._presence.close()

    @property
    def _policies(self) -> list[str]:
        """The chains that surescale acts on."""
        return [job for job in self.jobs if job != STATIC and not is_rival(job)]

    @property
    def _rivals(self) -> list[str]:
        return list(filter(is_rival, self.jobs))

    def start(self) -> None:
        """Bring up servers, roles and workers, then start the load."""
        self._start_servers()
        self._create_topics([*outputs(self.jobs), *(topic for each in self._rivals for topic in _process(each).topics(each))])
        self._publish_clock()
        self._publish(map(_limits, self._policies))
        self.supervisor.start_together(self._roles(SURESCALE_COOLDOWN_MS="60000", SURESCALE_STABILIZATION_MS="1000"))
        self._watches = {job: ChainWatch(self.settings.bootstrap, job) for job in self.jobs}
        self.supervisor.wait(self._all_joined, timeout_s=_STARTED_WITHIN_S, what="the workers to join their groups", poll_s=0.5)
        for each in self._rivals:
            command = _process(each).command(each, self.settings, self.supervisor, self.options.speed, PARTITIONS, self._say)
            self.supervisor.launch(Role(each, command, env=environment()))
        self._start_load()

    def stop_jobs(self) -> None:
        """Let every worker finish what it has in hand, commit, and end."""
        store = WorkerStore(Path(self.settings.part(ProcessesSettings).workers_folder), CLUSTER)
        for job in self.jobs:
            store.stop(job)
        self.supervisor.wait(
            lambda: not any(map(store.workers, self.jobs)), timeout_s=_STOPPED_WITHIN_S, what="the workers to end"
        )

    def report(self) -> ConsumersReport:
        """Return the figures of chains that have stopped."""
        return ConsumersReport(**self._ran(), speed=self.options.speed)

    def _publish_clock(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        clock = ClockSegment(
            pipeline=self.settings.pipeline,
            sequence=1,
            e0_ms=now_ms // MINUTE_MS * MINUTE_MS,
            w0_ms=now_ms,
            speed=self.options.speed,
            until_ms=2**52,
        )
        send(self.settings, CLOCK, clock.pipeline, clock)

    def _all_joined(self) -> bool:
        for watch in self._watches.values():
            watch.look()
        return all(min(watch.sizes.values(), default=0) > 0 for watch in self._watches.values())


def _process(name: str) -> ModuleType:
    return rival("run", name)


def _limits(job: str) -> JobSettings:
    """Return the limits of a chain that surescale scales, and its policy."""
    return limits_of(f"{CLUSTER}/{job}", most=PARTITIONS, catch_up_minutes=CATCH_UP_MINUTES, by="demo consumers")


@dataclass(frozen=True, slots=True)
class Stage:
    """One group: work of the processor for each record, and waiting."""

    task: str
    rounds: int
    wait_ms: float


OWNER = "owner"
"""File in the workers' folder, held by the demo as long as it lives."""
STAGES = (Stage("parse", 500, 12.0), Stage("enrich", 500, 28.0), Stage("deliver", 500, 12.0))
"""About 12.3, 28.3 and 12.3 ms a record: the one in the middle is the bottleneck."""


def output_of(job: str, task: str) -> str:
    """Return the topic that a group writes."""
    return f"{job}-{task}d" if task.endswith("e") else f"{job}-{task}ed"


def last_output(job: str) -> str:
    """Return the topic in which a chain ends."""
    return output_of(job, STAGES[-1].task)


def inputs_of(job: str) -> list[tuple[str, str]]:
    """Return each group of a chain with the topic that it reads."""
    reads = [TOPIC, *(output_of(job, stage.task) for stage in STAGES[:-1])]
    return [(group_of(job, stage.task), topic) for stage, topic in zip(STAGES, reads, strict=True)]


def outputs(jobs: Iterable[str]) -> list[str]:
    """Return all topics that the demo's chains write."""
    return [output_of(job, stage.task) for job in jobs for stage in STAGES]


def group_of(job: str, task: str) -> str:
    """Return the id of a consumer group."""
    return f"{job}-{task}"


def write_groups_file(path: Path, bootstrap: str, jobs: Mapping[str, Mode]) -> None:
    """Write the file that says which groups form a job and how their workers are started."""
    path.write_bytes(msgspec.json.encode({job: _job(job, mode, bootstrap, path.parent) for job, mode in jobs.items()}))


def worker_command(bootstrap: str, group: str, reads: str, writes: str, stage: Stage, folder: Path) -> list[str]:
    """Return the command of a worker, with ``{index}`` and ``{port}`` in it; it ends by itself when nobody holds `OWNER`."""
    command = [sys.executable, "-P", "-m", "surescale.services.local_stack.consumers.worker", "--bootstrap", bootstrap]
    command += ["--group", group, "--from", reads, "--to", writes, "--while", str(folder / OWNER)]
    return [*command, "--rounds", str(stage.rounds), "--wait-ms", str(stage.wait_ms), "--index", "{index}", "--port", "{port}"]


def _job(job: str, mode: Mode, bootstrap: str, folder: Path) -> dict[str, Any]:
    groups = {}
    for stage, (group, reads) in zip(STAGES, inputs_of(job), strict=True):
        writes = output_of(job, stage.task)
        groups[stage.task] = {
            "group": group,
            "reads": [reads],
            "writes": [writes],
            "metrics": "http://127.0.0.1:{number}/metrics",
            "busy": "worker_busy_seconds_total",
            "workers": {
                "command": worker_command(bootstrap, group, reads, writes, stage, folder),
                "health": "http://127.0.0.1:{port}/metrics",
                "drain_s": 15.0,
            },
        }
    return {"mode": mode, "groups": groups}
