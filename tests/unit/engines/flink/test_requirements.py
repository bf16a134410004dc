"""The map of requirements: merged, compared, and checked before anybody asks for it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.messages import TaskSpec
from surescale.engines.flink.answers import (
    NEVER_MS,
    Bounds,
    Checkpoint,
    CheckpointConfig,
    Checkpoints,
    JobDetail,
    LatestCheckpoints,
    Requirement,
    Requirements,
    Vertex,
)
from surescale.engines.flink.requirements import Cluster, differences, grows, merged, refusal, refusal_of_job, wanted

TASKS = (
    TaskSpec(task="source", label="Source: orders", parallelism=2, required=2, max_parallelism=64, sharing_group="one"),
    TaskSpec(task="parse", label="parse", parallelism=2, required=2, max_parallelism=8, sharing_group="one", tied="parse"),
    TaskSpec(task="sink", label="sink", parallelism=2, required=2, max_parallelism=8, sharing_group="one", tied="parse"),
    TaskSpec(task="once", label="bounded", parallelism=1, max_parallelism=8, sharing_group="one", state="finished"),
)
DETAIL = JobDetail(
    jid="1",
    name="orders",
    state="RUNNING",
    start_time=0,
    now=0,
    job_type="STREAMING",
    scheduler_type="Adaptive",
    vertices=(Vertex(id="source", name="Source: orders", parallelism=2, status="RUNNING"),),
)
EVERY_10_S = CheckpointConfig(mode="exactly_once", interval=10_000)
ROOMY = Cluster(free_slots=100)


def taken(*statuses: str, savepoint: str = "", at_ms: int = 0) -> Checkpoints:
    """Checkpoints from the oldest to the newest, and a savepoint after them; ABORTED: one that failed before it began."""
    made = [
        Checkpoint(
            id=number,
            status="FAILED" if status == "ABORTED" else status,
            trigger_timestamp=at_ms,
            failure_message=f"Checkpoint {'was declined' if status == 'FAILED' else 'trigger failure'}.",
        )
        for number, status in enumerate(statuses)
    ]
    if savepoint:
        made.append(Checkpoint(id=len(made), status=savepoint, is_savepoint=True))
    completed = next((each for each in made if each.status == "COMPLETED"), None)
    return Checkpoints(history=tuple(made), latest=LatestCheckpoints(completed=completed))


DONE = taken("COMPLETED")
COUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 100), min_size=1)


def of(parallelism: dict[str, int], lower: int = 1) -> Requirements:
    """A map as Flink gives it."""
    return {
        vertex: Requirement(parallelism=Bounds(lower_bound=min(lower, upper), upper_bound=upper))
        for vertex, upper in parallelism.items()
    }


@given(COUNTS, st.integers(1, 100), st.data())
def test_a_merged_map_is_whole_and_changes_only_what_is_named(before: dict[str, int], lower: int, data: st.DataObject) -> None:
    """All vertices stay in it, and the least parallelism is never above the most."""
    targets = data.draw(st.dictionaries(st.sampled_from(sorted(before)), st.integers(1, 100)))
    after = merged(of(before, lower), targets)
    assert wanted(after) == before | targets
    assert all(1 <= each.parallelism.lower_bound <= each.parallelism.upper_bound for each in after.values())
    changed = differences(before, wanted(after))
    assert changed == {vertex: (before[vertex], target) for vertex, target in targets.items() if before[vertex] != target}


def test_a_vertex_that_only_one_map_has_differs() -> None:
    """As after an upgrade with another graph."""
    assert differences({"a": 1, "b": 2}, {"b": 2, "c": 3}) == {"a": (1, None), "c": (None, 3)}


def test_a_change_that_fits_is_not_refused() -> None:
    """Tied tasks go together."""
    assert refusal({"parse": 3, "sink": 3}, TASKS, ROOMY) is None
    assert refusal_of_job(DETAIL, EVERY_10_S, DONE) is None


@pytest.mark.parametrize(
    ("code", "said", "detail", "checkpoints", "is_reactive"),
    [
        ("NO_CHECKPOINTS", "execution.checkpointing.interval", {}, CheckpointConfig(interval=NEVER_MS), False),
        ("NOT_ADAPTIVE", "jobmanager.scheduler: adaptive", {"scheduler_type": "Default"}, EVERY_10_S, False),
        ("BATCH_JOB", "batch", {"job_type": "BATCH", "scheduler_type": "AdaptiveBatch"}, EVERY_10_S, False),
        ("REACTIVE_MODE", "scheduler-mode", {}, EVERY_10_S, True),
        ("NOT_RUNNING", "created (CREATED)", {"state": "CREATED"}, EVERY_10_S, False),
    ],
)
def test_a_job_that_is_not_rescaled_says_why(
    code: str, said: str, detail: dict[str, str], checkpoints: CheckpointConfig, is_reactive: bool
) -> None:
    """In one line, with the remedy."""
    found = refusal_of_job(msgspec.structs.replace(DETAIL, **detail), checkpoints, DONE, is_reactive)
    assert found is not None
    assert found.code == code
    assert said in found.sentence
    assert "\n" not in found.sentence


@pytest.mark.parametrize(
    ("code", "checkpoints"),
    [
        ("NO_CHECKPOINT_YET", Checkpoints()),
        ("CHECKPOINTS_FAIL", taken("COMPLETED", "FAILED", "FAILED")),
        ("SAVEPOINT_UNDER_WAY", taken("COMPLETED", savepoint="IN_PROGRESS")),
        ("CHECKPOINTS_FAIL", taken("COMPLETED", "FAILED", "ABORTED", "FAILED")),
        ("CHECKPOINTS_FAIL", taken("COMPLETED", "FAILED", "FAILED", savepoint="FAILED")),
        ("", taken("COMPLETED", "ABORTED", "ABORTED")),
        ("", taken("COMPLETED", "FAILED", savepoint="FAILED")),
        ("", taken("COMPLETED", "FAILED")),
        ("", taken("FAILED", "FAILED", "COMPLETED", "IN_PROGRESS")),
        ("", taken("COMPLETED", "FAILED", "FAILED", at_ms=-1)),
        ("", taken("COMPLETED", savepoint="COMPLETED")),
    ],
)
def test_checkpoints_decide_whether_a_job_is_rescaled_now(code: str, checkpoints: Checkpoints) -> None:
    """One must have completed, two in a row must not fail, a savepoint is waited for; an earlier graph's are past."""
    found = refusal_of_job(DETAIL, EVERY_10_S, checkpoints)
    assert (found.code if found is not None else "") == code


