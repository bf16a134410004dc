"""The actuators of the model: they read commands, carry them out on the engine, and report."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from contracts.commands import RescheduleCommand
from rescaler.actuators.base import Accepted
from rescaler.actuators.one_command import CarryingOut
from rescaler.control.job.memory import JobMemory
from rescaler.control.job.standing import Standing, standing_of
from tests.model.canonical import Pools
from tests.model.engine import AskedEngine
from tests.model.state import Process, State, Work


class Actuators:
    """What the actuator of any process does; the process itself is part of the state."""

    def __init__(self, pools: Pools, known: Callable[[int], dict[str, JobMemory]], *, compares_commands: bool) -> None:
        """``known``: what a memory says of each job. ``compares_commands``: see `Guards`."""
        self._pools, self._known, self._compares_commands = pools, known, compares_commands
        self._stepped: dict[tuple[object, ...], tuple[int, Work]] = {}

    def steps(self, state: State, process: Process, others: tuple[Process, ...]) -> Iterator[tuple[str, State]]:
        """Return what the actuator of a process may do next."""

        def becomes(after: Process, **changed: object) -> State:
            return state._replace(processes=tuple(sorted((*others, after))), **changed)  # type: ignore[arg-type]

        if process.read < len(state.commands):
            yield "read", becomes(self._taken(state, process))
        for at, work in enumerate(process.works):
            before, behind = process.works[:at], process.works[at + 1 :]
            if work.reports:
                left = work._replace(reports=work.reports[1:])
                kept = () if left.ended and not left.reports else (left,)
                written = state.reports | {work.reports[0]}
                yield "report", becomes(process._replace(works=(*before, *kept, *behind)), reports=written)
            else:
                engine, stepped = self._step(state, work)
                if engine != state.engine or stepped != work:
                    yield "carry-out", becomes(process._replace(works=(*before, stepped, *behind)), engine=engine)

    def _taken(self, state: State, process: Process) -> Process:
        offset = process.read
        command = self._pools.commands[state.commands[offset]]
        memory = self._known(process.memory).get(command.job)
        standing = Standing.UNKNOWN if memory is None else standing_of(command, memory)
        if not self._compares_commands:
            standing = Standing.OUTSTANDING
        works = self._begun(state, process, command, offset) if standing is Standing.OUTSTANDING else process.works
        return process._replace(read=offset + 1, works=works)

    def _begun(self, state: State, process: Process, command: RescheduleCommand, offset: int) -> tuple[Work, ...]:
        number, works = self._pools.commands.put(command), []
        for work in process.works:
            before = self._pools.commands[work.command]
            if before.job != command.job or work.ended:
                works.append(work)
            elif before.command_id == command.command_id:
                return process.works
            else:
                told = CarryingOut(before).superseded(state.now_ms)
                works.append(work._replace(ended=True, reports=(self._pools.reports.put(told),)))
        return (*works, Work(number, offset))

    def _step(self, state: State, work: Work) -> tuple[int, Work]:
        key = (state.engine, state.now_ms, work)
        known = self._stepped.get(key)
        if known is None:
            minute = state.now_ms // 60_000
            carrying = CarryingOut(
                self._pools.commands[work.command],
                ended=work.ended,
                _said_accepted=work.accepted,
                accepted=Accepted() if work.requested else None,
                _said_warming_minute=minute,  # how far learners are is of no matter here
            )
            asked = AskedEngine(self._pools.engines[state.engine], state.now_ms)
            told = carrying.step(asked, now_ms=state.now_ms, wall_ms=0)
            after = work._replace(
                requested=carrying.accepted is not None,
                accepted=carrying._said_accepted,
                ended=carrying.ended,
                reports=tuple(map(self._pools.reports.put, told)),
            )
            known = self._stepped[key] = self._pools.engines.put(asked.engine), after
        return known
