"""The whole pipeline on this machine, as the demo starts it, with a proxy on every connection."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import psutil

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.settings import PipelineSettings
from surescale.engines.settings import ClusterSettings
from surescale.rescaler.control.settings import ControlSettings
from surescale.runtime.http import fetch_json
from surescale.runtime.kafka import admin_client, create_topics
from surescale.runtime.ports import LOOPBACK, free_ports
from surescale.services.local_stack.errors import Say
from surescale.services.local_stack.roles import PipelinePorts, engine_role, pipeline_roles, spark_environment
from surescale.services.local_stack.servers import LocalRedis, LocalServer
from surescale.services.local_stack.supervisor import Role, Supervisor
from tests.support.faults.brokers import ProxiedBroker, ReplicatingBroker
from tests.support.faults.control import open_commands
from tests.support.faults.growth import Look
from tests.support.faults.proxy import Link, Proxies
from tests.support.faults.recording import LiveTopics

CLUSTER = "sim"
JOBS = ("orders", "shop")
PORTS = 30  # asked for at once: a port that is free now and used later may be given twice
SERVICES = ("spark", "monitor", "agent", "rescaler", "state-service")
CLOCKED = ("monitor", "agent", "rescaler", "state-service")
CLOCK = Path(__file__).parent / "clock"
SPAN_MINUTES = 10
WATCHED_MAX = 8
BEHIND_MINUTES_MAX = 4
SETTLE_S = 3.0
OPEN_COMMANDS_S = 60.0
APPLY_S = 60.0
END_WITHIN_S = 60.0
READY_WITHIN_S = 300.0
_LOOK_EVERY_S = 2.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOptions:
    """What runs in the pipeline."""

    minutes: int
    speed: float = 60.0
    seed: int = 0
    policy: str = "sure"
    jobs: tuple[str, ...] = JOBS
    brokers: int = 1
    """One, with a proxy between it and each role, or three that replicate."""
    broker_folder: Path | None = None
    checkpoint_folder: Path | None = None
    clocks_jump: bool = False
    """The wall clock of each role but the Spark job can be moved."""
    fleet: int = 0
    """So many small jobs in place of the others."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the jobs that run, without their cluster."""
        return tuple(f"job-{number:04d}" for number in range(self.fleet)) or self.jobs

    @property
    def watched(self) -> tuple[str, ...]:
        """Return the jobs that are looked at meanwhile: a few of a fleet."""
        return self.names[:: max(1, len(self.names) // WATCHED_MAX)]


@dataclass(slots=True)
class Ended:
    """A role that ended although nobody had killed it."""

    role: str
    lines: list[str]


@dataclass(slots=True)
class FaultPipeline:
    """Servers, engine and roles under a supervisor; a role that ends by itself is started again, as Compose does, and noted."""

    options: FaultOptions
    say: Say
    ended: list[Ended] = field(default_factory=list)
    lives: dict[str, list[Look]] = field(default_factory=dict)
    behind: list[tuple[float, float]] = field(default_factory=list)
    """Event minutes by which the view was behind the clock, and when."""
    links: Proxies = field(default_factory=Proxies)
    brokers: list[LocalServer] = field(default_factory=list)
    redis: LocalRedis = field(init=False)
    settings: PipelineSettings = field(init=False)
    supervisor: Supervisor = field(init=False)
    _roles: dict[str, Role] = field(default_factory=dict)
    _down: set[str] = field(default_factory=set)
    _ports: PipelinePorts = field(init=False)
    _free: Iterator[int] = field(default_factory=lambda: iter(free_ports(PORTS)))
    _proxied_broker: ProxiedBroker | None = None
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _looked_s: float = 0.0

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.supervisor = stack.enter_context(Supervisor(progress=self.say))
            stack.enter_context(self.links)
            folder = self.options.broker_folder or self.supervisor.folder / "kafka"
            if self.options.brokers == 1:
                self._proxied_broker = ProxiedBroker(folder, (*SERVICES, "engine"), self._free)
                self.brokers = [self._proxied_broker]
            else:
                ports = [(next(self._free), next(self._free)) for _ in range(self.options.brokers)]
                self.brokers = [ReplicatingBroker(folder / str(number), number, ports) for number in range(len(ports))]
            self.redis = LocalRedis(self.supervisor.folder / "redis", port=next(self._free))
            self._ports = PipelinePorts(*(next(self._free) for _ in range(7)))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._stack.__exit__(*problem)

    @property
    def checkpoint(self) -> Path:
        """Folder of the Spark job's checkpoint."""
        return self.options.checkpoint_folder or self.supervisor.folder / "checkpoint"

    @property
    def http(self) -> str:
        """Address of the state service's API, with a slash."""
        return f"http://{LOOPBACK}:{self._ports.http}/"

    @property
    def engine_url(self) -> str:
        """Address of the engine itself, behind no proxy."""
        return f"http://{LOOPBACK}:{self._ports.engine}"

    def link(self, name: str) -> Link:
        """Return a proxy by name, e.g. ``spark-kafka``."""
        return self.links.links[name]

    def start(self) -> None:
        """Bring everything up, and start the trace."""
        self._open_links()
        self.settings = ClusterSettings(
            bootstrap=",".join(broker.address for broker in self.brokers),
            redis_url=self.redis.url,
            cluster=CLUSTER,
            engine_url=self.engine_url,
            policy=self.options.policy,
            seed=self.options.seed,
            pipeline_clock=True,
        )
        for server in (*self.brokers, self.redis):
            server.prepare()
            self._roles[server.name] = server.role()
        self.supervisor.start_together(list(self._roles.values()))
        create_topics(self.settings)
        spark = ["--master", "local[2]", "--checkpoint", str(self.checkpoint)]
        roles = pipeline_roles(self.settings, self._ports, spark_env=spark_environment(self.say), spark_arguments=spark)
        engine = engine_role(self.settings, self._ports, self._engine_arguments())
        found = [self._proxied(role) for role in (engine, *roles)]
        self._roles |= {role.name: role for role in found}
        for role in found:
            self.supervisor.launch(role)
        if not self.wait(lambda: all(role.ready() for role in found), READY_WITHIN_S):
            raise TimeoutError(f"the pipeline was not ready within {READY_WITHIN_S:g} s")
        fetch_json(f"{self.engine_url}/clock/start", method="POST")

    # Faults

    def kill(self, *names: str) -> None:
        """Kill processes with SIGKILL; they stay down until ``bring_back``."""
        self._down |= set(names)
        for name in names:
            self.supervisor.kill(name)

    def end(self, name: str) -> None:
        """Ask a process to end (SIGTERM) and wait until it has; it stays down until ``bring_back``."""
        self._down.add(name)
        self._tree(name)[0].terminate()
        if not self.wait(lambda: self.supervisor.has_finished(name), END_WITHIN_S):
            raise TimeoutError(f"{name} did not end within {END_WITHIN_S:g} s")

    def bring_back(self, *names: str) -> None:
        """Start processes that were killed."""
        for name in names:
            self._down.discard(name)
            self.supervisor.launch(self._roles[name])

    @contextlib.contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Stop a process and its children with SIGSTOP for the length of the block."""
        tree = self._tree(name)
        for process in tree:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in tree:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def clock_off(self, name: str, seconds: float) -> Iterator[None]:
        """Put a role's wall clock ahead by so many seconds, or back, for the length of the block."""
        file = self._clock_file(name)
        file.write_text(str(seconds))
        try:
            yield
        finally:
            file.write_text("0")

    # What a person would look at

    def progress(self) -> dict[str, Any]:
        """Return how far the run is, as the engine says."""
        return dict(fetch_json(f"{self.engine_url}/health"))

    def is_current(self) -> bool:
        """Return whether every role is ready, and the view shows the newest windows and the outcome of the newest decision."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, IndexError):
            now_ms = self.progress()["now_ms"]
            if not all(self._roles[name].ready() for name in SERVICES):
                return False
            return all(self._job_is_current(f"{CLUSTER}/{job}", now_ms) for job in self.options.watched)
        return False

    def await_current(self, timeout_s: float) -> bool:
        """Wait until the pipeline is current; return whether it became so."""
        return self.wait(self.is_current, timeout_s)

    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Look after the pipeline until a condition holds; return whether it came to hold in time."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            self.tend()
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def rest(self, seconds: float) -> None:
        """Look after the pipeline while a fault lasts."""
        self.wait(lambda: False, seconds)

    def tend(self) -> None:
        """Start again what ended by itself, and look at memory and handles now and then."""
        for name, role in self._roles.items():
            if name not in self._down and self.supervisor.has_finished(name):
                self.ended.append(Ended(name, self.supervisor.last_log_lines(name, 5)))
                self.say(f"{name}: ended by itself: {' | '.join(self.ended[-1].lines[-2:])}")
                self.supervisor.launch(role)
        if time.monotonic() - self._looked_s > _LOOK_EVERY_S:
            self._looked_s = time.monotonic()
            self._look()

    def settle(self, timeout_s: float) -> bool:
        """Wait for the end of the trace, and until no role writes anything any more; return whether that came.

        A rescaler that lost its session writes nothing for up to half a minute although a command is open: its end is awaited,
        but not demanded, for the clock of a trace that is over stands still. The checker knows which commands had to end.
        """

        def is_over() -> bool:
            with contextlib.suppress(OSError):
                return bool(self.progress()["finished"])
            return False

        if not (self.wait(is_over, timeout_s) and self.await_current(timeout_s)):
            return False
        topics = LiveTopics(self.settings.bootstrap)
        self.wait(lambda: not open_commands(topics), OPEN_COMMANDS_S)
        return self.wait(self._is_quiet, timeout_s)

    def end_writers(self) -> bool:
        """End every role that writes to Kafka, and wait until nothing is written; return whether that came.

        A view and its rebuild are made of the same records only then: at the speed of life a rescaler goes on for minutes.
        """
        for name in SERVICES:
            if name != "state-service":
                self.end(name)
        return self.wait(self._is_quiet, END_WITHIN_S)

    def rebuild_view(self, timeout_s: float) -> bool:
        """Flush Redis, and wait until the state service has built the view again; return whether it did in time."""
        import redis

        with contextlib.closing(redis.Redis.from_url(self.redis.url)) as client:
            before = dict(fetch_json(f"{self.http}health"))["rebuilds"]
            client.flushall()

        def is_rebuilt() -> bool:
            with contextlib.suppress(OSError):
                found = dict(fetch_json(f"{self.http}health"))
                return bool(found["ready"]) and int(found["rebuilds"]) > before
            return False

        return self.wait(is_rebuilt, timeout_s)

    def leader(self, topic: str) -> str:
        """Return the name of the process that leads a topic's first partition."""
        found = admin_client(self.settings).list_topics(topic, timeout=20).topics[topic]
        return f"kafka-{found.partitions[0].leader}"

    def _is_quiet(self) -> bool:
        before = self._ends()
        time.sleep(SETTLE_S)  # nothing can be awaited where the condition is that nothing happens
        return self._ends() == before

    def _ends(self) -> dict[tuple[str, int], int]:
        """Return the end of every partition, without the broker's own topics."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        admin = admin_client(self.settings)
        known = {name: topic for name, topic in admin.list_topics(timeout=20).topics.items() if not name.startswith("__")}
        asked = {TopicPartition(name, number): OffsetSpec.latest() for name in known for number in known[name].partitions}
        return {(at.topic, at.partition): future.result().offset for at, future in admin.list_offsets(asked).items()}

    def _job_is_current(self, job: str, now_ms: int) -> bool:
        seen_ms = now_ms - BEHIND_MINUTES_MAX * MINUTE_MS
        newest_ms = fetch_json(f"{self.http}jobs/{job}")["window"]["record"]["window_end_ms"]
        if newest_ms < seen_ms:
            return False
        span_ms = SPAN_MINUTES * MINUTE_MS
        if seen_ms // span_ms * span_ms <= self.progress()["start_ms"]:
            return True  # no span has ended yet
        latest = fetch_json(f"{self.http}jobs/{job}/decisions?limit=1")[0]
        return bool(latest["record"]["span_end_ms"] >= seen_ms // span_ms * span_ms and latest["outcome"] is not None)

    def _look(self) -> None:
        with contextlib.suppress(OSError, KeyError, TypeError):
            now_ms, jobs = self.progress()["now_ms"], [f"{CLUSTER}/{job}" for job in self.options.watched]
            oldest_ms = min(fetch_json(f"{self.http}jobs/{job}")["window"]["record"]["window_end_ms"] for job in jobs)
            self.behind.append((time.monotonic(), (now_ms - oldest_ms) / MINUTE_MS))
        for name in self._roles:
            with contextlib.suppress(psutil.Error):
                tree = self._tree(name)
                if not tree:
                    continue
                memory, handles = sum(each.memory_info().rss for each in tree), sum(each.num_fds() for each in tree)
                life = self.lives.setdefault(f"{name}/{tree[0].pid}", [])
                life.append(Look(time.monotonic(), memory / 1e6, handles))

    def _tree(self, name: str) -> list[psutil.Process]:
        """Return a role's own process and its children, without the wrapper that the supervisor puts around it."""
        command = [str(word) for word in self._roles[name].command]
        for wrapper in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                if wrapper.cmdline()[-len(command) :] == command:
                    return wrapper.children(recursive=True)
        return []

    def _open_links(self) -> None:
        if self._proxied_broker is not None:
            for role, port in self._proxied_broker.proxied.items():
                self.links.add(Link(f"{role}-kafka", port, self._proxied_broker.behind[role]))
        self.links.add(Link("state-service-redis", next(self._free), self.redis.port))
        for role in ("monitor", "rescaler"):
            self.links.add(Link(f"{role}-engine", next(self._free), self._ports.engine))

    def _proxied(self, role: Role) -> Role:
        env = dict(role.env)
        if self._proxied_broker is not None:
            env["SURESCALE_BOOTSTRAP"] = f"{LOOPBACK}:{self._proxied_broker.proxied[role.name]}"
        if role.name == "state-service":
            env["SURESCALE_REDIS_URL"] = f"redis://{LOOPBACK}:{self.link('state-service-redis').port}/0"
        if role.name == "rescaler":
            # The clock is faster than life, recoveries are not: the default would be over before a killed role is back.
            env["SURESCALE_APPLY_MS_MAX"] = str(max(ControlSettings().apply_ms_max, round(1_000 * APPLY_S * self.options.speed)))
        if f"{role.name}-engine" in self.links.links:
            env["SURESCALE_ENGINE_URL"] = f"http://{LOOPBACK}:{self.link(f'{role.name}-engine').port}"
        if self.options.clocks_jump and role.name in CLOCKED:
            env["PYTHONPATH"] = os.pathsep.join([str(CLOCK), *filter(None, [os.environ.get("PYTHONPATH")])])
            env["FAULTS_CLOCK"] = str(self._clock_file(role.name))
        return replace(role, env=env)

    def _clock_file(self, name: str) -> Path:
        return self.supervisor.folder / f"clock-of-{name}"

    def _engine_arguments(self) -> list[str]:
        options = self.options
        found = ["--pace", "free", "--speed", str(options.speed), "--minutes", str(options.minutes), "--seed", str(options.seed)]
        found += ["--span-minutes", str(SPAN_MINUTES), "--workload", "clarknet", "--load-parallelism", "7"]
        if options.fleet:
            found[-1] = "2"
            found += ["--sample-interval-ms", "60000"]
        for job in options.names:
            found += ["--job", f"{self._fleet_file()}#{job}" if options.fleet else job]
        return found

    def _fleet_file(self) -> Path:
        """Return the file of a fleet's jobs: three tasks in a row each."""
        file = self.supervisor.folder / "fleet.csv"
        if not file.exists():
            rows = ["job,task,upstream,duration_s,stateful"]
            for job in self.options.names:
                rows += [f"{job},parse,,1,no", f"{job},count,parse,2,yes", f"{job},write,count,1,no"]
            file.write_text("\n".join(rows) + "\n")
        return file
