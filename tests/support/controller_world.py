"""A small cluster, a job and decisions for tests of the rescaler's controller."""

from collections.abc import Mapping, Sequence

import msgspec

from surescale.contracts.commands import Outcome, Progress, RescheduleCommand
from surescale.contracts.decisions import Decision, PolicyUsed, TaskDecision
from surescale.contracts.ids import Cluster, decision_id
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClusterTopology, EngineEvent, Host, JobTopology, TaskSpec
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.settings import ControlSettings
from surescale.rescaler.control.world import View

CLUSTER = Cluster("sim")
JOB, OTHER_JOB = "sim/clicks", "sim/orders"
MINUTE_MS = 60_000
START_MS = 600_000  # decisions in the tests come later; the job runs since 0


def cluster(hosts: int = 3, units_each: int = 4, **states: str) -> ClusterTopology:
    """Hosts h0, h1, ... with units 0, 1, 2, ... in order; ``states`` names hosts that are not running."""
    return ClusterTopology(
        cluster=CLUSTER,
        version=1,
        at_ms=0,
        hosts=tuple(
            Host(
                host=f"h{index}",
                units=tuple(range(index * units_each, (index + 1) * units_each)),
                state=states.get(f"h{index}", "running"),  # type: ignore[arg-type]
            )
            for index in range(hosts)
        ),
    )


def job(
    name: str = JOB, units: Sequence[int] = (0, 4), *, generation: int = 0, state: str = "running", tasks: Sequence[TaskSpec] = ()
) -> JobTopology:
    """A chain source -> map -> join -> sink; map and the stateful join run on ``units``."""
    wide = {"parallelism": len(units), "units": tuple(units)}
    chain = (
        TaskSpec(task="source", scalable=False, max_parallelism=1, units=(units[0],)),
        TaskSpec(task="map", upstream=("source",), **wide),  # type: ignore[arg-type]
        TaskSpec(task="join", upstream=("map",), stateful=True, **wide),  # type: ignore[arg-type]
        TaskSpec(task="sink", upstream=("join",), scalable=False, max_parallelism=1, units=(units[0],)),
    )
    return JobTopology(
        job=name,
        version=1 + generation,
        at_ms=0,
        tasks=tuple(tasks) or chain,
        generation=generation,
        state=state,  # type: ignore[arg-type]
    )


def view(*jobs: JobTopology, hosts: ClusterTopology | None = None, **settings: object) -> View:
    """The jobs (default: one) on a cluster of three hosts with four units each; ``settings`` are those of every job."""
    seen = {topology.job: topology for topology in jobs or (job(),)}
    allowed = {name: JobSettings(job=name, **settings) for name in seen}  # type: ignore[arg-type]
    return View(cluster=hosts or cluster(), jobs=seen, settings=allowed)


def decision(
    at_ms: int, wanted: Mapping[str, int] | None = None, *, of: str = JOB, floor: int = 0, policy: str = "rule"
) -> Decision:
    """An act for the tasks in ``wanted``, or a hold without."""
    tasks = {"map": 2} if wanted is None else wanted
    return Decision(
        decision_id=decision_id(of, at_ms, policy),
        job=of,
        span_end_ms=at_ms,
        window_id=f"{of}@{at_ms}",
        policy=PolicyUsed(name=policy),
        seed=0,
        settings_version=0,
        topology_version=1,
        action="hold" if wanted is None else "act",
        reason="as the test wants",
        completeness=1.0,
        minutes_known=60,
        tasks=tuple(
            TaskDecision(task=task, current=2, ratio=1.0, proposed=count, desired=count, floor=floor)
            for task, count in tasks.items()
        ),
    )


def ended(command: RescheduleCommand, at_ms: int, status: str = "applied", code: str = "", units: Sequence[int] = ()) -> Progress:
    """The end of a command (or, with another status, news of it)."""
    return Progress(
        cluster=CLUSTER,
        job=command.job,
        command_id=command.command_id,
        desired_generation=command.desired_generation,
        status=status,  # type: ignore[arg-type]
        at_ms=at_ms,
        code=code,
        units=tuple(units),
    )


def checkpoint(at_ms: int, sequence: int, *, of: str = JOB, completed: bool = True) -> EngineEvent:
    """A checkpoint of a job, as the engine tells of it."""
    kind = "checkpoint_completed" if completed else "checkpoint_failed"
    return EngineEvent(cluster=CLUSTER, sequence=sequence, at_ms=at_ms, kind=kind, job=of)  # type: ignore[arg-type]


def without_units(topology: JobTopology) -> JobTopology:
    """The job as it waits after it has lost every unit."""
    bare = tuple(msgspec.structs.replace(spec, units=()) for spec in topology.tasks)
    return msgspec.structs.replace(topology, tasks=bare, state="waiting", version=topology.version + 1)


def controller(**settings: object) -> Controller:
    """A controller without memory."""
    return Controller(CLUSTER, ControlSettings(**settings))  # type: ignore[arg-type]


def resumed(effects: Sequence[Effects], **settings: object) -> Controller:
    """A controller that knows only what was written down."""
    latest = {record.key: record.record for each in effects for record in each.records}
    records = [record for _, record in sorted(latest.items()) if record is not None]
    return Controller(CLUSTER, ControlSettings(**settings), records)  # type: ignore[arg-type]


def said(effects: Effects) -> list[tuple[str, str]]:
    """Status and reason of each outcome."""
    return [(outcome.status, outcome.reason) for outcome in effects.outcomes]


def only(effects: Effects) -> Outcome:
    """The one outcome."""
    (outcome,) = effects.outcomes
    return outcome


def carried_out(topology: JobTopology, command: RescheduleCommand) -> JobTopology:
    """The topology after an engine has done what the command says."""
    changes = {change.task: change for change in command.changes}
    tasks = []
    for spec in topology.tasks:
        change = changes.get(spec.task)
        fields = {name: getattr(spec, name) for name in spec.__struct_fields__}
        if change is not None:
            fields |= {"parallelism": change.after, "units": change.units}
        tasks.append(TaskSpec(**fields))
    return JobTopology(
        job=topology.job,
        version=topology.version + 1,
        at_ms=topology.at_ms,
        tasks=tuple(tasks),
        generation=command.desired_generation,
        attempt=topology.attempt + 1,
    )
