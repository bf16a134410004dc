"""The actuators of the model: they read commands, carry them out on the engine, and tell their rescaler."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from surescale.contracts.commands import RescheduleCommand
from surescale.engines.ports.actuator import Accepted
from surescale.rescaler.control.job.memory import CommandStatus, JobMemory, status_of
from surescale.rescaler.execution import UnitsExecution
from tests.model.canonical import Pools
from tests.model.engine import AskedEngine
from tests.model.state import Guards, Process, State, Work


class Actuators:
    """What the actuator of any process does; the process itself is part of the state."""

    def __init__(self, pools: Pools, known: Callable[[int], dict[str, JobMemory]], guards: Guards) -> None:
        """``known``: what a memory says of each job."""
        self._pools, self._known, self._guards = pools, known, guards
        self._stepped: dict[tuple[object, ...], tuple[int, Work | None, tuple[int, ...]]] = {}

    def steps(self, state: State, process: Process, others: tuple[Process, ...]) -> Iterator[tuple[str, State]]:
        """Return what the actuator of a process may do next."""

        def becomes(after: Process, engine: int = state.engine) -> State:
            position = state.position if self._guards.positions_in_transactions else after.position()
            return state._replace(processes=tuple(sorted((*others, after))), engine=engine, position=position)

        if process.read < len(state.commands):
            yield "read", becomes(self._taken(state, process))
        for at, work in enumerate(process.works):
            engine, stepped, told = self._step(state, work)
            if engine != state.engine or stepped != work or told:
                works = (*process.works[:at], *(() if stepped is None else (stepped,)), *process.works[at + 1 :])
                yield "carry-out", becomes(process._replace(works=works, told=process.told + told), engine=engine)

    def _taken(self, state: State, process: Process) -> Process:
        offset = process.read
        command = self._pools.commands[state.commands[offset]]
        memory = self._known(process.memory).get(command.job)
        standing = CommandStatus.UNKNOWN if memory is None else status_of(command, memory)
        if not self._guards.compares_commands:
            standing = CommandStatus.OUTSTANDING
        taken = self._begun(state, process, command, offset) if standing is CommandStatus.OUTSTANDING else process
        return taken._replace(read=offset + 1)

    def _begun(self, state: State, process: Process, command: RescheduleCommand, offset: int) -> Process:
        works, told = list[Work](), process.told
        for work in process.works:
            before = self._pools.commands[work.command]
            if before.job != command.job:
                works.append(work)
            elif before.command_id == command.command_id:
                return process
            else:
                told += (self._pools.reports.put(UnitsExecution(before).superseded(state.now_ms)),)
        works.append(Work(self._pools.commands.put(command), offset))
        return process._replace(works=tuple(works), told=told)

    def _step(self, state: State, work: Work) -> tuple[int, Work | None, tuple[int, ...]]:
        """Return the engine, how far the command is (None: it has ended) and the reports after a step."""
        key = (state.engine, state.now_ms, work)
        known = self._stepped.get(key)
        if known is None:
            minute = state.now_ms // 60_000
            carrying = UnitsExecution(
                self._pools.commands[work.command],
                _said_accepted=work.accepted,
                accepted=Accepted() if work.requested else None,
                _said_warming_minute=minute,  # how far learners are is of no matter here
            )
            asked = AskedEngine(self._pools.engines[state.engine], state.now_ms)
            told = carrying.step(asked, now_ms=state.now_ms, wall_ms=0)
            after = work._replace(requested=carrying.accepted is not None, accepted=carrying._said_accepted)
            reports = tuple(map(self._pools.reports.put, told))
            known = self._stepped[key] = self._pools.engines.put(asked.engine), None if carrying.ended else after, reports
        return known
