"""A pipeline with a real Flink: a session cluster, and one job for each policy compared.

Jobs of a policy are labelled to be acted on; the job `static` is not touched, and that of `upstream` is left to Flink's own
autoscaler.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.modes import MODE_LABEL
from surescale.engines.settings import ClusterSettings
from surescale.services.local_stack.comparison.comparison_pipeline import (
    STATIC,
    UPSTREAM,
    ComparisonPipeline,
    ComparisonReport,
    LoadOptions,
    checked_jobs,
    limits_of,
    rival,
)
from surescale.services.local_stack.comparison.load import PARTITIONS, TOPIC
from surescale.services.local_stack.comparison.watch import JobWatch, WatchedFigures, number_of, read_to_end
from surescale.services.local_stack.errors import Say, silent
from surescale.services.local_stack.flink.cluster import FlinkCluster
from surescale.services.local_stack.flink.scaled_job import JobOptions, job_jar, stop, submit
from surescale.services.local_stack.supervisor import Role

SlowVertex = Literal["parse", "count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkPipelineOptions(LoadOptions):
    """What runs in the pipeline.

    Attributes:
        policies: one job each; `static` is a job that nobody scales, `upstream` one that Flink's own autoscaler scales.
        span_minutes: how often a rule decides; a learned policy has its own span, so give it a longer run.
        parallelism_max: of each vertex.
        catch_up_minutes: in which a backlog is to be worked off.
        slow_vertex: the one that does the work of a record. ``count`` is keyed, so its hottest key keeps one subtask busier.
        rounds, wait_micros: that work, as ``JobOptions`` has it.
        job_settings: more of Flink's settings, for every job.
    """

    seconds: int = 210
    mean: float = 220.0
    policies: tuple[str, ...] = ("target-utilisation", STATIC)
    span_minutes: int = 1
    parallelism_max: int = PARTITIONS
    catch_up_minutes: float = 2.0
    slow_vertex: SlowVertex = "parse"
    rounds: int = 50_000
    wait_micros: int = 1_800
    job_settings: Mapping[str, str] = field(default_factory=dict)
    version: str = "2.3.0"

    def work(self, vertex: SlowVertex) -> tuple[int, int]:
        """Return the rounds and the wait of a record at a vertex."""
        return (self.rounds, self.wait_micros) if vertex == self.slow_vertex else (0, 0)


def read_job_settings(given: Iterable[str]) -> dict[str, str]:
    """Return the settings that texts ``NAME=VALUE`` mean; of one name the last.

    Raises:
        SettingsError: one is no such text.

    >>> read_job_settings(["execution.checkpointing.unaligned.enabled=true"])
    {'execution.checkpointing.unaligned.enabled': 'true'}
    """
    settings: dict[str, str] = {}
    for text in given:
        name, is_pair, value = (part.strip() for part in text.partition("="))
        if not (name and is_pair and value):
            raise SettingsError(f"--job-setting: {text!r} is not NAME=VALUE, like execution.checkpointing.unaligned.enabled=true")
        settings[name] = value
    return settings


class ArmFigures(WatchedFigures, frozen=True, kw_only=True):
    """How one job did.

    Attributes:
        subtask_minutes: subtasks of all vertices, summed over the time.
        state_wrong: keys whose count does not go up by one from one.
    """

    subtask_minutes: float
    rescales: int
    state_wrong: int


class FlinkWatch(JobWatch):
    """One job."""

    late_s = 60.0

    def __init__(self, cluster: FlinkCluster, job_id: str, bootstrap: str, topic_out: str) -> None:
        super().__init__(bootstrap, topic_out)
        self._cluster, self._job_id = cluster, job_id

    def figures(self) -> ArmFigures:
        """Read the committed output of a job that has stopped from its beginning, and return the figures."""
        times: Counter[int] = Counter()
        counts: dict[str, Counter[int]] = {}
        for record in read_to_end(self._bootstrap, self._topic_out):
            key, number, count = (record.value() or b"").decode().split(",")
            times[int(number)] += 1
            counts.setdefault(key, Counter())[int(count)] += 1
        return ArmFigures(
            **self._figures(times, self._waiting(times)),
            subtask_minutes=self.size_minutes,
            rescales=max(0, len(self._steps) - 1),
            state_wrong=sum(set(seen) != set(range(1, len(seen) + 1)) or seen.total() != len(seen) for seen in counts.values()),
        )

    def _waiting(self, came_out: Counter[int]) -> int:
        """Return how many records lie after the last of their partition that came out; a source reads a partition in order."""
        waiting: dict[int, int] = {}
        for record in read_to_end(self._bootstrap, TOPIC):
            partition = record.partition() or 0
            waiting[partition] = 0 if number_of(record) in came_out else waiting.get(partition, 0) + 1
        return sum(waiting.values())

    def _sizes_now(self) -> Mapping[str, int]:
        """Return the running parallelism; nothing while vertices restart, for their slots are kept."""
        try:
            return self._cluster.parallelism(self._job_id)
        except OSError:
            return {}


CLUSTER: Final = "flink"
SLOTS: Final = 10
_JOBS_TIMEOUT_S: Final = 90.0
_ENDED: Final = frozenset({"FINISHED", "CANCELED", "FAILED"})


class FlinkReport(ComparisonReport, frozen=True, kw_only=True):
    """Everything a run came to, by job."""

    jobs: dict[str, ArmFigures]
    flink: str
    span_minutes: int
    slow_vertex: SlowVertex
    job_settings: Mapping[str, str]


class FlinkPipeline(ComparisonPipeline):
    """The jobs are named after what scales them."""

    options: FlinkPipelineOptions
    drain_s_max = 30.0

    def __init__(self, options: FlinkPipelineOptions, say: Say = silent) -> None:
        self.jobs = checked_jobs(options.policies, lambda policy: policy == UPSTREAM, "flink_peer", UPSTREAM)
        super().__init__(options, say)

    def _make_ready(self) -> ClusterSettings:
        folder = self.supervisor.folder / "flink"
        self.cluster = FlinkCluster(folder, version=self.options.version, slots=SLOTS, progress=self._say)
        self._jar = job_jar(self.cluster.flink, progress=self._say)
        self._peer = rival("flink_peer", UPSTREAM).Peer(self.cluster.flink, progress=self._say) if UPSTREAM in self.jobs else None
        return ClusterSettings(
            bootstrap=self._broker.bootstrap,
            redis_url=self._redis.url,
            cluster=CLUSTER,
            engine="flink",
            engine_url=self.cluster.rest_url,
            policy=self._policies[0] if self._policies else "target-utilisation",
            seed=self.options.seed,
            span_minutes=self.options.span_minutes,
        )

    @property
    def _policies(self) -> list[str]:
        """The jobs that surescale acts on."""
        return [job for job in self.jobs if job not in (STATIC, UPSTREAM)]

    def start(self) -> None:
        """Bring up servers, jobs and roles, then start the load."""
        self._start_servers(*self.cluster.servers)
        self._create_topics(map(_output, self.jobs))
        self._submit_jobs()
        if self._policies:
            self._publish(map(self._limits, self._policies))
            # Only the jobs that asked for it, and no longer pauses than Flink's own.
            roles = self._roles(
                SURESCALE_JOBS_LABEL=f"{MODE_LABEL}=act", SURESCALE_COOLDOWN_MS="5000", SURESCALE_STABILIZATION_MS="1000"
            )
            self.supervisor.start_together(roles)
        if self._peer is not None:
            logging = self.cluster.folder / "conf" / "log4j.properties"
            command = self._peer.command(self.cluster.rest_url, self._ids[UPSTREAM], self.options, logging)
            self.supervisor.launch(Role(UPSTREAM, command))
        self._start_load()

    def stop_jobs(self) -> None:
        """Stop every job by a savepoint, so that all it has read is committed."""
        self._wait_for_jobs(self._runs, "to run")  # Flink takes no savepoint of a job that is being rescaled
        for flink_job in self._ids.values():
            stop(self.cluster.rest_url, flink_job)
        self._wait_for_jobs(self._has_ended, "to stop")

    def report(self) -> FlinkReport:
        """Return the figures of jobs that have stopped."""
        given = self.options
        return FlinkReport(
            **self._ran(),
            flink=given.version,
            span_minutes=given.span_minutes,
            slow_vertex=given.slow_vertex,
            job_settings=given.job_settings,
        )

    def _submit_jobs(self) -> None:
        parse_rounds, parse_wait_micros = self.options.work("parse")
        count_rounds, count_wait_micros = self.options.work("count")
        self._ids: dict[str, str] = {}
        for job in self.jobs:
            options = JobOptions(
                bootstrap=self.settings.bootstrap,
                from_topic=TOPIC,
                to_topic=_output(job),
                name=job,
                uid_prefix=f"{job}-",
                labels={MODE_LABEL: "act" if job in self._policies else "observe"},
                parse_rounds=parse_rounds,
                parse_wait_micros=parse_wait_micros,
                count_rounds=count_rounds,
                count_wait_micros=count_wait_micros,
                settings=self.options.job_settings,
            )
            self._ids[job] = submit(self.cluster.rest_url, self._jar, options)
        self._wait_for_jobs(self._runs, "to run")
        self._say(f"jobs run: {', '.join(self.jobs)}; {self.cluster.rest_url} is Flink's own page")
        self._watches = {
            job: FlinkWatch(self.cluster, flink_job, self.settings.bootstrap, _output(job))
            for job, flink_job in self._ids.items()
        }

    def _limits(self, job: str) -> JobSettings:
        """Return the limits of a job that is scaled, and its policy."""
        asked = self.options
        name = f"{CLUSTER}/{job}"
        return limits_of(name, most=asked.parallelism_max, catch_up_minutes=asked.catch_up_minutes, by="demo flink")

    def _wait_for_jobs(self, condition: Callable[[str], bool], what: str) -> None:
        self.supervisor.wait(lambda: all(map(condition, self._ids.values())), timeout_s=_JOBS_TIMEOUT_S, what=f"the jobs {what}")

    def _runs(self, job: str) -> bool:
        with contextlib.suppress(OSError):
            return bool(self.cluster.parallelism(job))
        return False

    def _has_ended(self, job: str) -> bool:
        with contextlib.suppress(OSError):
            return self.cluster.get(f"/jobs/{job}")["state"] in _ENDED
        return False


def _output(job: str) -> str:
    return f"{TOPIC}-{job}"
