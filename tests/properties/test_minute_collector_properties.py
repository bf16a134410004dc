"""Whatever happens to engine, monitor and delivery: minutes add up to the engine's counters, and holes stay holes."""

import threading
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from surescale.contracts.messages import TaskSample
from surescale.engines.ports.minutes import JobSnapshot, MinuteCollector
from surescale.engines.ports.source import FinishedMinute, SourceUnavailable
from tests.support.builders import sample
from tests.support.engine_stub import job_chain

JOB = "flink/orders"
MINUTE = 60_000

Event = str
EVENTS = st.lists(st.sampled_from(["minute", "minute", "hole", "restart", "deliver", "refused", "monitor restarts"]), max_size=40)


@dataclass
class World:
    """An engine, the collector that looks at it, and a reader that counts each record once."""

    at_ms: int = 0
    attempt: int = 0
    counter: int = 0
    is_away: bool = False
    looked_at: dict[int, TaskSample] = field(default_factory=dict)
    """End of a minute -> what a successful look showed."""
    shown: list[TaskSample] = field(default_factory=list)
    delivered: dict[int, FinishedMinute] = field(default_factory=dict)
    acknowledged_ms: int = 0
    collector: MinuteCollector = field(init=False)

    def __post_init__(self) -> None:
        self.collector = MinuteCollector(JOB, self.look, "run", self, threading.Event())

    def now_ms(self) -> int:
        """The present time."""
        return self.at_ms

    def wait(self, seconds: float) -> bool:
        """Time passes; the job works meanwhile."""
        passed_ms = max(0, round(seconds * 1000))
        self.at_ms += passed_ms
        self.counter += passed_ms // 10
        return False

    def look(self) -> JobSnapshot:
        """The job's one counter."""
        if self.is_away:
            raise SourceUnavailable("away")
        seen = sample(job=JOB, records_in=self.counter, attempt=self.attempt, sampled_at_ms=self.at_ms)
        self.shown.append(msgspec.structs.replace(seen, as_of_ms=self.at_ms))
        return JobSnapshot(job_chain(JOB), (self.shown[-1],))

    def happen(self, event: Event) -> None:
        """Let one thing happen."""
        if event in ("minute", "hole"):
            self.is_away = event == "hole"
            self.collector.take_minute()
            if event == "minute":
                assert self.at_ms % MINUTE == 0, "a minute is finished at its end"
                self.looked_at[self.at_ms] = msgspec.structs.replace(self.shown[-1], sampled_at_ms=self.at_ms)
        elif event == "restart":
            self.attempt, self.counter = self.attempt + 1, 0
        elif event == "monitor restarts":
            self._forget()
        else:
            self._deliver(is_acknowledged=event == "deliver")

    def _deliver(self, *, is_acknowledged: bool) -> None:
        for minute in self.collector._kept.after(self.acknowledged_ms):
            again = self.delivered.setdefault(minute.minute_end_ms, minute)
            assert again == minute, "a minute that is sent again is the same"
            if is_acknowledged:
                self.acknowledged_ms = minute.minute_end_ms

    def _forget(self) -> None:
        """Start the monitor again: what it had not delivered is lost, as nobody else has it."""
        for end_ms in [end_ms for end_ms in self.looked_at if end_ms not in self.delivered]:
            del self.looked_at[end_ms]
        self.collector = MinuteCollector(JOB, self.look, "run", self, threading.Event())


def growth(minutes: list[FinishedMinute]) -> int:
    """Return how far the counter grew, as a reader counts it: within an attempt the last value, a new one from 0."""
    total, attempt, last = 0, -1, 0
    for minute in minutes:
        (seen,) = minute.samples
        total += seen.records_in - (last if seen.attempt == attempt else 0)
        attempt, last = seen.attempt, seen.records_in
    return total


@settings(deadline=None)
@given(EVENTS)
def test_minutes_add_up_to_the_counters_and_holes_stay_holes(events: list[Event]) -> None:
    """Each look becomes exactly one minute; the sum of their growth is what the attempts' last looks showed."""
    world = World()
    for event in events:
        world.happen(event)
    world.happen("deliver")
    minutes = [world.delivered[end_ms] for end_ms in sorted(world.delivered)]
    assert [minute.minute_end_ms for minute in minutes] == sorted(world.looked_at)
    assert [minute.samples[0] for minute in minutes] == [world.looked_at[end_ms] for end_ms in sorted(world.looked_at)]
    last_of = {minute.samples[0].attempt: minute.samples[0].records_in for minute in minutes}
    assert growth(minutes) == sum(last_of.values())


@settings(deadline=None)
@given(EVENTS)
def test_a_rate_over_the_time_that_a_figure_covers_is_the_true_one(events: list[Event]) -> None:
    """Also after a hole: growth divided by the time since the figure before it never shows a burst."""
    world = World()
    for event in events:
        world.happen(event)
    world.happen("deliver")
    seen = [world.delivered[end_ms].samples[0] for end_ms in sorted(world.delivered)]
    for before, after in pairwise(seen):
        if before.attempt == after.attempt:
            assert before.as_of_ms is not None
            assert after.as_of_ms is not None
            covered_ms = after.as_of_ms - before.as_of_ms
            assert abs((after.records_in - before.records_in) - covered_ms / 10) <= covered_ms / MINUTE * 20
