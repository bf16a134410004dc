"""The whole pipeline on this machine as one object: servers, simulated engine, roles and twins under a supervisor.

with LocalPipeline(options, say) as pipeline:
    pipeline.start()
    while not pipeline.engine_report().finished: ...
    report = pipeline.report()
"""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import JobSettings
from surescale.engines.settings import ClusterSettings
from surescale.policies.policy import Policy
from surescale.policies.registry import check_policy, load_policy, policy_names
from surescale.runtime.http import fetch_json
from surescale.runtime.options import JOBS
from surescale.runtime.ports import LOOPBACK
from surescale.services.engine.documents import EngineReport, JobList, JobStatus, ReportedJob
from surescale.services.local_stack.demo_report import ClusterCost, DemoReport, Endpoints, JobCost, JobFigures, PolicyRan, Twins
from surescale.services.local_stack.errors import Say, silent
from surescale.services.local_stack.pipeline import Pipeline
from surescale.services.local_stack.pipeline_figures import all_arrived, read_figures
from surescale.services.local_stack.roles import engine_role, pipeline_roles, spark_environment, surescale
from surescale.services.local_stack.supervisor import Role, Supervisor
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.load.jobs import load_job
from surescale.simulation.load.workload import load_workload
from surescale.simulation.model.worlds import cluster_world

ENDS_WITHIN_S = 3.0


def fetch_engine_report(supervisor: Supervisor, engine_url: str) -> EngineReport:
    """Return the engine's report.

    Raises:
        RoleError: a role has ended. This is preferred to the refused connection that an ending engine causes.
        OSError: the engine does not answer, though no role has ended.
    """
    supervisor.check()
    try:
        return msgspec.convert(fetch_json(f"{engine_url}/report"), EngineReport)
    except OSError:
        # A port closes a moment before the process behind it ends.
        with contextlib.suppress(TimeoutError):
            supervisor.wait(lambda: False, timeout_s=ENDS_WITHIN_S)
        raise


CLUSTER = "sim"
TWINS = ("static", "target-utilisation")
TWINS_TIMEOUT_S = 300.0
LAST_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """What runs in the pipeline: the trace, the jobs, the policy, the pace."""

    workload: str = "online-shop"
    jobs: tuple[str, ...] = JOBS
    minutes: int = 240
    start_minute: int | None = None
    pace: str = "lockstep"
    speed: float | None = None
    seed: int = 0
    policy: str = "sure"
    load_parallelism: float = 7.0
    twins: tuple[str, ...] = TWINS
    world: str = "calm"
    world_seed: int = 0
    rescale: str = "learners"
    kill_host_minutes: tuple[int, ...] = ()
    join_host_minutes: tuple[int, ...] = ()
    standbys: int = 0

    def shared_arguments(self) -> list[str]:
        """Return the options that the engine and the twins share, so that both run the same trace."""
        arguments = ["--workload", self.workload, "--minutes", str(self.minutes), "--seed", str(self.seed)]
        arguments += ["--load-parallelism", str(self.load_parallelism), "--rescale", self.rescale]
        arguments += ["--world", self.world, "--world-seed", str(self.world_seed)]
        for minute in self.kill_host_minutes:
            arguments += ["--kill-host", str(minute)]
        for minute in self.join_host_minutes:
            arguments += ["--join-host", str(minute)]
        for job in self.jobs:
            arguments += ["--job", job]
        if self.start_minute is not None:
            arguments += ["--start-minute", str(self.start_minute)]
        return arguments


