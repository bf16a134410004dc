"""A job under a constant load whose work is dealt out, in a closed loop with policies, guardrails and stateful limits.

K partitions or key groups of one rate each lie on p subtasks as Kafka or Flink deals them out. The busiest subtask bounds what
gets through; what does not waits. A rescale takes effect with the next minute, in which the job is down. What is told of unequal
partitions are the product's own figures.
"""

from collections.abc import Container
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import Input, JobTopology, TaskSpec
from surescale.contracts.windows import FIGURE, HOURS, Float32, Window, blank_figures, unknown_hours
from surescale.engines.kafka.deals import Rates
from surescale.policies.decide import decide_if_due
from surescale.policies.policy import Policy, is_span_end
from surescale.policies.stateful_limits import Change, LimitsMemory, after_begin, after_end, apply_limits, with_needs

JOB = "real/dealt"
TASK = "count"
BEGIN_MS = 1_780_002_000_000  # the end of an hour
RECORDS = 1_000.0  # that one subtask gets through in a minute
WINDOW_MINUTES = 60


@dataclass(frozen=True)
class Cell:
    """One constant load: ``things`` of one rate each, or of ``rates``, together worth ``busy`` subtasks, with noise by minute.

    In the minutes of ``outage`` what the job writes to is down: every subtask is busy with it, and nothing gets through. From
    minute ``rise[0]`` on ``rise[1]`` times as much comes. Of a ``hidden`` load the source tells only what it reads. In each
    minute every member is ``gone`` by that chance, and the others read on. A rescale ``stops`` the job for so many minutes. Every
    ``burst[0]`` minutes ``burst[2]`` times as much comes for ``burst[1]`` of them; ``only_bursts``: else nothing. In minute
    ``fewer[0]`` the topic is made anew, of ``fewer[1]`` partitions of one rate. Groups deal by ``range``, or ``sticky``: who has
    a partition keeps it if that is even.
    """

    engine: str
    things: int
    busy: float
    noise: float
    begin: int
    seed: int
    rates: tuple[float, ...] = ()
    outage: Container[int] = range(0)
    rise: tuple[int, float] = (0, 1.0)
    hidden: bool = False
    gone: float = 0.0
    stops: int = 1
    burst: tuple[int, int, float] = (1, 0, 1.0)
    fewer: tuple[int, int] = (-1, 0)
    assignor: str = "range"
    only_bursts: bool = False


