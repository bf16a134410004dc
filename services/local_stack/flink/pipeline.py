"""A pipeline with a real Flink: a session cluster, and one job for each policy compared.

Jobs of a policy are labelled to be acted on; the job `static` is not touched, and that of `upstream` is left to Flink's own
autoscaler.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from contracts.job_settings import JobSettings
from contracts.modes import MODE_LABEL
from contracts.settings import PipelineSettings
from policies.registry import check_policy, load_policy, policy_names
from services.local_stack.comparison.load import TOPIC
from services.local_stack.comparison.pipeline import STATIC, ComparisonPipeline, Report
from services.local_stack.errors import Say, silent
from services.local_stack.flink.cluster import FlinkCluster
from services.local_stack.flink.job import JobOptions, job_jar, stop, submit
from services.local_stack.flink.options import FlinkPipelineOptions, SlowVertex
from services.local_stack.flink.peer import UPSTREAM, Peer
from services.local_stack.flink.watch import ArmFigures, FlinkWatch
from services.local_stack.supervisor import Role

CLUSTER: Final = "flink"
SLOTS: Final = 10
_JOBS_TIMEOUT_S: Final = 90.0
_ENDED: Final = frozenset({"FINISHED", "CANCELED", "FAILED"})


class FlinkReport(Report, frozen=True, kw_only=True):
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
        """Check what this machine provides before anything starts.

        Raises:
            StackError: no Java, or a download failed.
            SurescaleError: there is no such policy or trace.
        """
        self.jobs = _jobs(options.policies)
        super().__init__(options, say)

    def _make_ready(self) -> PipelineSettings:
        folder = self.supervisor.folder / "flink"
        self.cluster = FlinkCluster(folder, version=self.options.version, slots=SLOTS, progress=self._say)
        self._jar = job_jar(self.cluster.flink, progress=self._say)
        self._peer = Peer(self.cluster.flink, progress=self._say) if UPSTREAM in self.jobs else None
        return PipelineSettings(
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
                max_parallelism=64,
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
            job: FlinkWatch(self.cluster, flink_job, self.settings.bootstrap, TOPIC, _output(job))
            for job, flink_job in self._ids.items()
        }

    def _limits(self, job: str) -> JobSettings:
        """Return the limits of a job that is scaled, and its policy."""
        return JobSettings(
            job=f"{CLUSTER}/{job}",
            version=1,
            mode="act",
            parallelism_max=self.options.parallelism_max,
            policy=job,
            scale_down_after_minutes=0,  # a short run must show a job that shrinks
            minutes_known_min=1,
            catch_up_minutes=self.options.catch_up_minutes,
            set_by="flink-demo",
        )

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


def _jobs(policies: Sequence[str]) -> list[str]:
    """Return the jobs of a run: one for each policy, without repeats.

    Raises:
        SurescaleError: there is no such policy.
    """
    for policy in policies:
        if policy not in (STATIC, UPSTREAM):
            check_policy(policy, [*policy_names(), UPSTREAM])
            load_policy(policy)
    return list(dict.fromkeys(policies))


def _output(job: str) -> str:
    return f"{TOPIC}-{job}"
