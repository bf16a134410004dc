"""One set of counts behind the rescaler's health endpoint and its metrics."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from confluent_kafka import Message

from surescale.contracts.commands import Progress
from surescale.contracts.messages import DeadLetter
from surescale.contracts.rent import occupancy_of, prices_of, rent_per_s
from surescale.contracts.topics import DEAD_LETTERS, DECISIONS, RESCALER_STATE, RESCHEDULE_COMMANDS, RESCHEDULE_EVENTS
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.job.memory import JobMemory
from surescale.rescaler.control.world import View
from surescale.rescaler.gate import Phase
from surescale.rescaler.service import metrics
from surescale.runtime.kafka import StableOffsetLag
from surescale.runtime.metrics import Reading, RoleMetrics, Tally

State = Literal["starting", "standby", "active"]

_ENDED = ("applied", "failed")
_COUNTERS = {
    "duplicates": metrics.DUPLICATES,
    "rejected": metrics.REJECTED,
    "unknown_commands": metrics.UNKNOWN_COMMANDS,
    "sessions_lost": metrics.SESSIONS_LOST,
}


class Status:
    """State and counters of the process; loop and actuator write, the health endpoint reads from a thread of its own."""

    def __init__(self, cluster: str) -> None:
        self.state: State = "starting"
        self.clock = ""  # whose clock is apart, while nothing is done because of it
        self._cluster = cluster
        self._counts, self._read, self._written = Tally(), Tally(), Tally()
        self._outcomes, self._commands, self._progress, self._refused = Tally(), Tally(), Tally(), Tally()
        self._last_report: dict[str, Progress] = {}
        self._memory: Mapping[str, JobMemory] = {}
        self._view = View()
        self.stable_offset_lag = StableOffsetLag()
        self.metrics = RoleMetrics("rescaler", metrics.METRICS, self._readings)

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter."""
        self._counts.add(name, by=by)

    def count_read(self, topic: str) -> None:
        """Count a record of a topic (bare name)."""
        self._read.add(topic)

    def count_round(
        self, records: Sequence[Message], effects: Effects, letters: Sequence[tuple[bytes | None, DeadLetter]], took_s: float
    ) -> None:
        """Count one committed transaction: decisions handled, their effects, and refusals."""
        now_s = time.time()
        for outcome in effects.outcomes:
            self._outcomes.add(outcome.status, outcome.reason)
        for command in effects.commands:
            self._commands.add(command.action, command.gate_reason)
        for progress in effects.progress:
            self._count_progress(progress)
        for _, letter in letters:
            self._refused.add(letter.reason)
        for record in records:
            self._read.add(DECISIONS)
            self.metrics.observe(metrics.OUTCOME_DELAY, now_s - record.timestamp()[1] / 1000)
        self._counts.add("duplicates", by=effects.duplicates)
        self._counts.add("transactions")
        self._written.add(RESCALER_STATE, by=len(effects.records))
        self._written.add(RESCHEDULE_EVENTS, by=len(effects.balances) + len(effects.drifts))
        self.metrics.observe(metrics.TRANSACTION_DURATION, took_s)

    def _count_progress(self, progress: Progress) -> None:
        self._progress.add(progress.status)
        if progress.status in _ENDED:
            self._last_report.pop(progress.command_id, None)
        else:
            self._last_report[progress.command_id] = progress
        if progress.status == "applied" and progress.duration_ms:  # 0: nobody knows
            self.metrics.observe(metrics.APPLY_DURATION, progress.duration_ms / 1000, self._action_of(progress))

    def show(self, memory: Mapping[str, JobMemory], view: View) -> None:
        """Keep each job's memory and the present world for the metrics."""
        self._memory, self._view = memory, view

    def forget(self) -> None:
        """Show no jobs, learners and hosts any more: another process may be active now, and shows them."""
        self._memory, self._view, self._last_report, self.clock = {}, View(), {}, ""

    def report(self) -> Mapping[str, Any]:
        """Return the health document. A process on standby is healthy, but not ready; nor is one whose clock is apart."""
        counts = {
            **{name: count for (name,), count in self._counts.items()},
            **{f"outcomes_{status}": count for status, count in self._outcomes.sums().items()},
            **{f"progress_{status}": count for (status,), count in self._progress.items()},
            "commands": self._commands.total(),
            "dead_letters": self._refused.total(),
        }
        is_ready = self.state == "active" and not self.clock
        apart = {"clock": self.clock} if self.clock else {}
        return {"role": "rescaler", "ready": is_ready, "state": self.state, **apart, **dict(sorted(counts.items()))}

    def _readings(self) -> Iterator[Reading]:
        yield Reading(metrics.ACTIVE, float(self.state == "active"), (self._cluster,))
        yield from self._read.readings(metrics.RECORDS_READ)
        yield from self._written.readings(metrics.RECORDS_WRITTEN)
        yield Reading(metrics.RECORDS_WRITTEN, self._outcomes.total() + self._progress.total(), (RESCHEDULE_EVENTS,))
        yield Reading(metrics.RECORDS_WRITTEN, self._commands.total(), (RESCHEDULE_COMMANDS,))
        yield Reading(metrics.RECORDS_WRITTEN, self._refused.total(), (DEAD_LETTERS,))
        yield from self._outcomes.readings(metrics.OUTCOMES)
        yield from self._commands.readings(metrics.COMMANDS)
        yield from self._progress.readings(metrics.PROGRESS)
        yield from self._refused.readings(metrics.DEAD_LETTERS)
        for (name,), count in self._counts.items():
            if name in _COUNTERS:
                yield Reading(_COUNTERS[name], count)
        yield Reading(metrics.HELD_BACK, self.stable_offset_lag.seconds())
        yield from self._jobs()
        yield from self._learners()
        yield from self._rents()

    def _jobs(self) -> Iterator[Reading]:
        phases = dict.fromkeys(Phase, 0)
        in_flight = dict.fromkeys(("issued", "accepted", "warming", "partly"), 0)
        for memory in self._memory.values():
            if memory.gate is not None:
                phases[memory.gate.phase] += 1
            if memory.outstanding is not None:
                last = self._last_report.get(memory.outstanding.command_id)
                status = last.status if last is not None else "issued"
                in_flight[status] = in_flight.get(status, 0) + 1
        yield from (Reading(metrics.JOBS, count, (phase.lower(),)) for phase, count in phases.items())
        yield from (Reading(metrics.IN_FLIGHT, count, (status,)) for status, count in in_flight.items())

    def _learners(self) -> Iterator[Reading]:
        warming = [report for report in list(self._last_report.values()) if report.status == "warming"]
        yield Reading(metrics.LEARNERS, sum(report.learners for report in warming))
        yield Reading(metrics.LEARNER_LAG, sum(report.lag_bytes or 0 for report in warming))

    def _action_of(self, progress: Progress) -> str:
        memory = self._memory.get(progress.job)
        command = memory.outstanding if memory is not None else None
        return command.action if command is not None and command.command_id == progress.command_id else "commit"

    def _rents(self) -> Iterator[Reading]:
        view, used = self._view, set[str]()
        if view.engine is not None and view.engine.places == "itself":
            return  # nobody knows on which hosts a job runs, so what it costs is unknown
        prices = prices_of(view.hosts)
        for job, topology in sorted(view.jobs.items()):
            hosts = occupancy_of(topology, view.hosts, None).hosts
            used.update(hosts)
            yield Reading(metrics.RENT, rent_per_s(hosts, prices), (job,))
        if view.cluster is not None:
            yield Reading(metrics.CLUSTER_RENT, rent_per_s(used, prices), (view.cluster.cluster,))