@dataclass
class Course:
    """What became of a cell: (minute, before, after) of each rescale, and size and waiting records of each minute."""

    rescales: list[tuple[int, int, int]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    decisions: int = 0
    reason: str = ""  # of the last decision


def run(cell: Cell, policy: Policy, minutes: int, *, restart_s: float | None = None, shrinks_after: int | None = None) -> Course:
    """Return the course of so many minutes under a policy.

    By the job's owner a restart takes ``restart_s``, and a lower need must last ``shrinks_after`` minutes; None: the default.
    """
    loop = _Loop(cell, policy)
    changes = {"restart_seconds": restart_s, "scale_down_after_minutes": shrinks_after}
    loop.settings = msgspec.structs.replace(loop.settings, **changes)
    for minute in range(minutes):
        loop.step(minute)
    return loop.course


class _Loop:
    def __init__(self, cell: Cell, policy: Policy) -> None:
        self.cell, self.policy, self.course = cell, policy, Course()
        self.size = self.asked = cell.begin
        self.down, self.has_changed, self.has_begun = 0, False, False
        self._make_topic(np.array(cell.rates or (1.0,) * cell.things), BEGIN_MS - MINUTE_MS)
        self._deal()
        self.settings, self.memory = JobSettings(job=JOB), LimitsMemory()
        self.decided_ms = 0
        self.topology = self._topology(0)
        count = len(self.topology.tasks)
        self.figures: Float32 = np.full((WINDOW_MINUTES, count, len(FIGURE)), np.nan, dtype=np.float32)
        self.loads: list[float] = []
        self.random = np.random.default_rng([cell.seed, cell.things, int(1000 * cell.busy)])
        self.noise = np.maximum(1.0 + cell.noise * self.random.standard_normal(1_000), 0.0)

    def _make_topic(self, rates: npt.NDArray[np.float64], seen_ms: int) -> None:
        self.things, self.shares = len(rates), rates / rates.sum()
        self.waiting = np.zeros(len(rates))  # of each thing
        self.of = np.full(len(rates), -1)  # the subtask that has each thing
        self.rates = Rates()
        self.rates.add({("topic", each): 0 for each in range(self.things)}, seen_ms)  # the first look shows no arrivals

    def _deal(self) -> None:
        """Deal the things out to as many subtasks as there are."""
        things, size = np.arange(self.things), self.size
        if self.cell.engine == "flink":
            self.of = things * size // max(self.things, size)  # key groups in ranges, as even as can be
        elif self.cell.assignor == "range":
            each, more = divmod(self.things, size)
            self.of = np.repeat(np.arange(size), [each + 1] * more + [each] * (size - more))
        else:
            self.of = self._kept(np.random.default_rng([self.cell.seed, size, len(self.course.rescales)]))

    def _kept(self, random: np.random.Generator) -> npt.NDArray[np.int64]:
        room = [self.things // self.size + (at < self.things % self.size) for at in range(self.size)]
        found = np.full(self.things, -1)
        for thing in random.permutation(self.things).tolist():
            if 0 <= (has := self.of[thing]) < self.size and room[has]:
                found[thing] = has
                room[has] -= 1
        for thing in random.permutation(np.flatnonzero(found < 0)).tolist():
            found[thing] = int(np.argmax(room))
            room[found[thing]] -= 1
        return found

    def step(self, minute: int) -> None:
        """Let a minute pass, and decide at its end."""
        since, times = self.cell.rise
        came = RECORDS * self.cell.busy * float(self.noise[minute]) * (times if minute >= since else 1.0)
        every, lasting, more = self.cell.burst
        came *= more if minute % every < lasting else float(not self.cell.only_bursts)
        if minute == self.cell.fewer[0]:
            self._make_topic(np.ones(self.cell.fewer[1]), BEGIN_MS + (minute - 1) * MINUTE_MS)
            self._deal()
        before = float(self.waiting.sum())
        if self.cell.gone and not self.down:
            self._come_and_go(BEGIN_MS + minute * MINUTE_MS)
        self.figures = np.concatenate([self.figures[1:], self._minute(came, is_out=minute in self.cell.outage)])
        came_each = {("topic", each): int(came * share) for each, share in enumerate(self.shares)}
        self.rates.add(came_each, BEGIN_MS + minute * MINUTE_MS)
        self.loads.append(came)
        self.course.sizes.append(self.size)
        self.course.waiting.append(float(self.waiting.sum()))
        end_ms = BEGIN_MS + (minute + 1) * MINUTE_MS
        grown = self.course.waiting[-1] > before
        if is_span_end(end_ms, self.policy.span_minutes) or grown:  # without growth there is no emergency
            self._decide(minute, end_ms)

    def _come_and_go(self, at_ms: int) -> None:
        size = max(self.asked - int(self.random.binomial(self.asked, self.cell.gone)), 1)
        self.has_changed, self.size = size != self.size, size
        self._deal()
        self.topology = self._topology(at_ms)

    def _minute(self, came: float, *, is_out: bool) -> Float32:
        """Return the figures [1, N, F] of a minute in which so many records came, for each thing by its rate."""
        cell, was_down = self.cell, self.down > 0
        self.down = max(self.down - 1, 0)
        row = blank_figures(1, len(self.topology.tasks))
        row[..., FIGURE["parallelism"]] = 1.0
        row[0, -1, FIGURE["parallelism"]] = self.size
        row[..., FIGURE["restarts"]] = was_down or self.has_changed or self.has_begun
        self.has_begun = was_down and cell.engine != "flink"  # nobody sees a group that rebalances
        row[..., FIGURE["coverage"]] = 1.0
        self.waiting += came * self.shares
        of = self.of
        work = np.bincount(of, self.waiting, minlength=self.size)
        share = np.zeros(self.size) if was_down or is_out else np.minimum(RECORDS / np.maximum(work, 1e-9), 1.0)
        if cell.engine == "flink":
            share[:] = share.min()  # the fullest one holds the source back
        done = self.waiting * share[of]
        self.waiting = self.waiting - done
        busy = np.bincount(of, done, minlength=self.size) / RECORDS * MINUTE_MS
        if is_out and not was_down:
            busy = np.where(work > 0.0, float(MINUTE_MS), 0.0)
        mine = row[0, -1]
        mine[FIGURE["records_in"]] = mine[FIGURE["records_out"]] = done.sum()
        mine[FIGURE["busy_ms"]], mine[FIGURE["busy_ms_max"]] = busy.sum(), busy.max()
        mine[FIGURE["idle_ms"]] = 0.0 if was_down else self.size * MINUTE_MS - busy.sum()
        source = row[0, 0]  # of a group the task itself
        source[FIGURE["arrived"]] = np.nan if cell.hidden else came
        queued = np.nan if cell.hidden else self.waiting.sum()
        source[FIGURE["queued_records_last"]] = source[FIGURE["queued_records_mean"]] = queued
        if cell.engine == "flink":
            source[FIGURE["records_in"]] = source[FIGURE["records_out"]] = done.sum()
            source[FIGURE["busy_ms"]] = source[FIGURE["busy_ms_max"]] = 0.0 if was_down else 0.05 * MINUTE_MS
            source[FIGURE["idle_ms"]] = 0.0 if was_down else 0.95 * MINUTE_MS
        elif was_down:
            row[:] = np.nan  # nobody reads the group while it rebalances
        return row

    def _decide(self, minute: int, end_ms: int) -> None:
        hours, peaks = self._hours(minute)
        self.topology = self._topology(self.topology.version)
        window = Window(JOB, end_ms, self.figures, self.topology, hours, hourly_peak=peaks)
        decision = decide_if_due(window, self.policy, self.settings, seed=0)
        if decision is None:
            return
        self.course.decisions += 1
        self.course.reason = decision.reason
        self.memory = with_needs(self.memory, decision, self.settings, self.cell.engine, before_ms=self.decided_ms)
        self.decided_ms = end_ms
        if decision.action == "act":
            self._act(decision, minute, end_ms)

    def _act(self, decision: Decision, minute: int, end_ms: int) -> None:
        left = apply_limits(self.memory, decision, self.topology, self.settings, engine=self.cell.engine, hosts=())
        after = left.wanted.get(TASK, self.size)
        if left.refusal is not None or after in (self.size, self.asked):
            return
        (own,) = (task for task in decision.tasks if task.task == TASK)
        change = Change(self.size, after, own.records_per_minute if own.overloaded else None)
        self.memory = after_end(after_begin(self.memory, {TASK: change}, end_ms), ok=True, at_ms=end_ms + MINUTE_MS)
        self.course.rescales.append((minute, self.size, after))
        self.size = self.asked = after
        self.down = self.cell.stops
        self._deal()
        self.topology = self._topology(end_ms)

    def _topology(self, at_ms: int) -> JobTopology:
        things = self.things
        tasks: tuple[TaskSpec, ...]
        if self.cell.engine == "flink":
            tasks = (
                TaskSpec(task="source", max_parallelism=1),
                TaskSpec(
                    task=TASK,
                    upstream=("source",),
                    inputs=(Input(task="source", ship="hash"),),
                    parallelism=self.size,
                    max_parallelism=things,
                    vnodes=things,
                ),
            )
        else:
            members = [{("topic", int(each)) for each in np.flatnonzero(self.of == at)} for at in range(self.size)]
            carries = self.rates.carries(self.cell.assignor, things, members)
            tasks = (TaskSpec(task=TASK, parallelism=self.size, max_parallelism=10_000, useful_max=things, carries=carries),)
        return JobTopology(job=JOB, version=at_ms, at_ms=at_ms, tasks=tasks, engine=self.cell.engine)

    def _hours(self, minute: int) -> tuple[Float32, Float32]:
        """Return the mean load of the hours so far and the highest mean of five minutes; the last hour is unfinished."""
        hours, peaks = unknown_hours(), unknown_hours()
        last = minute // 60
        for hour in range(last + 1):
            loads = np.array(self.loads[60 * hour : 60 * hour + 60])
            hours[HOURS - 1 - last + hour] = loads.mean()
            if len(loads) >= 5:
                peaks[HOURS - 1 - last + hour] = np.convolve(loads, np.full(5, 0.2), mode="valid").max()
        return hours, peaks
