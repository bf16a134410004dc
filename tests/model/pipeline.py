"""The rescale protocol as a model: two rescalers, their actuators, the topics between them, and an engine.

What decides is the product's own: `Controller` with everything below it (gate, planner, learners, memory), `status_of` and
`UnitsExecution`. Restated here is only what surrounds them: transactions with fencing epochs, offsets, crashes and the clock.

One step of the model is one write, or one thing read. So a crash may come between any two writes, and everything that two
processes, two actuators and the engine do may happen in any order. What an actuator tells its rescaler may be heard late, and is
lost in a crash. Time stands until all that is due has been done by a rescaler that is active; then it jumps to the next timer.
Engine, actuators and hearing may take any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from surescale.contracts.capabilities import SIMULATED
from surescale.contracts.decisions import Decision
from surescale.contracts.messages import ClusterTopology, JobTopology
from surescale.contracts.rescaler_state import RescalerRecord
from surescale.contracts.wire import decode, encode
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.job.memory import CommandStatus, JobMemory, restored, status_of
from surescale.rescaler.control.settings import ControlSettings
from surescale.rescaler.control.world import View
from surescale.rescaler.service.active import in_order
from tests.model.actuators import Actuators
from tests.model.canonical import BEGINS_MS, Pools, bare
from tests.model.engine import Engine, EngineJob
from tests.model.state import ACTIVE, DOWN, FENCING, NOTHING, ROUND, Guards, Process, Round, Seen, State
from tests.support.controller_world import CLUSTER

LAST = frozenset({"held", "commanded", "superseded", "refused"})
ENDS = frozenset({"applied", "failed"})


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """One scenario: hosts, jobs, a script of decisions, settings, and how many faults may happen."""

    hosts: ClusterTopology
    jobs: tuple[JobTopology, ...]
    script: tuple[Decision, ...]
    """In the order of the topic; a decision may be there twice."""
    settings: ControlSettings
    faults_max: int = 2
    """Crashes, wrongly suspected processes, and hosts that die, in all."""
    mortal_hosts: tuple[str, ...] = ()
    clock: bool = True
    """Whether time passes. If not, nothing is ever late, which leaves the orders of events and the faults."""
    merges: bool = True
    """Whether states are taken for one that the product treats alike; not if a test breaks what makes it do so."""
    guards: Guards = field(default_factory=Guards)
    pools: Pools = field(default_factory=Pools)
    _handled: dict[tuple[object, ...], Round] = field(default_factory=dict)
    _engine_steps: dict[tuple[int, int], tuple[tuple[str, int], ...]] = field(default_factory=dict)
    _known: dict[int, dict[str, JobMemory]] = field(default_factory=dict)
    _over: dict[tuple[int, int], bool] = field(default_factory=dict)
    _awaited: dict[int, frozenset[str]] = field(default_factory=dict)
    _wakes: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def begin(self) -> State:
        """Return the first state: one rescaler is active, nothing was decided yet."""
        memory = self.pools.memories.put(())
        engine = Engine(self.hosts, tuple(EngineJob(job) for job in self.jobs))
        first = Process(ACTIVE, 1, memory)
        return State(
            now_ms=BEGINS_MS,
            lived_ms=0,
            epoch=1,
            memory=memory,
            consumed=0,
            finals=(0,) * len(self.decided),
            commands=(),
            position=0,
            ends=(),
            engine=self.pools.engines.put(engine),
            seen=self.pools.views.put(Seen(self.hosts, self.jobs)),
            processes=(Process(), first),
            faults=0,
        )

    @property
    def decided(self) -> list[str]:
        """Ids of the decisions, each once."""
        return list(dict.fromkeys(decision.decision_id for decision in self.script))

    @cached_property
    def _actuators(self) -> Actuators:
        return Actuators(self.pools, self.known, self.guards)

    # What may happen

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Return everything that may happen next."""
        for name, after in self._steps(state):
            yield name, self._merged(after)

    def _steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Return everything that may happen next, but nothing that a round under way could as well wait for.

        Between its memory and its transaction a rescaler reads nothing, and nobody but its own actuator reads its memory. So what
        engine, monitor and another process's actuator do meanwhile can as well come after the transaction.
        """
        rounds = [each for each in state.processes if each.unsent != NOTHING and each.epoch == state.epoch]
        if rounds and self.merges and self.guards.keep_apart:
            for at, process in enumerate(state.processes):
                others = state.processes[:at] + state.processes[at + 1 :]
                yield from self._rescaler_does(state, process, others)
                if process is rounds[0]:
                    yield from self._actuators.steps(state, process, others)
            return
        yield from self._engine_does(state)
        yield from self._monitor_publishes(state)
        is_busy = False
        for at, process in enumerate(state.processes):
            others = state.processes[:at] + state.processes[at + 1 :]
            rescaler = list(self._rescaler_does(state, process, others))
            is_busy |= process.epoch == state.epoch and any(name.split(" ", 1)[0] in ROUND for name, _ in rescaler)
            yield from rescaler
            if process.phase == ACTIVE:
                yield from self._actuators.steps(state, process, others)
        if self.clock and not is_busy:
            yield from self._time_passes(state)

    def _engine_does(self, state: State) -> Iterator[tuple[str, State]]:
        known = self._engine_steps.get((state.engine, state.now_ms))
        if known is None:
            engine = self.pools.engines[state.engine]
            known = tuple((name, self.pools.engines.put(after)) for name, after in engine.steps(state.now_ms))
            self._engine_steps[state.engine, state.now_ms] = known
        for name, after in known:
            yield name, state._replace(engine=after)
        if state.faults < self.faults_max:
            engine = self.pools.engines[state.engine]
            for host in engine.hosts.hosts:
                if host.host in self.mortal_hosts:
                    died = self.pools.engines.put(engine.without_host(host.host, state.now_ms))
                    yield f"die {host.host}", state._replace(engine=died, faults=state.faults + 1)

    def _monitor_publishes(self, state: State) -> Iterator[tuple[str, State]]:
        engine, seen = self.pools.engines[state.engine], self.pools.views[state.seen]
        if engine.hosts != seen.hosts:
            yield "publish hosts", state._replace(seen=self.pools.views.put(seen._replace(hosts=engine.hosts)))
        for at, job in enumerate(engine.jobs):
            if job.topology != seen.jobs[at]:
                jobs = (*seen.jobs[:at], job.topology, *seen.jobs[at + 1 :])
                yield f"publish {job.topology.job}", state._replace(seen=self.pools.views.put(seen._replace(jobs=jobs)))

    def _time_passes(self, state: State) -> Iterator[tuple[str, State]]:
        engine = self.pools.engines[state.engine]
        timers = [*engine.timers(), *(each.span_end_ms - state.lived_ms for each in self.script[state.consumed :])]
        for process in state.processes:
            if process.phase == ACTIVE:
                timers.append(self._wake_ms(process.memory, state.seen) or 0)
                for work in process.works:
                    timers.append(self.pools.commands[work.command].deadline_ms or 0)
        next_ms = min((timer for timer in timers if timer > state.now_ms), default=None)
        if next_ms is not None:
            later = state._replace(now_ms=next_ms, engine=self.pools.engines.put(engine.at(next_ms)))
            yield f"time +{(next_ms - state.now_ms) // 1000} s", self.pools.earlier(later)

    # A rescaler

    def _rescaler_does(self, state: State, process: Process, others: tuple[Process, ...]) -> Iterator[tuple[str, State]]:
        def becomes(after: Process, **changed: object) -> State:
            return state._replace(processes=tuple(sorted((*others, after))), **changed)  # type: ignore[arg-type]

        if process.phase == DOWN:
            suspects = any(other.phase != DOWN and other.epoch == state.epoch for other in others)
            faults = state.faults + suspects
            if faults <= self.faults_max:
                yield "activate", self._fencing(state._replace(faults=faults), becomes)
            return
        if state.faults < self.faults_max and process.epoch == state.epoch:
            yield "crash", becomes(Process(), faults=state.faults + 1)
        if process.phase == FENCING:
            yield "remember", self._remembering(state, process, becomes)
            return
        if process.epoch < state.epoch:
            yield "revoked", becomes(Process())
        if process.unsent != NOTHING:
            yield from self._committing(state, process, becomes)
            return
        for name, after in self._heard(state, process):
            yield name, becomes(after)

    def _fencing(self, state: State, becomes: Callable[..., State]) -> State:
        epoch = state.epoch + 1
        if self.guards.fences_before_reading:
            return becomes(Process(FENCING, epoch), epoch=epoch, faults=state.faults)
        return becomes(Process(FENCING, epoch, state.memory, state.consumed), faults=state.faults)

    def _remembering(self, state: State, process: Process, becomes: Callable[..., State]) -> State:
        if self.guards.fences_before_reading:
            return becomes(Process(ACTIVE, process.epoch, state.memory, state.consumed, read=state.position))
        return becomes(process._replace(phase=ACTIVE, epoch=state.epoch + 1, read=state.position), epoch=state.epoch + 1)

    def _committing(self, state: State, process: Process, becomes: Callable[..., State]) -> Iterator[tuple[str, State]]:
        made, sent = self.pools.rounds[process.unsent], process._replace(unsent=NOTHING, carried_out=0)
        if self.guards.fences and process.epoch < state.epoch:
            yield "commit refused", becomes(Process())
            return
        if not self.guards.is_atomic and made.commands:
            first = self.pools.rounds.put(made._replace(commands=()))
            commands = state.commands + made.commands
            ends = state.ends + ("",) * len(made.commands)
            yield "commit commands", becomes(process._replace(unsent=first), commands=commands, ends=ends)
            return
        decided = self.decided
        finals = tuple(count + made.finals.count(decided[at]) for at, count in enumerate(state.finals))
        yield (
            "commit",
            becomes(
                sent,
                memory=made.memory,
                consumed=process.consumed,
                position=process.carried_out if self.guards.positions_in_transactions else state.position,
                finals=finals,
                commands=state.commands + made.commands,
                ends=self._ended(state, made),
            ),
        )

    def _ended(self, state: State, made: Round) -> tuple[str, ...]:
        """Return the ends of all commands after a round."""
        names = [self.pools.commands[number].command_id for number in state.commands]
        ends = list(state.ends)
        for command_id, status in made.ends:
            at = names.index(command_id)
            ends[at] = f"{ends[at]} {status}".lstrip()
        return (*ends, *("" for _ in made.commands))

    def _heard(self, state: State, process: Process) -> Iterator[tuple[str, Process]]:
        """Return what follows from each input that a rescaler may take now, if anything does.

        As in `ActiveRescaler.round`, timers and decisions come after all progress that has arrived.
        """

        def after(made: Round, consumed: int) -> Process | None:
            if made == Round(process.memory) and consumed == process.consumed:
                return None
            unsent, carried_out = self.pools.rounds.put(made), process.position()
            return process._replace(memory=made.memory, consumed=consumed, unsent=unsent, carried_out=carried_out, told=())

        if process.told:
            made = self._round(process.memory, ("progress", *process.told), state.seen, state.now_ms)
            told = [self.pools.reports[each] for each in process.told]
            name = " ".join(["progress", *(f"{each.command_id} {each.status}" for each in told)])
            yield name, after(made, process.consumed) or process._replace(told=())
            return
        inputs: list[tuple[str, tuple[object, ...], int]] = [("tick", ("tick",), process.consumed)]
        lived_ms = state.lived_ms
        if process.consumed < len(self.script) and self.script[process.consumed].span_end_ms - lived_ms <= state.now_ms:
            inputs.append((f"decision {process.consumed}", ("decision", process.consumed), process.consumed + 1))
        for name, what, consumed in inputs:
            taken = after(self._round(process.memory, what, state.seen, state.now_ms), consumed)
            if taken is not None:
                yield name, taken

    def _round(self, memory: int, what: tuple[object, ...], seen: int, now_ms: int) -> Round:
        key = (memory, what, seen, now_ms)
        known = self._handled.get(key)
        if known is None:
            control, view = self._controller(memory), self._view(seen)
            match what:
                case ("tick",):
                    effects = control.on_tick(view, now_ms)
                case ("progress", *numbers):
                    effects = Effects()
                    for report in in_order([self.pools.reports[int(number)] for number in numbers]):  # type: ignore[call-overload]
                        effects += control.on_progress(report, view, now_ms)  # type: ignore[arg-type]
                case ("decision", int(number)):
                    decision = self.script[number]
                    effects = control.give_way({decision.job: decision}, view, now_ms) + control.on_tick(view, now_ms)
                    effects += control.on_decision(decision, view, now_ms, decision)
                case _:
                    raise AssertionError(what)
            known = self._handled[key] = self._written(memory, effects)
        return known

    def _written(self, memory: int, effects: Effects) -> Round:
        records = dict(self.pools.memories[memory])
        for changed in effects.records:
            if changed.record is None:
                records.pop(changed.key, None)
            elif changed.record.kind != "request" or changed.record.id in self.decided:  # an own act's is never looked up
                records[changed.key] = encode(bare(changed.record))
        finals = tuple(outcome.decision_id for outcome in effects.outcomes if outcome.status in LAST)
        commands = tuple(self.pools.commands.put(command) for command in effects.commands)
        ends = tuple((each.command_id, each.status) for each in effects.progress if each.status in ENDS)
        return Round(self.pools.memories.put(tuple(sorted(records.items()))), commands, finals, ends)

    def _controller(self, memory: int) -> Controller:
        records = [decode(raw, RescalerRecord) for _, raw in self.pools.memories[memory]]
        return Controller(CLUSTER, self.settings, records)

    def _view(self, seen: int) -> View:
        hosts, jobs = self.pools.views[seen]
        return View(cluster=hosts, jobs={job.job: job for job in jobs})

    def _wake_ms(self, memory: int, seen: int) -> int | None:
        if (memory, seen) not in self._wakes:
            self._wakes[memory, seen] = self._controller(memory).wake_at_ms()
        return self._wakes[memory, seen]

    def known(self, memory: int) -> dict[str, JobMemory]:
        """Return what a memory says of each job."""
        if memory not in self._known:
            records = [decode(raw, RescalerRecord) for _, raw in self.pools.memories[memory]]
            self._known[memory] = {record.id: restored(record) for record in records if record.kind == "job"}
        return self._known[memory]

    # States that differ only in what nobody will ever use

    def _merged(self, state: State) -> State:
        """Return one state for all that can only go on in the same way.

        The two processes are alike, so they are sorted. A report on a command that its rescaler does not have under way is not
        kept, and commands that are over count as read: the product passes both over. (Not so when a test takes a guard away.)
        """
        if not self.merges or not self.guards.keep_apart:
            return state
        processes = tuple(sorted(self._read_on(process, state.commands) for process in state.processes))
        memories = {state.memory, *(process.memory for process in processes if process.memory != NOTHING)}
        unread = self.script[min([state.consumed, *(each.consumed for each in processes if each.phase == ACTIVE)]) :]
        lived_ms = min(state.lived_ms, max((each.span_end_ms - BEGINS_MS for each in unread), default=0))
        position = state.position
        while position < len(state.commands) and self._is_over(state.commands[position], state.memory):
            position += 1
        commands = tuple(
            self.pools.without_times(each) if all(self._is_over(each, memory) for memory in memories) else each
            for each in state.commands
        )
        return state._replace(processes=processes, position=position, lived_ms=lived_ms, commands=commands)

    def _read_on(self, process: Process, commands: tuple[int, ...]) -> Process:
        if process.phase != ACTIVE:
            return process
        read = process.read
        while read < len(commands) and self._is_over(commands[read], process.memory):
            read += 1
        told = tuple(each for each in process.told if self.pools.reports[each].command_id in self._outstanding(process.memory))
        return process._replace(read=read, told=told)

    def _is_over(self, command: int, memory: int) -> bool:
        known = self._over.get((command, memory))
        if known is None:
            it = self.pools.commands[command]
            of_job = self.known(memory).get(it.job)
            known = self._over[command, memory] = of_job is not None and status_of(it, of_job) is CommandStatus.OVER
        return known

    def _outstanding(self, memory: int) -> frozenset[str]:
        known = self._awaited.get(memory)
        if known is None:
            ids = (each.outstanding.command_id for each in self.known(memory).values() if each.outstanding)
            known = self._awaited[memory] = frozenset(ids)
        return known

    # Ends

    def is_end(self, state: State) -> bool:
        """Say whether every decision was answered, nothing is under way anywhere, and the monitor has shown it."""
        if state.consumed < len(self.script) or not all(state.finals):
            return False
        if any(memory.pending or memory.underway for memory in self.known(state.memory).values()):
            return False
        engine, seen = self.pools.engines[state.engine], self.pools.views[state.seen]
        if any(job.preparing or job.next or (job.rescale and job.rescale.is_under_way) for job in engine.jobs):
            return False
        return seen == Seen(engine.hosts, tuple(job.topology for job in engine.jobs))


assert SIMULATED.acts == "units"
