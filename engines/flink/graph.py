"""A job's details as Flink tells them -> the tasks of a topology.

A task's id is its vertex id: a hash of the operator's uid, so it stays the same over restarts, rescales and upgrades. Its label
is the vertex' name.
"""

from collections.abc import Mapping
from typing import Literal

from surescale.contracts.messages import Checkpointing, Input, JobState, TaskSpec
from surescale.engines.flink.answers import CheckpointConfig, Checkpoints, JobDetail, PlanInput, Requirements, Vertex

KEY_GROUPS_MAX = 32_768
"""Flink's limit; also the maximum parallelism of a vertex whose own is unknown."""
LABEL_LENGTH_MAX = 256

_STATES: Mapping[str, JobState] = {
    "INITIALIZING": "created",
    "CREATED": "created",  # waiting for slots; every vertex is shown with parallelism 1
    "RUNNING": "running",
    "FAILING": "restarting",
    "RESTARTING": "restarting",
    "RECONCILING": "restarting",
    "SUSPENDED": "suspended",
    "FAILED": "failed",
    "CANCELLING": "finished",
    "CANCELED": "finished",
    "FINISHED": "finished",
}
_SHIPS: Mapping[str, Literal["forward", "hash", "rebalance", "rescale", "broadcast"]] = {
    "FORWARD": "forward",
    "HASH": "hash",
    "REBALANCE": "rebalance",
    "RESCALE": "rescale",
    "BROADCAST": "broadcast",
}


def state_of(flink_state: str) -> JobState:
    """Return a job's state in our words; one that this version does not know counts as restarting, so nobody acts on it."""
    return _STATES.get(flink_state, "restarting")


def is_over(flink_state: str) -> bool:
    """Say whether a job has ended for good, or is about to."""
    return state_of(flink_state) in ("finished", "failed")


def runs(detail: JobDetail) -> bool:
    """Say whether the job and all its vertices run, or have finished: only then is the parallelism shown the one in force."""
    return detail.state == "RUNNING" and all(vertex.status in ("RUNNING", "FINISHED") for vertex in detail.vertices)


def tasks_of(
    detail: JobDetail,
    requirements: Requirements | None = None,
    *,
    last: Mapping[str, int] | None = None,
    partitions: Mapping[str, int] | None = None,
) -> tuple[TaskSpec, ...]:
    """Return the tasks of a job, in Flink's order. Empty while Flink has not built the graph.

    Args:
        detail: of the job.
        requirements: what Flink is asked for; None if the job's scheduler cannot be asked, then no task is scalable.
        last: parallelism that last ran, by vertex; used while the job does not run, as Flink shows 1 then.
        partitions: of the topics that a source reads, by vertex: more subtasks than that would get no records.
    """
    inputs = {node.id: tuple(_input(edge) for edge in node.inputs) for node in detail.plan.nodes}
    ties = tied_groups(inputs)
    is_running, last = detail.state == "RUNNING", last or {}
    return tuple(
        TaskSpec(
            task=vertex.id,
            label=vertex.name[:LABEL_LENGTH_MAX],
            upstream=tuple(dict.fromkeys(each.task for each in inputs.get(vertex.id, ()))),
            inputs=inputs.get(vertex.id, ()),
            tied=ties.get(vertex.id, ""),
            parallelism=vertex.parallelism if is_running else last.get(vertex.id, required_of(requirements, vertex)),
            max_parallelism=max_parallelism_of(vertex),
            vnodes=max_parallelism_of(vertex),
            required=required_of(requirements, vertex) if requirements is not None else None,
            useful_max=(partitions or {}).get(vertex.id),
            scalable=requirements is not None and vertex.status != "FINISHED",
            sharing_group=vertex.slot_sharing_group_id or "default",
            state=_task_state(vertex),
        )
        for vertex in detail.vertices
    )


def max_parallelism_of(vertex: Vertex) -> int:
    """Return the number of key groups of a vertex, which bounds its parallelism."""
    return min(vertex.max_parallelism, KEY_GROUPS_MAX) if vertex.max_parallelism > 0 else KEY_GROUPS_MAX


def required_of(requirements: Requirements | None, vertex: Vertex) -> int:
    """Return the parallelism that Flink is asked for; what it shows where it cannot be asked."""
    known = (requirements or {}).get(vertex.id)
    return max(1, known.parallelism.upper_bound if known is not None else vertex.parallelism)


def tied_groups(inputs: Mapping[str, tuple[Input, ...]]) -> dict[str, str]:
    """Return the group of each task that is connected forward; the group is named after one of its tasks.

    A forward edge hands each subtask's records to the subtask of the same number. With unequal parallelism some subtasks would
    get no records at all, so both ends keep one parallelism.

    Args:
        inputs: edges into each task.
    """
    root: dict[str, str] = {}

    def find(task: str) -> str:
        while root.setdefault(task, task) != task:
            task = root[task]
        return task

    for task, edges in inputs.items():
        for edge in edges:
            if edge.ship == "forward":
                root[find(task)] = find(edge.task)
    return {task: find(task) for task in root}


def checkpointing_of(config: CheckpointConfig, checkpoints: Checkpoints) -> Checkpointing:
    """Return how a job takes checkpoints, if it takes any."""
    if not config.takes_checkpoints:
        return Checkpointing(interval_ms=None)
    done = checkpoints.latest.completed
    return Checkpointing(
        interval_ms=min(config.interval, 2**53),
        exactly_once=config.mode == "exactly_once",
        unaligned=config.unaligned_checkpoints,
        last_completed_ms=done.latest_ack_timestamp if done is not None and done.latest_ack_timestamp >= 0 else None,
        last_duration_ms=max(0, done.end_to_end_duration) if done is not None else None,
        last_bytes=max(0, done.state_size) if done is not None else None,
    )


def _input(edge: PlanInput) -> Input:
    return Input(task=edge.id, ship=_SHIPS.get(edge.ship_strategy, "other"))


def _task_state(vertex: Vertex) -> Literal["running", "starting", "finished"]:
    if vertex.status == "FINISHED":
        return "finished"
    return "running" if vertex.status == "RUNNING" else "starting"
