"""Moves the simulated cluster along the pipeline's clock: segment by segment, from stop to stop.

Runs in one asyncio loop together with the HTTP API. Only publishing a segment may block, and it runs in a thread.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from surescale.contracts.clock import MINUTE_MS, pipeline_time_ms, wall_time_ms
from surescale.contracts.commands import Balance, EventRecord, Outcome, Progress, Rescale, RescheduleCommand
from surescale.contracts.messages import ClockPrerequisites, ClockSegment
from surescale.services.engine.documents import RunDocument
from surescale.services.engine.pace import Checkpoint, Lockstep
from surescale.services.engine.settings import EngineSettings
from surescale.simulation.engine.checked_changes import EngineRefusal
from surescale.simulation.engine.cluster import SimulatedCluster

Publish = Callable[[ClockSegment], None]

_LONGEST_SLEEP_S = 0.2
_SAY_AFTER_S = 5.0
_log = logging.getLogger("surescale.engine")


def wall_clock_ms() -> int:
    """Return the wall time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class ClockDriver:
    """The cluster and the clock that drives it."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        settings: EngineSettings,
        publish: Publish,
        wall_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """Stay stopped at the beginning of the run until ``start``."""
        self.cluster = cluster
        self._settings = settings
        self._publish = publish
        self._wall_ms = wall_ms
        self._pace = Lockstep(cluster.start_ms, cluster.end_ms, settings.span_minutes) if settings.pace == "lockstep" else None
        if self._pace:
            options = cluster.options
            self._pace.checkpoint_interval_ms = options.checkpoint_interval_ms
            changes = sorted({*options.kill_host_minutes, *options.join_host_minutes})
            self._pace.host_changes_ms = tuple(cluster.start_ms + minute * MINUTE_MS for minute in changes)
        self._events_seen = 0
        self._started = asyncio.Event()
        self._answer = asyncio.Event()
        self._minute_ended = asyncio.Condition()
        self._reached_wall_ms: list[int] = []
        self._is_over = False
        self.segment = self._segment(sequence=0, from_ms=cluster.start_ms, until_ms=cluster.start_ms)

    @property
    def is_started(self) -> bool:
        """Say whether the trace has started."""
        return self._started.is_set()

    @property
    def misses(self) -> int:
        """Return how many answers did not arrive in time."""
        return self._pace.misses if self._pace else 0

    def start(self) -> None:
        """Start the trace; calling it again changes nothing."""
        self._started.set()

    def now_ms(self) -> int:
        """Move the cluster up to the clock's time, and return that time."""
        self._catch_up()
        return self.cluster.now_ms

    def apply(self, command: RescheduleCommand) -> Rescale:
        """Pass a command to the cluster.

        Raises:
            EngineRefusal: as ``SimulatedCluster.apply``.
        """
        now_ms = self.now_ms()
        try:
            rescale = self.cluster.apply(command, now_ms)
        except EngineRefusal:
            if self._pace:
                self._pace.on_refusal(command.command_id)
                self._answer.set()
            raise
        if self._pace:
            self._pace.on_command(command)
            self._pace.on_rescale(command.command_id, _over_at_ms(rescale))
            self._answer.set()
        return rescale

    def on_records(self, records: Iterable[EventRecord]) -> None:
        """Take note of committed records from the topic ``reschedule-events``."""
        if self._pace is None:
            return
        for record in records:
            if isinstance(record, Outcome):
                self._pace.on_outcome(record)
            elif isinstance(record, Balance):
                self._pace.on_balance(record)
            elif isinstance(record, Progress):
                self._pace.on_progress(record)
        self._answer.set()

    def waiting_for(self) -> list[str]:
        """Return, in words, what the clock is waiting for at its stop; empty while it moves."""
        if self._pace is None or self.now_ms() < self.segment.until_ms:
            return []
        return self._pace.waiting_for(self._running_jobs())

    def reached_wall_ms(self, minute_end_ms: int) -> int:
        """Return the wall time at which the clock reached the end of a finished minute."""
        return self._reached_wall_ms[(minute_end_ms - self.cluster.start_ms) // MINUTE_MS - 1]

    def progress(self) -> RunDocument:
        """Return the progress of the run."""
        self._catch_up()
        return RunDocument(
            minutes=self.cluster.options.minutes,
            minutes_done=self.cluster.minutes_done,
            start_ms=self.cluster.start_ms,
            end_ms=self.cluster.end_ms,
            now_ms=self.cluster.now_ms,
            started=self.is_started,
            finished=self._is_over,
            misses=self.misses,
            waiting_for=self.waiting_for(),
        )

    async def wait_for_minute(self, timeout_s: float) -> None:
        """Return once a minute has ended, or after the timeout."""
        async with self._minute_ended:
            try:
                await asyncio.wait_for(self._minute_ended.wait(), timeout_s)
            except TimeoutError:
                return

    async def run(self) -> None:
        """Publish the clock, wait for the start, and move until the end of the run."""
        await self._publish_in_thread(self.segment)
        await self._started.wait()
        while not self.cluster.is_finished:
            until_ms = self._pace.move_on() if self._pace else self.cluster.end_ms
            # To Kafka first: a reader that sees a minute of this segment must be able to see the segment.
            await self._go_on(self._segment(self.segment.sequence + 1, self.cluster.now_ms, until_ms))
            await self._move()
            if self._pace:
                # The clock stands still: everything that may be acted on at this time is now known.
                await self._go_on(self._segment(self.segment.sequence + 1, until_ms, until_ms))
                await self._answers(self._pace)
        self._is_over = True
        _log.info("the run ended at minute %d; %d answers were missed", self.cluster.minutes_done, self.misses)

    async def _go_on(self, segment: ClockSegment) -> None:
        await self._publish_in_thread(segment)
        self.segment = segment

    async def _move(self) -> None:
        while True:
            if self._catch_up():
                async with self._minute_ended:
                    self._minute_ended.notify_all()
            now_ms = self.cluster.now_ms
            if now_ms >= self.segment.until_ms:
                return
            next_ms = min(self.segment.until_ms, (now_ms // MINUTE_MS + 1) * MINUTE_MS)
            sleep_s = (wall_time_ms(self.segment, next_ms) + 1 - self._wall_ms()) / 1000
            await asyncio.sleep(min(max(sleep_s, 0.0), _LONGEST_SLEEP_S))

    async def _answers(self, pace: Lockstep) -> None:
        """Wait at a stop until everything expected has been read, at most up to the wall limit."""
        began_s, said = time.monotonic(), False
        while missing := pace.waiting_for(self._running_jobs()):
            waited_s = time.monotonic() - began_s
            if waited_s >= self._settings.stop_wait_s:
                for words in pace.give_up(self._running_jobs()):
                    _log.warning("gave up after waiting %.0f s for %s", waited_s, words)
                return
            if waited_s >= _SAY_AFTER_S and not said:
                _log.info("waiting at minute %d for %s", self.cluster.minutes_done, "; ".join(missing[:3]))
                said = True
            self._answer.clear()
            try:
                left_s = self._settings.stop_wait_s - waited_s
                await asyncio.wait_for(self._answer.wait(), min(left_s, _SAY_AFTER_S))
            except TimeoutError:
                continue

    def _catch_up(self) -> int:
        ended = self.cluster.advance(max(self.cluster.now_ms, pipeline_time_ms(self.segment, self._wall_ms())))
        for _ in range(ended):
            end_ms = self.cluster.start_ms + (len(self._reached_wall_ms) + 1) * MINUTE_MS
            self._reached_wall_ms.append(wall_time_ms(self.segment, end_ms))
        if ended and self._pace:
            self._tell_pace(self._pace)
        return ended

    def _tell_pace(self, pace: Lockstep) -> None:
        """Tell the pace what happened in the minutes that have just passed."""
        jobs = self.cluster.jobs
        for job in jobs.values():  # learners may be ready, or a host's death may have delayed the end of a restart
            if job.rescale:
                pace.on_rescale(job.rescale.command_id, _over_at_ms(job.rescale))
        pace.waiting = {name: job.topology.at_ms for name, job in jobs.items() if job.is_waiting}
        for event in self.cluster.events[self._events_seen :]:
            if event.host:
                pace.on_hosts(self.cluster.topology().version, event.at_ms)
            if event.job and event.kind.startswith("checkpoint_"):
                pace.checkpoints = {**pace.checkpoints, event.job: Checkpoint(event.sequence, event.at_ms)}
        self._events_seen = len(self.cluster.events)

    def _running_jobs(self) -> list[str]:
        return [name for name, job in self.cluster.jobs.items() if not job.is_waiting]

    def _segment(self, sequence: int, from_ms: int, until_ms: int) -> ClockSegment:
        return ClockSegment(
            pipeline=self._settings.pipeline,
            sequence=sequence,
            e0_ms=from_ms,
            w0_ms=self._wall_ms(),
            speed=self._settings.clock_speed,
            until_ms=until_ms,
            end_ms=self.cluster.end_ms,
            told=self._prerequisites() if self._pace else None,
        )

    def _prerequisites(self) -> ClockPrerequisites:
        jobs = {name: job.minutes[-1].topology.version for name, job in self.cluster.jobs.items() if job.minutes}
        return ClockPrerequisites(hosts=self.cluster.topology().version, events=len(self.cluster.events), jobs=jobs)

    async def _publish_in_thread(self, segment: ClockSegment) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._publish, segment)


def _over_at_ms(rescale: Rescale) -> int | None:
    """Return when a rescale ends; None while its learners warm up."""
    return None if rescale.state == "warming" else rescale.done_at_ms