class LocalPipeline(Pipeline):
    """``start`` brings everything up, and leaving the ``with`` block takes everything down."""

    def __init__(self, options: PipelineOptions, say: Say = silent) -> None:
        """Check what this machine provides before anything starts.

        Raises:
            StackError: no Java, or a download failed.
            SurescaleError: there is no such policy.
        """
        super().__init__(say)
        self.options = options
        self.policy = _checked(options)
        self._spark_env = spark_environment(say)

    def _make_ready(self) -> ClusterSettings:
        return ClusterSettings(
            bootstrap=self._broker.bootstrap,
            redis_url=self._redis.url,
            cluster=CLUSTER,
            engine_url=f"http://{LOOPBACK}:{self._ports.engine}",
            policy=self.options.policy,
            seed=self.options.seed,
            pipeline_clock=True,
        )

    @property
    def twins_file(self) -> Path:
        """Where the twins leave their figures."""
        return self.supervisor.folder / "twins.json"

    def start(self) -> None:
        """Bring up servers, engine and roles, then start the trace and the twins."""
        self._start_servers()
        self._start_roles()
        fetch_json(f"{self.settings.engine_url}/clock/start", method="POST")
        if self.options.twins:
            self.supervisor.launch(Role("twins", surescale(*self._twin_arguments()), finishes=True))

    def engine_report(self) -> EngineReport:
        """Return the engine's figures so far; raises RoleError if a role has ended."""
        return fetch_engine_report(self.supervisor, self.settings.engine_url)

    def wait_for_minute(self, minutes: int, timeout_s: float = 600.0) -> EngineReport:
        """Wait until this many minutes of the trace have passed (or it has ended) and return the engine's figures."""
        self.supervisor.wait(
            lambda: (seen := self.engine_report()).finished or seen.minutes_done >= minutes,
            timeout_s=timeout_s,
            what=f"minute {minutes} of the trace",
        )
        return self.engine_report()

    def report(self) -> DemoReport:
        """Wait for the twins, count what went over the topics, and return the whole report."""
        engine = self.engine_report()
        if self.options.pace == "free":  # in lockstep the clock has waited for every answer
            windows = engine.minutes_done * len(engine.jobs)
            with contextlib.suppress(TimeoutError):
                self.supervisor.wait(all_arrived(self.settings, windows), timeout_s=LAST_WITHIN_S, poll_s=1.0)
        figures = read_figures(self.settings)
        cost = figures.rent_costs(engine.start_ms + engine.minutes_done * MINUTE_MS)
        twins = self._twins()
        return DemoReport(
            jobs=self._jobs(engine.jobs, twins.jobs, {job: JobCost.of(bill) for job, bill in cost.jobs.items()}),
            rent={**twins.rent, self.options.policy: ClusterCost(round(cost.dollars, 6))},
            counts=figures.counts(),
            rescaling=figures.rescales.rescaling(engine.start_ms),
            freshness_s=figures.freshness_s(engine.start_ms),
            decided_by=figures.decided_by(),
            policy=PolicyRan(self.policy.name, self.policy.sha256),
            window_minutes=self.settings.window_minutes,
            span_minutes=self.policy.span_minutes,
            minutes=self.options.minutes,
            seed=self.options.seed,
            pace=self.options.pace,
            lockstep_misses=engine.misses,
            wall_s=round(time.monotonic() - self._began_s, 1),
            endpoints=Endpoints(kafka=self.settings.bootstrap, redis=self.settings.redis_url, http=self.http_url),
        )

    def _twins(self) -> Twins:
        if not self.options.twins:
            return Twins()
        self.supervisor.wait(lambda: self.supervisor.has_finished("twins"), timeout_s=TWINS_TIMEOUT_S, what="the twins")
        return msgspec.json.decode(self.twins_file.read_bytes(), type=Twins)

    def _jobs(
        self, acted: dict[str, ReportedJob], twins: dict[str, dict[str, JobFigures]], rents: dict[str, JobCost]
    ) -> dict[str, dict[str, JobFigures]]:
        own = self.options.policy
        return {
            job: {own: JobFigures.of(figures, rents.get(job))}
            | {policy: found for policy, found in twins.get(job, {}).items() if policy != own}
            for job, figures in sorted(acted.items())
        }

    def _start_roles(self) -> None:
        self.supervisor.start(engine_role(self.settings, self._ports, self._engine_arguments()))
        self._publish_settings()
        spark = ["--master", "local[2]", "--checkpoint", str(self.supervisor.folder / "checkpoint")]
        roles = pipeline_roles(
            self.settings,
            self._ports,
            spark_env=self._spark_env,
            spark_arguments=spark,
            rescaler_arguments=["--standbys", str(self.options.standbys)],
        )
        self.supervisor.start_together(roles)

    def _engine_arguments(self) -> list[str]:
        arguments = ["--pace", self.options.pace, "--span-minutes", str(self.policy.span_minutes)]
        if self.options.speed is not None:
            arguments += ["--speed", str(self.options.speed)]
        return arguments + self.options.shared_arguments()

    def _twin_arguments(self) -> list[str]:
        arguments = ["policy", "twin", "--span-minutes", str(self.policy.span_minutes), "--out", str(self.twins_file)]
        for policy in self.options.twins:
            arguments += ["--policy", policy]
        return [*arguments, "--standbys", str(self.options.standbys), *self.options.shared_arguments()]

    def _publish_settings(self) -> None:
        """Publish the settings of each simulated job: its limits."""
        limits = []
        for entry in msgspec.convert(fetch_json(f"{self.settings.engine_url}/jobs"), JobList).jobs:
            name = entry.job.partition("/")[2]
            status = msgspec.convert(fetch_json(f"{self.settings.engine_url}/jobs/{name}"), JobStatus)
            scalable = sum(task.scalable for task in status.topology.tasks)
            limits.append(JobSettings(job=entry.job, version=1, total_limit=max(200, 2 * scalable), set_by="demo"))
        self._publish(limits)


def _checked(options: PipelineOptions) -> Policy:
    """Return the policy after reading everything the options name: a typing error costs a second, not a start of the pipeline.

    Raises:
        SurescaleError: policy, trace, job or world is unknown or unreadable, or the trace is too short.
    """
    check_policy(options.policy, policy_names())
    workload = load_workload(options.workload)
    jobs = [load_job(job, workload, options.load_parallelism) for job in options.jobs]
    run = RunOptions(
        minutes=options.minutes,
        start_minute=options.start_minute,
        world=cluster_world(options.world, options.world_seed),
        kill_host_minutes=options.kill_host_minutes,
        join_host_minutes=options.join_host_minutes,
    )
    others = len(SimulatedCluster(jobs, workload, run).topology().hosts) - 1
    if options.standbys > others:
        raise SettingsError(f"--standbys: {options.standbys} copies do not fit on {others} other hosts; give at most {others}")
    return load_policy(options.policy)
