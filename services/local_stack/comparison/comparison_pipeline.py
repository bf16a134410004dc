"""A pipeline around jobs on a real engine that are compared: Kafka, Redis, one load for all jobs, and the roles beside them.

with SomePipeline(options, say) as pipeline:
    pipeline.start()
    while not pipeline.load.is_over:
        pipeline.look()            # about once a second
    pipeline.stop_jobs()
    report = pipeline.report()

Every job reads the same topic, so all get the same load at the same time. The job `static` is not touched.
"""

import os
import re
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Final

import msgspec
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from surescale.contracts.commands import EventRecord, RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.topics import DECISIONS, RESCHEDULE_COMMANDS, RESCHEDULE_EVENTS
from surescale.policies.registry import check_policy, load_policy, policy_names
from surescale.runtime.topic_records import append_ms, parsed, read_topics
from surescale.services.local_stack.comparison.load import PARTITIONS, TOPIC, Load, Steps, one_step, rates
from surescale.services.local_stack.comparison.phases import Phase, ScalingDelay, ScalingDelays, phases_of
from surescale.services.local_stack.comparison.watch import JobWatch, WatchedFigures
from surescale.services.local_stack.errors import Say
from surescale.services.local_stack.pipeline import Pipeline
from surescale.services.local_stack.roles import pipeline_roles, spark_environment
from surescale.services.local_stack.supervisor import Role
from surescale.simulation.load.workload import load_workload

STATIC: Final = "static"
_TOPIC_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The load.

    Attributes:
        seconds: length of the load; each second is a minute of the trace.
        mean: records a second that the trace is scaled to, before the step.
        step: factor of the load between 20 % and 65 % of the run.
        steps: in its place, the seconds at which the load changes, and its factor from then on.
    """

    workload: str = "clarknet"
    start_minute: int | None = None
    seconds: int
    mean: float
    step: float = 4.0
    steps: Steps = ()
    seed: int = 0

    @property
    def changes(self) -> Steps:
        """When the load changes, and its factor from then on."""
        return self.steps or one_step(self.seconds, self.step)


class ComparisonReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run came to, by job."""

    jobs: Mapping[str, WatchedFigures]
    workload: str
    seconds: int
    mean: float
    step: float
    steps: Steps
    seed: int
    wall_s: float
    phases: Mapping[str, tuple[Phase, ...]]
    waits: tuple[ScalingDelay, ...]


