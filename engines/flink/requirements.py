"""What Flink is asked for: a map of all vertices with the least and the most parallelism. Merge, compare, and check beforehand.

Flink takes the whole map or nothing, so a change starts from the map in force. An accepted map is not an applied one.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, takewhile

import msgspec

from surescale.contracts.messages import TaskSpec
from surescale.contracts.topology import slots_needed
from surescale.engines.flink.answers import Bounds, CheckpointConfig, Checkpoints, JobDetail, Requirement, Requirements
from surescale.engines.flink.graph import runs, state_of

# Codes of refusals, for people and programs; each comes with a sentence that names the remedy.
NO_CHECKPOINTS = "NO_CHECKPOINTS"
NOT_ADAPTIVE = "NOT_ADAPTIVE"
REACTIVE_MODE = "REACTIVE_MODE"
BATCH_JOB = "BATCH_JOB"
NOT_RUNNING = "NOT_RUNNING"
SAVEPOINT_UNDER_WAY = "SAVEPOINT_UNDER_WAY"
NO_CHECKPOINT_YET = "NO_CHECKPOINT_YET"
CHECKPOINTS_FAIL = "CHECKPOINTS_FAIL"
UNKNOWN_TASK = "UNKNOWN_TASK"
TASK_FINISHED = "TASK_FINISHED"
TIED_TASKS = "TIED_TASKS"
PARALLELISM_OUT_OF_RANGE = "PARALLELISM_OUT_OF_RANGE"
TOO_FEW_SLOTS = "TOO_FEW_SLOTS"
OTHER_AUTOSCALER = "OTHER_AUTOSCALER"

AUTOSCALER_KEYS = ("job.autoscaler.enabled", "kubernetes.operator.job.autoscaler.enabled")
"""Flink's own autoscaler; the second is the name of its switch before version 1.7."""
AUTOSCALER_ACTS = "job.autoscaler.scaling.enabled"
"""False: it only advises. True where it is not set."""

CHECKPOINTS_FAILED_MAX = 2
"""As many failed checkpoints in a row as make Flink itself rescale without one."""
_IN_PROGRESS, _COMPLETED = "IN_PROGRESS", "COMPLETED"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a change is not even requested."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """What of the cluster bears on a change.

    Attributes:
        free_slots: that no job uses.
        grows: more TaskManagers come when slots are missing.
    """

    free_slots: int
    grows: bool = False


def wanted(requirements: Requirements) -> dict[str, int]:
    """Return the most parallelism asked for, by vertex."""
    return {vertex: requirement.parallelism.upper_bound for vertex, requirement in requirements.items()}


def requirement_id(requirements: Requirements) -> str:
    """Return a name of what is asked for: the same map has the same name in every version of Flink."""
    most = ",".join(f"{vertex}={count}" for vertex, count in sorted(wanted(requirements).items()))
    return hashlib.sha256(most.encode()).hexdigest()[:16]


def merged(requirements: Requirements, targets: Mapping[str, int]) -> Requirements:
    """Return a map with new most parallelism for some vertices.

    The least parallelism stays as it is, so Flink may run fewer subtasks while slots are missing.
    """
    return requirements | {
        vertex: Requirement(
            parallelism=Bounds(lower_bound=min(requirements[vertex].parallelism.lower_bound, target), upper_bound=target)
        )
        for vertex, target in targets.items()
    }


def differences(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, tuple[int | None, int | None]]:
    """Return what differs between two maps of most parallelism: before and now, None where a vertex is missing."""
    pairs = {vertex: (before.get(vertex), now.get(vertex)) for vertex in sorted(before.keys() | now.keys())}
    return {vertex: pair for vertex, pair in pairs.items() if pair[0] != pair[1]}


def grows(configuration: Mapping[str, str]) -> bool:
    """Say whether Flink starts TaskManagers when slots are missing: where Kubernetes or YARN is its resource manager."""
    target = configuration.get("execution.target", "")
    return (
        target.startswith(("kubernetes-", "yarn-"))
        or "kubernetes.cluster-id" in configuration
        or "yarn.application.id" in configuration
    )


def refusal_of_job(
    detail: JobDetail, config: CheckpointConfig, checkpoints: Checkpoints, is_reactive: bool = False
) -> Refusal | None:
    """Return the first reason to rescale a job not at all, or not now; None if there is none.

    Args:
        detail: of the job.
        config: how the job takes checkpoints.
        checkpoints: its newest ones.
        is_reactive: Flink uses all slots there are, and nobody may ask for less.
    """
    return next(chain(_of_the_setup(detail, config, is_reactive), _of_the_moment(detail, checkpoints)), None)


def refusal_of_upgrade(
    detail: JobDetail, config: CheckpointConfig, checkpoints: Checkpoints, *, needs_checkpoint: bool
) -> Refusal | None:
    """Return the first reason not to have a job stopped and submitted again with its state; any scheduler will do.

    ``needs_checkpoint``: it is restored from its last one; else a savepoint is taken.
    """
    found = refusal_of_job(msgspec.structs.replace(detail, scheduler_type=None), config, checkpoints)
    is_about_checkpoints = found is not None and found.code in (NO_CHECKPOINTS, NO_CHECKPOINT_YET, CHECKPOINTS_FAIL)
    return None if is_about_checkpoints and not needs_checkpoint else found


def own_autoscaler(configuration: Mapping[str, str]) -> str:
    """Return the key by which a configuration has Flink's own autoscaler act on jobs; empty: it does not."""

    def says(key: str, word: str) -> bool:
        return configuration.get(key, "").strip().lower() == word

    return "" if says(AUTOSCALER_ACTS, "false") else next((key for key in AUTOSCALER_KEYS if says(key, "true")), "")


