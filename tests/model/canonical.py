"""What makes states that differ in nothing that matters one state: numbers for values, times set back, records without words."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import msgspec

from surescale.contracts.commands import Progress, RescheduleCommand
from surescale.contracts.rescaler_state import JobSummary, RescalerRecord
from surescale.contracts.wire import decode, encode
from surescale.policies.stateful_limits import LimitsMemory
from surescale.rescaler.control.job.memory import restored
from surescale.rescaler.control.outcomes import LastOutcome
from tests.model.engine import Engine, EngineJob
from tests.model.state import NOTHING, Process, Round, Seen, State

Record = TypeVar("Record", bound=msgspec.Struct)
Kept = TypeVar("Kept")

Records = tuple[tuple[str, bytes], ...]
BEGINS_MS = 960_000_000
"""When a scenario begins. Every time near it has nine digits, and no other number of the protocol has."""
MINUTE_MS = 60_000
_TIME = re.compile(rb'(?<!"last_span_end_ms":)(?<=[:\[,])(9\d{8})(?=[,\]}])')


class Pool(Generic[Kept]):
    """Numbers for values that are large or cannot be hashed, so that states are small."""

    def __init__(self, key: Callable[[Kept], Hashable]) -> None:
        self._key = key
        self._numbers: dict[Hashable, int] = {}
        self._kept: list[Kept] = []

    def put(self, value: Kept) -> int:
        """Return the number of a value, a new one if it was never seen."""
        key = self._key(value)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._kept)
            self._kept.append(value)
        return number

    def __getitem__(self, number: int) -> Kept:
        return self._kept[number]


@dataclass(frozen=True)
class Pools:
    """The values of all states of a search."""

    memories: Pool[Records] = field(default_factory=lambda: Pool(lambda records: records))
    commands: Pool[RescheduleCommand] = field(default_factory=lambda: Pool(encode))
    reports: Pool[Progress] = field(default_factory=lambda: Pool(encode))
    engines: Pool[Engine] = field(default_factory=lambda: Pool(repr))
    views: Pool[Seen] = field(default_factory=lambda: Pool(repr))
    rounds: Pool[Round] = field(default_factory=lambda: Pool(lambda each: each))
    _set_back: dict[tuple[str, int, int], int] = field(default_factory=dict)

    def earlier(self, state: State) -> State:
        """Return a state with every time in it set back by the same whole minutes, so that now lies in the first minute.

        Nothing in the protocol looks at a time itself: all rules compare times, or align them to minutes.
        """
        by_ms = (state.now_ms - BEGINS_MS) // MINUTE_MS * MINUTE_MS
        if not by_ms:
            return state
        return state._replace(
            now_ms=state.now_ms - by_ms,
            lived_ms=state.lived_ms + by_ms,
            memory=self._memory_earlier(state.memory, by_ms),
            commands=tuple(self._once("command", each, by_ms, self._command_earlier) for each in state.commands),
            engine=self._once("engine", state.engine, by_ms, self._engine_earlier),
            seen=self._once("seen", state.seen, by_ms, self._seen_earlier),
            processes=tuple(sorted(self._process_earlier(each, by_ms) for each in state.processes)),
        )

    def _once(self, kind: str, number: int, by_ms: int, earlier: Callable[[int, int], int]) -> int:
        key = (kind, number, by_ms)
        known = self._set_back.get(key)
        if known is None:
            known = self._set_back[key] = earlier(number, by_ms)
        return known

    def _process_earlier(self, process: Process, by_ms: int) -> Process:
        return process._replace(
            memory=self._memory_earlier(process.memory, by_ms),
            unsent=NOTHING if process.unsent == NOTHING else self._once("round", process.unsent, by_ms, self._round_earlier),
            works=tuple(
                work._replace(command=self._once("command", work.command, by_ms, self._command_earlier)) for work in process.works
            ),
            told=tuple(self._once("report", each, by_ms, self._report_earlier) for each in process.told),
        )

    def _memory_earlier(self, memory: int, by_ms: int) -> int:
        return NOTHING if memory == NOTHING else self._once("memory", memory, by_ms, self._records_earlier)

    def _records_earlier(self, number: int, by_ms: int) -> int:
        # The answer to a decision says only that there is one, so its time stays.
        # The span of the last decision stays as well: it is compared with other spans only.
        records = ((key, raw if "/request/" in key else _raw_earlier(raw, by_ms)) for key, raw in self.memories[number])
        return self.memories.put(tuple(records))

    def _round_earlier(self, number: int, by_ms: int) -> int:
        made = self.rounds[number]
        commands = tuple(self._once("command", each, by_ms, self._command_earlier) for each in made.commands)
        return self.rounds.put(made._replace(memory=self._memory_earlier(made.memory, by_ms), commands=commands))

    def _command_earlier(self, number: int, by_ms: int) -> int:
        return self.commands.put(_struct_earlier(self.commands[number], by_ms))

    def _report_earlier(self, number: int, by_ms: int) -> int:
        return self.reports.put(_struct_earlier(self.reports[number], by_ms))

    def _seen_earlier(self, number: int, by_ms: int) -> int:
        hosts, jobs = self.views[number]
        return self.views.put(Seen(_struct_earlier(hosts, by_ms), tuple(_struct_earlier(job, by_ms) for job in jobs)))

    def _engine_earlier(self, number: int, by_ms: int) -> int:
        engine = self.engines[number]
        hosts = _struct_earlier(engine.hosts, by_ms)
        return self.engines.put(replace(engine, hosts=hosts, jobs=tuple(_job_earlier(job, by_ms) for job in engine.jobs)))

    def without_times(self, command: int) -> int:
        """Return a command that is over for everybody without its times."""
        known = self._set_back.get(("buried", command, 0))
        if known is None:
            bare = msgspec.structs.replace(self.commands[command], issued_at_ms=0, deadline_ms=0)
            known = self._set_back["buried", command, 0] = self.commands.put(bare)
        return known


def _raw_earlier(raw: bytes, by_ms: int) -> bytes:
    return _TIME.sub(lambda time: str(int(time[1]) - by_ms).encode(), raw)


def _struct_earlier(struct: Record, by_ms: int) -> Record:
    return decode(_raw_earlier(encode(struct), by_ms), type(struct))


def _job_earlier(job: EngineJob, by_ms: int) -> EngineJob:
    last, made = job.rescale, job.preparing
    if last is not None:
        last = replace(last, effective_at_ms=last.effective_at_ms - by_ms, done_at_ms=last.done_at_ms - by_ms)
    if made is not None:
        made = replace(made, deadline_ms=made.deadline_ms - by_ms)
    return replace(job, topology=_struct_earlier(job.topology, by_ms), rescale=last, preparing=made)


def bare(record: RescalerRecord) -> RescalerRecord:
    """Return a record without what no rule reads: when it was written, and what people and other roles are told.

    Limits that need a memory are off in all scenarios, so theirs is left out too.
    """
    if record.kind == "request":
        answer = decode(bytes(record.body), LastOutcome)
        answer = msgspec.structs.replace(answer, sequence=0, at_ms=BEGINS_MS)
        return msgspec.structs.replace(record, at_ms=0, body=msgspec.Raw(encode(answer)))
    if record.kind == "cluster":
        return msgspec.structs.replace(record, at_ms=0)
    memory = restored(record)
    assert record.summary is not None
    gate = memory.gate
    if gate is not None and gate.transition is not None:  # it waits for the end, from which a fresh gate counts
        transition = replace(gate.transition, at_ms=0)
        gate = replace(gate, now_ms=0, created_at_ms=0, entered_at_ms=0, anchor_ms=0, transition=transition)
    kept = msgspec.structs.replace(memory, mappings={}, conditions=(), wake_at_ms=None, limits=LimitsMemory(), gate=gate)
    summary = JobSummary(mappings=record.summary.mappings)
    return msgspec.structs.replace(record, at_ms=0, body=msgspec.Raw(encode(kept)), summary=summary)