class ComparisonPipeline(Pipeline):
    """``start`` brings everything up, and leaving the ``with`` block takes everything down.

    Attributes:
        jobs: their names.
        drain_s_max: how long after the load the jobs that are scaled may work off what waits.
        by_the_wall: the pipeline's clock is the machine's, so the times of its records say what a change waited for.
    """

    options: LoadOptions
    jobs: list[str]
    drain_s_max: ClassVar[float]
    by_the_wall: ClassVar[bool] = True

    def __init__(self, options: LoadOptions, say: Say) -> None:
        """Check what this machine provides before anything starts.

        Raises:
            StackError: no Java, or a download failed.
            SurescaleError: there is no such policy or trace.
        """
        super().__init__(say)
        self.options = options
        self._rates = rates(
            load_workload(options.workload),
            seconds=options.seconds,
            mean=options.mean,
            steps=options.changes,
            start_minute=options.start_minute,
        )
        self._spark_env = spark_environment(say)
        self._watches: dict[str, JobWatch] = {}

    def __exit__(self, *problem: Any) -> None:
        for watch in self._watches.values():
            watch.close()
        super().__exit__(*problem)

    @abstractmethod
    def stop_jobs(self) -> None:
        """Let every job commit all that it has read, and end."""

    @abstractmethod
    def report(self) -> ComparisonReport:
        """Return the figures of jobs that have stopped."""

    def look(self) -> None:
        """Take what happened since the last look into the figures; raises RoleError if a process has ended."""
        self.supervisor.check()
        for watch in self._watches.values():
            watch.look()

    def is_drained(self) -> bool:
        """Return whether no record waits at a job that is scaled."""
        return all(watch.backlog <= 0 for job, watch in self._watches.items() if job != STATIC)

    def backlog(self, job: str) -> int:
        """Return the records that wait or are worked on."""
        return self._watches[job].backlog

    def sizes(self, job: str) -> Mapping[str, int]:
        """Return the running subtasks or members by task."""
        return self._watches[job].sizes

    def gates(self) -> dict[str, str]:
        """Return the phase of each gate by the job's name."""
        return {job.partition("/")[2]: phase for job, phase in super().gates().items()}

    def _create_topics(self, names: Iterable[str]) -> None:
        admin = AdminClient({"bootstrap.servers": self.settings.bootstrap})
        for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (TOPIC, *names)]).values():
            created.result(_TOPIC_TIMEOUT_S)

    def _roles(self, **more: str) -> list[Role]:
        """Return the roles, in two processes, with more variables in their environment."""
        arguments = ["--master", "local[2]", "--checkpoint", str(self.supervisor.folder / "checkpoint")]
        roles = pipeline_roles(self.settings, self._ports, spark_env=self._spark_env, spark_arguments=arguments, one_process=True)
        return [replace(role, env={**role.env, **more}) for role in roles]

    def _start_load(self) -> None:
        self.load = Load(self.settings.bootstrap, TOPIC, self._rates, self.options.seed)
        self.load.start()

    def _ran(self) -> dict[str, Any]:
        """Return what every `ComparisonReport` says."""
        return {
            "jobs": {job: watch.figures() for job, watch in self._watches.items()},
            "workload": self.options.workload,
            "seconds": self.options.seconds,
            "mean": self.options.mean,
            "step": self.options.step,
            "steps": self.options.changes,
            "seed": self.options.seed,
            "wall_s": round(time.monotonic() - self._began_s, 1),
            "phases": {
                job: phases_of(watch.looks_since(self.load.began_s), self.options.changes, self.load.per_second)
                for job, watch in self._watches.items()
            },
            "waits": self._waits() if self.by_the_wall else (),
        }

    def _waits(self) -> tuple[ScalingDelay, ...]:
        """Return what each change that surescale commanded waited for."""
        found = read_topics(self.settings, [DECISIONS, RESCHEDULE_COMMANDS, RESCHEDULE_EVENTS])
        waits = ScalingDelays()
        for topic, kind in ((DECISIONS, Decision), (RESCHEDULE_COMMANDS, RescheduleCommand), (RESCHEDULE_EVENTS, EventRecord)):
            for message in found[topic]:
                for record in parsed([message], kind):
                    waits.take(record, append_ms(message))
        return waits.found(self.load.began_ms, [at_s for at_s, _ in self.options.changes])


KEDA: Final = "keda"
HPA_CPU: Final = "hpa-cpu"
UPSTREAM: Final = "upstream"
CHECKOUT: Final = Path(__file__).resolve().parents[3]
_OF_GROUPS: Final = re.compile(rf"{KEDA}(-0*[1-9][0-9]*)?|{HPA_CPU}")


def is_rival(policy: str) -> bool:
    """Return whether a chain of consumer groups of this name is scaled by something that is not surescale."""
    return _OF_GROUPS.fullmatch(policy) is not None


def rival(module: str, policy: str) -> ModuleType:
    """Return a module of `benchmarks.rivals` for a policy that is a rival.

    Raises:
        SettingsError: this is not a checkout of the repository.
    """
    if not (CHECKOUT / "benchmarks" / "rivals").is_dir():
        raise SettingsError(f"--policy: only a checkout of the repository has {policy}; run the demo from one, or leave it out")
    if str(CHECKOUT) not in sys.path:
        sys.path.append(str(CHECKOUT))
    return import_module(f"benchmarks.rivals.{module}")


def checked_jobs(policies: Sequence[str], is_rival: Callable[[str], bool], module: str, *rivals: str) -> list[str]:
    """Return the jobs of a run: one for each policy, without repeats.

    ``module`` of `benchmarks.rivals` has those that are rivals; ``rivals`` are their names.

    Raises:
        SurescaleError: there is no such policy, or a rival is not here.
    """
    for policy in policies:
        if is_rival(policy):
            rival(module, policy)
        elif policy != STATIC:
            check_policy(policy, [*policy_names(), *rivals])
            load_policy(policy)
    return list(dict.fromkeys(policies))


def limits_of(job: str, *, most: int, catch_up_minutes: float, by: str) -> JobSettings:
    """Return the limits of a job that is scaled by the policy of its name."""
    return JobSettings(
        job=job,
        version=1,
        mode="act",
        parallelism_max=most,
        policy=job.rpartition("/")[2],
        scale_down_after_minutes=0,  # a short run must show a job that shrinks
        minutes_known_min=1,
        catch_up_minutes=catch_up_minutes,
        set_by=by,
    )


def environment() -> dict[str, str]:
    """Return the variables with which a process of its own finds `benchmarks`."""
    paths = [str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}
