"""A task whose process is short of memory keeps its size, and the reason says what to raise."""

from dataclasses import replace

import msgspec
import pytest

from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import TaskMemory
from surescale.contracts.windows import Window
from surescale.policies.decide import decide, decide_if_due
from surescale.policies.registry import load_policy
from surescale.policies.rules.target_utilisation import TargetUtilisation
from tests.unit.policies.test_witness import policy_named, real_window, written

JOB = "prod/job"
GARBAGE = TaskMemory(gc_share=0.42, heap_share=0.97, managed_share=0.6)


def with_memory(window: Window, memory: TaskMemory | None, *tasks: str, **spec: object) -> Window:
    """Return a window of which some tasks run on a process with this memory."""
    specs = tuple(
        msgspec.structs.replace(each, memory=memory if each.task in tasks else None, **spec)  # type: ignore[arg-type]
        for each in window.topology.tasks
    )
    return replace(window, topology=msgspec.structs.replace(window.topology, tasks=specs))


def decided(window: Window, **settings: object) -> Decision:
    """Return what the rule makes of a window."""
    return decide(window, TargetUtilisation(), JobSettings(job=JOB, **settings), seed=1)  # type: ignore[arg-type]


def sizes(decision: Decision) -> list[int]:
    """Return the sizes that are desired."""
    return [task.desired for task in decision.tasks]


def rules(decision: Decision) -> set[str]:
    """Return the guardrails that changed something."""
    return {amendment.rule for task in decision.tasks for amendment in task.amendments}


def full(busy: float = 0.97) -> Window:
    """Return a window of a job that is busy nearly all the time."""
    return real_window(busy=busy)


@pytest.mark.parametrize("name", ["target-utilisation", "sure", "ds2", "hpa", "threshold"])
def test_a_task_that_collects_garbage_gets_no_more_subtasks_for_it(name: str) -> None:
    """Whatever the policy; its neighbour on a process with room grows."""
    made = decide(with_memory(full(), GARBAGE, "b"), policy_named(name), JobSettings(job=JOB), seed=1)
    assert sizes(made)[1] == 8
    assert sizes(made)[0] > 8
    assert made.tasks[1].amendments[-1].rule == "memory"
    assert "b keeps its subtasks: its TaskManager collects garbage for 42% of its time (--gc-pressure 0.3)" in made.reason
    assert "Raise taskmanager.memory.process.size" in made.reason


def test_nor_does_it_shrink() -> None:
    """Fewer subtasks would each hold more state."""
    idle = real_window(busy=0.2)
    assert sizes(decided(idle)) == [4, 4]
    made = decided(with_memory(idle, GARBAGE, "a", "b"))
    assert (sizes(made), rules(made), made.action) == ([8, 8], {"max_step", "memory"}, "hold")
    assert "a keeps its subtasks, as does 1 more task: its TaskManager" in made.reason


@pytest.mark.parametrize("memory", [None, TaskMemory(), TaskMemory(heap_share=0.99, managed_share=1.0), TaskMemory(gc_share=0.3)])
def test_what_is_unknown_or_allowed_holds_nothing(memory: TaskMemory | None) -> None:
    """A full heap and full managed memory are no sign by themselves, and unknown is not zero but no reason either."""
    made = decided(with_memory(full(), memory, "a", "b"))
    assert sizes(made) == sizes(decided(full()))
    assert "memory" not in rules(made)


def test_the_owner_says_how_much_is_too_much() -> None:
    """Garbage and heap each have a limit; 1 allows any."""
    window = with_memory(full(), GARBAGE, "a", "b")
    assert sizes(decided(window, gc_pressure_max=1.0)) == sizes(decided(full()))
    made = decided(window, gc_pressure_max=1.0, heap_usage_max=0.9)
    assert sizes(made) == [8, 8]
    assert "uses 97% of its heap (--heap-usage 0.9)" in made.reason


def test_managed_memory_that_nobody_uses_is_the_heap_that_is_missing() -> None:
    """Flink keeps two fifths of a TaskManager for it by default, also where the state is on the heap."""
    made = decided(with_memory(full(), TaskMemory(gc_share=0.5, managed_share=0.0), "a", "b"))
    assert "Lower taskmanager.memory.managed.fraction, of which nothing is used" in made.reason


def test_tasks_on_a_forward_edge_stay_together() -> None:
    """One of them is enough, also where another one wanted to change."""
    made = decided(with_memory(full(), GARBAGE, "b", tied="chain"))
    assert sizes(made) == [8, 8]
    assert "keeps its subtasks" in made.reason


def test_an_emergency_does_not_grow_it() -> None:
    """Its need by busy time is what garbage collection makes of it."""
    hurry = written(written(full(1.0), "queued_records_last", 3_000.0, task=0), "arrived", 4_000.0, task=0)
    hurry = written(hurry, "queued_records_last", (100.0,), task=0, last=2)
    hurry = replace(written(hurry, "queued_records_last", 3_000.0, task=0), window_end_ms=hurry.window_end_ms + 60_000)
    settings = JobSettings(job=JOB)
    act = decide_if_due(hurry, TargetUtilisation(), settings, seed=1)
    assert act is not None
    assert act.emergency is not None
    assert decide_if_due(with_memory(hurry, GARBAGE, "a", "b"), TargetUtilisation(), settings, seed=1) is None


def test_what_its_owner_chose_is_carried_out() -> None:
    """A static size, and a maximum below what runs."""
    static = load_policy("static")
    window = with_memory(real_window(busy=0.5, configured_parallelism=12), GARBAGE, "a", "b")
    assert sizes(decide(window, static, JobSettings(job=JOB), seed=1)) == [12, 12]
    made = decided(with_memory(real_window(busy=0.2), GARBAGE, "a", "b"), parallelism_max=4)
    assert sizes(made) == [4, 4]
