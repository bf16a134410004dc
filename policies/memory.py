"""Is a task slow because its process is short of memory? Then its size stays as it is, and a person hears what to raise. Pure.

A process that collects garbage is busy and gets little done. What its tasks need by their busy time is then too much, and more
subtasks on the same processes would leave each less memory; fewer would have each hold more state. So neither is tried. Flink's
autoscaler does the same with ``job.autoscaler.memory.gc-pressure.threshold`` and ``heap-usage.threshold``. A share that nobody
knows holds nothing.
"""

from typing import Final

import numpy as np

from surescale.contracts.messages import TaskSpec
from surescale.contracts.plurals import counted
from surescale.policies.graph import Bool
from surescale.policies.guardrails import Proposal
from surescale.policies.limits import Limits
from surescale.policies.question import Question

UNUSED_MOST: Final = 0.01
"""Share of the managed memory up to which it lies idle: the job's state is on the heap."""


def cramped_of(question: Question) -> Bool | None:
    """Return bool [N], the tasks whose process is short of memory; None: there are none."""
    cramped = np.array([bool(_why(spec, question.limits)) for spec in question.window.topology.tasks], dtype=np.bool_)
    cramped &= question.graph.scalable
    return cramped if cramped.any() else None


def held_in_words(question: Question, outcome: Proposal) -> str:
    """Return why tasks that are short of memory keep their sizes, and what to do; empty if none had to be held."""
    specs = question.window.topology.tasks
    held = [
        spec
        for spec, made in zip(specs, outcome.amendments, strict=True)
        if any(amendment.rule == "memory" for amendment in made)
    ]
    if not held:
        return ""
    groups = {spec.tied for spec in held} - {""}
    told = next(spec for spec in (*held, *(spec for spec in specs if spec.tied in groups)) if _why(spec, question.limits))
    more = len(held) - 1
    others = f", as {'does' if more == 1 else 'do'} {counted(more, 'more task')}" if more else ""
    return (
        f"{held[0].label or held[0].task} keeps its subtasks{others}: its TaskManager {_why(told, question.limits)}, so it is "
        f"short of memory, which another size does not mend. {_remedy(told)}"
    )


def _why(spec: TaskSpec, limits: Limits) -> str:
    """Return what shows that the process of a task is short of memory; empty if nothing does."""
    memory = spec.memory
    if memory is None:
        return ""
    if memory.gc_share is not None and memory.gc_share > limits.gc_most:
        return f"collects garbage for {memory.gc_share:.0%} of its time (--gc-pressure {limits.gc_most:g})"
    if memory.heap_share is not None and memory.heap_share > limits.heap_most:
        return f"uses {memory.heap_share:.0%} of its heap (--heap-usage {limits.heap_most:g})"
    return ""


def _remedy(spec: TaskSpec) -> str:
    """Return what to raise. Managed memory that nobody uses is the heap that is missing."""
    managed = spec.memory.managed_share if spec.memory is not None else None
    if managed is not None and managed <= UNUSED_MOST:
        return "Lower taskmanager.memory.managed.fraction, of which nothing is used, or raise taskmanager.memory.process.size."
    return "Raise taskmanager.memory.process.size, or keep less state on the heap."
