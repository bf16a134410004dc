"""The whole road on this machine as one object: servers, simulated engine, roles and twins under a supervisor.

with LocalRoad(options, say) as road:
    road.start()
    while not road.engine_report()["finished"]: ...
    report = road.report()
"""

import contextlib
import json
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from contracts.clock import MINUTE_MS
from contracts.errors import SettingsError, SurescaleError
from contracts.messages import JobSettings
from contracts.settings import RoadSettings
from contracts.topics import JOB_SETTINGS, TopicNames
from contracts.wire import encode
from policies.policy import Policy
from policies.registry import load_policy, policy_names
from runtime.kafka import create_topics, producer
from services.stack.broker import LocalBroker
from services.stack.errors import Progress, silent
from services.stack.ports import LOOPBACK
from services.stack.redis_server import LocalRedis
from services.stack.report import read_figures
from services.stack.road import RoadPorts, engine_role, road_roles, spark_environment, surescale
from services.stack.supervisor import Role, Supervisor
from simulation.engine import RunOptions, SimulatedCluster
from simulation.jobs import load_job
from simulation.workload import load_workload

CLUSTER = "sim"
DEFAULT_JOBS = ("j_1351665", "j_3803524")
TWINS = ("static", "target-utilisation")
FIGURES = ("reward", "latency_mean_s", "latency_p99_s", "utilisation", "task_minutes", "rescales", "overload_minutes")
TWINS_TIMEOUT_S = 300.0
ENDS_WITHIN_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoadOptions:
    """What runs on the road: the trace, the jobs, the policy, the pace."""

    workload: str = "clarknet"
    jobs: tuple[str, ...] = DEFAULT_JOBS
    minutes: int = 240
    start_minute: int | None = None
    pace: str = "lockstep"
    speed: float | None = None
    seed: int = 0
    policy: str = "sure"
    load_parallelism: float = 7.0
    twins: tuple[str, ...] = TWINS
    rescale: str = "learners"
    kill_host_minutes: tuple[int, ...] = ()
    join_host_minutes: tuple[int, ...] = ()
    standbys: int = 0

    def shared_arguments(self) -> list[str]:
        """Return the options that engine and twins share, so that both run the same trace."""
        arguments = ["--workload", self.workload, "--minutes", str(self.minutes), "--seed", str(self.seed)]
        arguments += ["--load-parallelism", str(self.load_parallelism), "--rescale", self.rescale]
        for minute in self.kill_host_minutes:
            arguments += ["--kill-host", str(minute)]
        for minute in self.join_host_minutes:
            arguments += ["--join-host", str(minute)]
        for job in self.jobs:
            arguments += ["--job", job]
        if self.start_minute is not None:
            arguments += ["--start-minute", str(self.start_minute)]
        return arguments