def refusal_of_cluster(configuration: Mapping[str, str]) -> Refusal | None:
    """Return the reason to rescale none of the cluster's jobs: Flink's own autoscaler does. None: it does not."""
    key = own_autoscaler(configuration)
    if not key:
        return None
    return Refusal(
        OTHER_AUTOSCALER,
        f"Flink's own autoscaler scales this cluster's jobs ({key}); set that to false in Flink's configuration, or let it "
        "only advise (job.autoscaler.scaling.enabled: false)",
    )


def refusal(targets: Mapping[str, int], tasks: tuple[TaskSpec, ...], cluster: Cluster) -> Refusal | None:
    """Return the first reason not to request a change, None if there is none.

    Args:
        targets: parallelism wanted, by task; all tasks of a tied group that change are named.
        tasks: of the job as it runs.
        cluster: its slots.
    """
    return next(chain(_of_the_tasks(targets, {task.task: task for task in tasks}), _of_the_slots(targets, tasks, cluster)), None)


def _of_the_setup(detail: JobDetail, config: CheckpointConfig, is_reactive: bool) -> Iterator[Refusal]:
    if detail.job_type == "BATCH":
        yield Refusal(BATCH_JOB, "it is a batch job, which ends by itself; only streaming jobs are rescaled")
    if detail.scheduler_type and detail.scheduler_type != "Adaptive":
        yield Refusal(
            NOT_ADAPTIVE,
            f"its scheduler is {detail.scheduler_type}; set jobmanager.scheduler: adaptive in Flink's configuration",
        )
    if is_reactive:
        yield Refusal(
            REACTIVE_MODE, "Flink runs in reactive mode and uses every slot itself; unset scheduler-mode to have it rescaled"
        )
    if not config.takes_checkpoints:
        yield Refusal(
            NO_CHECKPOINTS,
            "it takes no checkpoints, so a rescale would lose its state; set execution.checkpointing.interval",
        )


def _of_the_moment(detail: JobDetail, checkpoints: Checkpoints) -> Iterator[Refusal]:
    if not runs(detail):
        state = "starting" if detail.state == "RUNNING" else state_of(detail.state)
        yield Refusal(NOT_RUNNING, f"it is {state} ({detail.state}); a job is rescaled while it runs")
    if any(each.is_savepoint and each.status == _IN_PROGRESS for each in checkpoints.history):
        yield Refusal(SAVEPOINT_UNDER_WAY, "a savepoint is under way, perhaps for an upgrade; it is rescaled afterwards")
    if checkpoints.latest.completed is None and checkpoints.latest.savepoint is None and checkpoints.latest.restored is None:
        yield Refusal(
            NO_CHECKPOINT_YET,
            "it has completed no checkpoint yet, so a rescale would start it from scratch; wait for one",
        )
    failed = _failed_in_a_row(detail, checkpoints)
    if failed >= CHECKPOINTS_FAILED_MAX:
        yield Refusal(
            CHECKPOINTS_FAIL,
            f"its last {failed} checkpoints failed, so a rescale would repeat much; see them in Flink's web page",
        )


def _failed_in_a_row(detail: JobDetail, checkpoints: Checkpoints) -> int:
    """Return how many checkpoints of the present graph failed since the last completed one. A rescale itself ends one."""
    ended = [
        each
        for each in sorted(checkpoints.history, key=lambda each: -each.id)
        if (each.status == _COMPLETED or each.has_failed) and each.trigger_timestamp >= detail.timestamps.get("CREATED", 0)
    ]
    return len(list(takewhile(lambda each: each.has_failed, ended)))


def _of_the_tasks(targets: Mapping[str, int], tasks: Mapping[str, TaskSpec]) -> Iterator[Refusal]:
    for name, target in targets.items():
        task = tasks.get(name)
        if task is None:
            yield Refusal(UNKNOWN_TASK, f"it has no vertex {name}; the job was changed since the decision")
            continue
        shown = task.label or name
        if task.state == "finished":
            yield Refusal(
                TASK_FINISHED, f"{shown} has finished and cannot be rescaled; leave it out (pin it in the job's settings)"
            )
        if not 1 <= target <= task.max_parallelism:
            yield Refusal(
                PARALLELISM_OUT_OF_RANGE,
                f"{shown} cannot run {target} subtasks: it has {task.max_parallelism} key groups (pipeline.max-parallelism)",
            )
        for other in tasks.values():
            if task.tied and other.tied == task.tied and targets.get(other.task, other.required or other.parallelism) != target:
                yield Refusal(
                    TIED_TASKS, f"{shown} and {other.label or other.task} are connected forward and must have one parallelism"
                )


def _of_the_slots(targets: Mapping[str, int], tasks: tuple[TaskSpec, ...], cluster: Cluster) -> Iterator[Refusal]:
    now, then = slots_needed(tasks), slots_needed(tasks, targets)
    if then > now and then - now > cluster.free_slots and not cluster.grows:
        yield Refusal(
            TOO_FEW_SLOTS,
            f"it would need {then} slots and can have {now + cluster.free_slots}; add TaskManagers, or lower the job's bounds",
        )
