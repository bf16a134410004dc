"""A pipeline with a chain of three consumer groups for each policy compared.

surescale scales the chains of its policies, a rival (`rivals`) its own; the chain `static` is not touched. The clock of the
pipeline and of the rivals runs several times as fast as the wall's, so that all decide every few seconds; all else happens as it
does.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from contracts.clock import MINUTE_MS
from contracts.job_settings import JobSettings, Mode
from contracts.messages import ClockSegment
from contracts.settings import PipelineSettings
from contracts.topics import CLOCK
from engines.processes.worker_store import WorkerStore
from policies.registry import check_policy, load_policy, policy_names
from runtime.topic_records import send
from services.local_stack.comparison.load import PARTITIONS
from services.local_stack.comparison.pipeline import STATIC, ComparisonPipeline, LoadOptions, Report
from services.local_stack.consumers.chain import OWNER, STAGES, outputs, write_groups_file
from services.local_stack.consumers.presence import hold
from services.local_stack.consumers.rivals import cpu_request
from services.local_stack.consumers.rivals.run import HPA_CPU, KEDA, is_rival
from services.local_stack.consumers.watch import ChainFigures, ChainWatch
from services.local_stack.errors import Say, silent
from services.local_stack.supervisor import Role

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


class ConsumersReport(Report, frozen=True, kw_only=True):
    """Everything a run came to, by chain."""

    jobs: dict[str, ChainFigures]
    speed: float


class ConsumersPipeline(ComparisonPipeline):
    """The chains are named after what scales them. The workers end by themselves when this process does, however it ends."""

    options: ConsumersPipelineOptions
    drain_s_max = 15.0
    by_the_wall = False

    def __init__(self, options: ConsumersPipelineOptions, say: Say = silent) -> None:
        """Check what this machine provides before anything starts.

        Raises:
            StackError: no Java, or a download failed.
            SurescaleError: there is no such policy or trace.
        """
        self.jobs = _jobs(options.policies)
        super().__init__(options, say)

    def _make_ready(self) -> PipelineSettings:
        folder = self.supervisor.folder / "workers"
        folder.mkdir()
        self._presence = hold(folder / OWNER)
        groups_file = folder / "groups.json"
        modes: dict[str, Mode] = {job: "act" if job in self._policies else "observe" for job in self.jobs}
        write_groups_file(groups_file, self._broker.bootstrap, modes)
        return PipelineSettings(
            bootstrap=self._broker.bootstrap,
            redis_url=self._redis.url,
            cluster=CLUSTER,
            engine="kafka",
            actuator="processes",
            groups_file=str(groups_file),
            workers_folder=str(folder),
            workers_max=len(self.jobs) * len(STAGES) * PARTITIONS,  # no chain takes another's place
            policy=self._policies[0] if self._policies else "target-utilisation",
            seed=self.options.seed,
            span_minutes=1,
            road_clock=True,
        )

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)
        self._presence.close()

    @property
    def _policies(self) -> list[str]:
        """The chains that surescale acts on."""
        return [job for job in self.jobs if job != STATIC and not is_rival(job)]

    def start(self) -> None:
        """Bring up servers, roles and workers, then start the load."""
        self._start_servers()
        self._create_topics([*outputs(self.jobs), *([cpu_request.TOPIC, cpu_request.OUTPUT] if HPA_CPU in self.jobs else [])])
        self._publish_clock()
        self._publish(map(_limits, self._policies))
        self.supervisor.start_together(self._roles(SURESCALE_COOLDOWN_MS="60000", SURESCALE_STABILIZATION_MS="1000"))
        self._watches = {job: ChainWatch(self.settings.bootstrap, job) for job in self.jobs}
        self.supervisor.wait(self._all_joined, timeout_s=_STARTED_WITHIN_S, what="the workers to join their groups", poll_s=0.5)
        for rival in filter(is_rival, self.jobs):
            self.supervisor.launch(Role(rival, self._command_of(rival)))
        self._start_load()

    def stop_jobs(self) -> None:
        """Let every worker finish what it has in hand, commit, and end."""
        store = WorkerStore(Path(self.settings.workers_folder), CLUSTER)
        for job in self.jobs:
            store.stop(job)
        self.supervisor.wait(
            lambda: not any(map(store.workers, self.jobs)), timeout_s=_STOPPED_WITHIN_S, what="the workers to end"
        )

    def report(self) -> ConsumersReport:
        """Return the figures of chains that have stopped."""
        return ConsumersReport(**self._ran(), speed=self.options.speed)

    def _command_of(self, rival: str) -> list[str]:
        command = [sys.executable, "-P", "-m", "services.local_stack.consumers.rivals.run", "--rival", rival]
        command += ["--bootstrap", self.settings.bootstrap, "--workers", self.settings.workers_folder, "--cluster", CLUSTER]
        command += ["--speed", str(self.options.speed), "--replicas-max", str(PARTITIONS)]
        if rival == HPA_CPU:
            requests = cpu_request.busy_cores(self.settings, Path(self.settings.workers_folder), self.supervisor)
            words = ", ".join(f"{task} {cores:.3f}" for task, cores in requests.items())
            self._say(f"{rival}: a busy worker uses so many cores, which is its pod's request: {words}")
            command += [part for task, cores in requests.items() for part in ("--request", f"{task}={cores}")]
        return command

    def _publish_clock(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        clock = ClockSegment(
            road=self.settings.road,
            sequence=1,
            e0_ms=now_ms // MINUTE_MS * MINUTE_MS,
            w0_ms=now_ms,
            speed=self.options.speed,
            until_ms=2**52,
        )
        send(self.settings, CLOCK, clock.road, clock)

    def _all_joined(self) -> bool:
        for watch in self._watches.values():
            watch.look()
        return all(min(watch.sizes.values(), default=0) > 0 for watch in self._watches.values())


def _limits(job: str) -> JobSettings:
    """Return the limits of a chain that surescale scales, and its policy."""
    return JobSettings(
        job=f"{CLUSTER}/{job}",
        version=1,
        mode="act",
        parallelism_max=PARTITIONS,
        policy=job,
        scale_down_after_minutes=0,  # a short run must show a job that shrinks
        minutes_known_min=1,
        catch_up_minutes=CATCH_UP_MINUTES,
        set_by="demo-consumers",
    )


def _jobs(policies: Sequence[str]) -> list[str]:
    """Return the chains of a run: one for each policy, without repeats.

    Raises:
        SurescaleError: there is no such policy.
    """
    for policy in policies:
        if policy != STATIC and not is_rival(policy):
            check_policy(policy, [*policy_names(), KEDA, HPA_CPU])
            load_policy(policy)
    return list(dict.fromkeys(policies))