class LocalRoad:
    """Owns the supervisor; ``start`` brings everything up, leaving the ``with`` block takes everything down."""

    def __init__(self, options: RoadOptions, say: Progress = silent) -> None:
        """Check what the machine has before anything starts.

        Raises:
            StackError: no Java, or a download failed.
            SurescaleError: there is no such policy.
        """
        self.options = options
        self._say = say
        self._began_s = time.monotonic()
        self.policy = _checked(options)
        self._spark_env = spark_environment(say)
        self.supervisor = Supervisor(progress=say)
        self._ports = RoadPorts.free()

    def __enter__(self) -> Self:
        self.supervisor.__enter__()
        try:
            self._choose_servers()
        except BaseException:
            self.supervisor.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *problem: Any) -> None:
        self.supervisor.__exit__(*problem)

    def _choose_servers(self) -> None:
        self._broker = LocalBroker(self.supervisor.folder / "kafka", progress=self._say)
        self._redis = LocalRedis(self.supervisor.folder / "redis")
        self.settings = RoadSettings(
            bootstrap=self._broker.bootstrap,
            redis_url=self._redis.url,
            cluster=CLUSTER,
            engine_url=f"http://{LOOPBACK}:{self._ports.engine}",
            policy=self.options.policy,
            seed=self.options.seed,
            road_clock=True,
        )

    @property
    def http_url(self) -> str:
        """The HTTP API of the state projector."""
        return f"http://{LOOPBACK}:{self._ports.http}/"

    @property
    def twins_file(self) -> Path:
        """Where the twins leave their figures."""
        return self.supervisor.folder / "twins.json"

    def start(self) -> None:
        """Bring up servers, engine and roles, then start the trace and the twins.

        Raises:
            StackError: a process ended or was not ready in time; the message shows its last log lines.
        """
        self._start_servers()
        self._start_roles()
        fetch_json(f"{self.settings.engine_url}/clock/start", method="POST")
        if self.options.twins:
            self.supervisor.launch(Role("twins", surescale(*self._twin_arguments()), finishes=True))

    def engine_report(self) -> dict[str, Any]:
        """Return the engine's figures so far; raises StackError when a role has ended."""
        self.supervisor.check()
        try:
            report: dict[str, Any] = fetch_json(f"{self.settings.engine_url}/report")
        except OSError:
            self._blame_who_ends()
            raise
        return report

    def _blame_who_ends(self) -> None:
        """Raise StackError if a role ends within a moment: a port closes before the process behind it has ended."""
        with contextlib.suppress(TimeoutError):
            self.supervisor.wait(lambda: False, timeout_s=ENDS_WITHIN_S)

    def gates(self) -> dict[str, str]:
        """Return the phase of each job's gate, as the state service shows it; nothing while that is away."""
        try:
            found: dict[str, str] = {job["job"]: job["gate_phase"] for job in fetch_json(f"{self.http_url}jobs")}
        except OSError:
            return {}
        return found

    def wait_for_minute(self, minutes: int, timeout_s: float = 600.0) -> dict[str, Any]:
        """Wait until so many minutes of the trace have passed (or it has ended) and return the engine's figures."""
        self.supervisor.wait(
            lambda: (seen := self.engine_report())["finished"] or seen["minutes_done"] >= minutes,
            timeout_s=timeout_s,
            what=f"minute {minutes} of the trace",
        )
        return self.engine_report()

    def report(self) -> dict[str, Any]:
        """Wait for the twins, count what went over the topics, and return the whole report."""
        engine = self.engine_report()
        figures = read_figures(self.settings)
        cost = figures.rents(engine["start_ms"] + engine["minutes_done"] * MINUTE_MS)
        rents = {job: bill.document() for job, bill in cost.jobs.items()}
        twins = self._twins()
        jobs = self._jobs(engine["jobs"], twins.get("jobs", {}), rents)
        return {
            "jobs": jobs,
            "rent": {**twins.get("rent", {}), self.options.policy: {"dollars": round(cost.dollars, 6)}},
            "counts": figures.counts(),
            "rescaling": figures.rescales.document(engine["start_ms"]),
            "freshness_s": figures.freshness_s(engine["start_ms"]),
            "policy": {"name": self.policy.name, "sha256": self.policy.sha256},
            "window_minutes": self.settings.window_minutes,
            "span_minutes": self.policy.span_minutes,
            "minutes": self.options.minutes,
            "seed": self.options.seed,
            "pace": self.options.pace,
            "lockstep_misses": engine["misses"],
            "wall_s": round(time.monotonic() - self._began_s, 1),
            "endpoints": {"kafka": self.settings.bootstrap, "redis": self.settings.redis_url, "http": self.http_url},
        }

    def _twins(self) -> dict[str, Any]:
        if not self.options.twins:
            return {}
        self.supervisor.wait(lambda: self.supervisor.has_finished("twins"), timeout_s=TWINS_TIMEOUT_S, what="the twins")
        found: dict[str, Any] = json.loads(self.twins_file.read_text())
        return found

    def _jobs(self, acted: dict[str, Any], twins: dict[str, Any], rents: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {
            job: {self.options.policy: _public(figures | {"rent": rents.get(job)})}
            | {policy: _public(found) for policy, found in twins.get(job, {}).items() if policy != self.options.policy}
            for job, figures in sorted(acted.items())
        }

    def _start_servers(self) -> None:
        servers = (self._broker, self._redis)
        for server in servers:
            server.prepare()
        self.supervisor.start_together(
            [Role(server.name, server.command(), ready=server.answers, stop_grace_s=server.stop_grace_s) for server in servers]
        )
        create_topics(self.settings)

    def _start_roles(self) -> None:
        self.supervisor.start(engine_role(self.settings, self._ports, self._engine_arguments()))
        self._publish_settings()
        spark = ["--master", "local[2]", "--checkpoint", str(self.supervisor.folder / "checkpoint")]
        roles = road_roles(
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
        arguments = ["twin", "--span-minutes", str(self.policy.span_minutes), "--output", str(self.twins_file)]
        for policy in self.options.twins:
            arguments += ["--policy", policy]
        return [*arguments, "--standbys", str(self.options.standbys), *self.options.shared_arguments()]

    def _publish_settings(self) -> None:
        """Tell the road what each job may use: the simulated job's own limits."""
        client, full = producer(self.settings), TopicNames(self.settings.topic_prefix)
        for entry in fetch_json(f"{self.settings.engine_url}/jobs")["jobs"]:
            name = entry["job"].partition("/")[2]
            tasks = fetch_json(f"{self.settings.engine_url}/jobs/{name}")["topology"]["tasks"]
            scalable = sum(task["scalable"] for task in tasks)
            limits = JobSettings(job=entry["job"], version=1, total_limit=max(200, 2 * scalable), set_by="demo")
            client.produce(full(JOB_SETTINGS), key=entry["job"], value=encode(limits))
        if client.flush(30.0):
            raise SurescaleError("Kafka did not take the job settings within 30 s")


def _checked(options: RoadOptions) -> Policy:
    """Read what the options name, so that a slip costs a second and not a start of the whole road; return the policy.

    Raises:
        SurescaleError: policy, trace or job is unknown or unreadable, or the trace is too short.
    """
    if options.policy not in policy_names():
        raise SettingsError(f"--policy: there is no policy {options.policy!r}; known: {', '.join(policy_names())}")
    workload = load_workload(options.workload)
    jobs = [load_job(job, workload, options.load_parallelism) for job in options.jobs]
    run = RunOptions(
        minutes=options.minutes,
        start_minute=options.start_minute,
        kill_host_minutes=options.kill_host_minutes,
        join_host_minutes=options.join_host_minutes,
    )
    SimulatedCluster(jobs, workload, run)
    return load_policy(options.policy)


def fetch_json(url: str, method: str = "GET") -> Any:
    """Return what a role on loopback answers; never through a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, method=method), timeout=30) as answer:
        return json.load(answer)


def _public(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: figures[name] for name in (*FIGURES, "parallelism", "rent")}
