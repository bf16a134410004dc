"""What must hold in every state of the rescale protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from surescale.contracts.messages import JobTopology
from surescale.rescaler.control.job.memory import CommandStatus, JobMemory, status_of
from surescale.simulation.engine.checked_changes import units_of
from tests.model.engine import Engine, EngineJob
from tests.model.pipeline import Pipeline
from tests.model.state import State


def broken(pipeline: Pipeline, state: State) -> str:
    """Return the first invariant that does not hold, and why; "" if all hold."""
    return next((f"{rule.__name__}: {why}" for rule in RULES for why in rule(pipeline, state)), "")


def a_decision_ends_once(pipeline: Pipeline, state: State) -> Iterator[str]:
    """No decision gets two last outcomes."""
    for decision, count in zip(pipeline.decided, state.finals, strict=True):
        if count > 1:
            yield f"{decision} got {count} last outcomes"


def commands_rise(pipeline: Pipeline, state: State) -> Iterator[str]:
    """On the topic, a job's commands rise by generation and step, and no two are the same."""
    last: dict[str, tuple[int, int]] = {}
    for number in state.commands:
        command = pipeline.pools.commands[number]
        turn = (command.desired_generation, command.step)
        before = last.get(command.job, (0, 0))
        if turn not in ((before[0] + 1, 0), (before[0], before[1] + 1)):
            yield f"{command.command_id} follows generation {before[0]}, step {before[1]}"
        last[command.job] = turn


def a_command_ends_once(pipeline: Pipeline, state: State) -> Iterator[str]:
    """The topic has one end of each command that is over by the memory, and none of the others."""
    known = pipeline.known(state.memory)
    for number, ended in zip(state.commands, state.ends, strict=True):
        command = pipeline.pools.commands[number]
        memory = known.get(command.job)
        is_over = memory is not None and status_of(command, memory) is CommandStatus.OVER
        if len(ended.split()) != is_over:
            yield f"{command.command_id} is {'over' if is_over else 'under way'}, and the topic says: {ended or 'nothing'}"


def a_unit_has_one_owner(pipeline: Pipeline, state: State) -> Iterator[str]:
    """No unit is held by two jobs: neither in the engine, nor by what the rescaler remembers as long as no host has died."""
    engine = pipeline.pools.engines[state.engine]
    yield from _twice({job.topology.job: job.units for job in engine.jobs}, "in the engine")
    if len(engine.hosts.hosts) == len(pipeline.hosts.hosts):
        shown = {job.job: job for job in pipeline.pools.views[state.seen].jobs}
        known = pipeline.known(state.memory)
        yield from _twice({name: known.get(name, JobMemory(job=name)).units(shown[name]) for name in shown}, "in the memory")


def _twice(held: dict[str, frozenset[int]], where: str) -> Iterator[str]:
    counts = Counter(unit for units in held.values() for unit in units)
    for unit, count in sorted(counts.items()):
        if count > 1:
            yield f"unit {unit} belongs to {count} jobs {where}: { {name: sorted(units) for name, units in held.items()} }"


def a_subtask_has_its_own_unit(pipeline: Pipeline, state: State) -> Iterator[str]:
    """Within a task no unit runs two subtasks, and there are as many as its parallelism says."""
    for job in pipeline.pools.engines[state.engine].jobs:
        for spec in job.topology.tasks:
            if len(set(spec.units)) != spec.parallelism:
                yield f"{spec.task} has parallelism {spec.parallelism} on units {spec.units}"


def a_generation_is_whole(pipeline: Pipeline, state: State) -> Iterator[str]:
    """What an engine runs is what one commit of its generation says, in every task; until a host dies."""
    engine = pipeline.pools.engines[state.engine]
    if len(engine.hosts.hosts) < len(pipeline.hosts.hosts):
        return
    for job in engine.jobs:
        if not job.topology.generation:
            continue
        made = [pipeline.pools.commands[number] for number in state.commands]
        commits = [
            command
            for command in made
            if (command.job, command.desired_generation, command.action) == (job.topology.job, job.topology.generation, "commit")
        ]
        if not any(_shows(job.topology, {change.task: change.units for change in command.changes}) for command in commits):
            yield f"{job.topology.job} at generation {job.topology.generation} is none of {len(commits)} commits"


def _shows(topology: JobTopology, units: dict[str, tuple[int, ...]]) -> bool:
    return all(set(units.get(spec.task, spec.units)) == set(spec.units) for spec in topology.tasks)


def only_what_happened_is_believed(pipeline: Pipeline, state: State) -> Iterator[str]:
    """A generation counts as applied only once the engine runs it; its vnodes are mapped to its units and no others."""
    engine = pipeline.pools.engines[state.engine]
    for name, memory in pipeline.known(state.memory).items():
        applied, job = memory.applied, engine.job(name)
        if applied.generation > job.topology.generation:
            yield f"{name}: generation {applied.generation} counts as applied, the engine runs {job.topology.generation}"
        for task, mapping in memory.mappings.items():
            if task in applied.units and set(mapping) != set(applied.units[task]):
                yield f"{name}: vnodes of {task} are mapped to {sorted(set(mapping))}, it runs on {applied.units[task]}"


def learners_have_an_owner(pipeline: Pipeline, state: State) -> Iterator[str]:
    """Learners in the engine belong to the rescale that is remembered; those of a rescale that is over expire by themselves."""
    known = pipeline.known(state.memory)
    for job in pipeline.pools.engines[state.engine].jobs:
        made = job.preparing
        if made is None or state.now_ms >= made.deadline_ms:
            continue
        memory = known.get(job.topology.job)
        rescaling = memory.rescaling if memory else None
        if rescaling is None or rescaling.command.desired_generation != made.generation:
            yield f"{job.topology.job}: learners of {made.command_id} hold {sorted(_extra(job))}, and nobody remembers them"


def _extra(job: EngineJob) -> frozenset[int]:
    return units_of(job.preparing.tasks) - units_of(job.topology.tasks) if job.preparing else frozenset()


def the_engine_knows_only_commands(pipeline: Pipeline, state: State) -> Iterator[str]:
    """Nothing was carried out that is not on the topic."""
    engine: Engine = pipeline.pools.engines[state.engine]
    made = {pipeline.pools.commands[number].command_id for number in state.commands}
    for job in engine.jobs:
        if strange := job.answered - made:
            yield f"{sorted(strange)} was never committed"


def ends_agree(pipeline: Pipeline, state: State) -> Iterator[str]:
    """Once everything has ended, the rescaler takes each job for what the engine runs."""
    if not pipeline.is_end(state):
        return
    engine = pipeline.pools.engines[state.engine]
    for name, memory in pipeline.known(state.memory).items():
        topology = engine.job(name).topology
        believed = memory.applied.completed(topology)
        if [(spec.task, spec.units) for spec in believed.tasks] != [(spec.task, spec.units) for spec in topology.tasks]:
            yield f"{name} runs otherwise than the rescaler believes"


Rule = Callable[[Pipeline, State], Iterator[str]]
RULES: tuple[Rule, ...] = (
    a_decision_ends_once,
    commands_rise,
    a_unit_has_one_owner,
    a_subtask_has_its_own_unit,
    a_generation_is_whole,
    only_what_happened_is_believed,
    learners_have_an_owner,
    the_engine_knows_only_commands,
    ends_agree,
    a_command_ends_once,
)