@pytest.mark.parametrize(
    ("code", "said", "targets", "cluster"),
    [
        ("UNKNOWN_TASK", "no vertex gone", {"gone": 3}, ROOMY),
        ("TASK_FINISHED", "bounded has finished", {"once": 3}, ROOMY),
        ("PARALLELISM_OUT_OF_RANGE", "64 key groups", {"source": 65}, ROOMY),
        ("TIED_TASKS", "parse and sink are connected forward", {"parse": 3}, ROOMY),
        ("TOO_FEW_SLOTS", "need 5 slots and can have 4", {"source": 5}, Cluster(free_slots=2)),
    ],
)
def test_a_change_that_does_not_fit_says_why(code: str, said: str, targets: dict[str, int], cluster: Cluster) -> None:
    """In one line, with the remedy."""
    found = refusal(targets, TASKS, cluster)
    assert found is not None
    assert found.code == code
    assert said in found.sentence
    assert "\n" not in found.sentence


def test_slots_that_come_when_asked_are_enough() -> None:
    """A resource manager starts TaskManagers."""
    assert refusal({"source": 50}, TASKS, Cluster(free_slots=0, grows=True)) is None
    assert grows({"kubernetes.cluster-id": "orders"})
    assert grows({"execution.target": "yarn-session"})
    assert not grows({"jobmanager.scheduler": "adaptive"})


def test_fewer_slots_are_never_refused_for_slots() -> None:
    """A fall needs no room, even where more runs than fits."""
    assert refusal({"source": 1}, TASKS, Cluster(free_slots=-3)) is None
