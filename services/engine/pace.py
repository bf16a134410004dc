"""Lockstep: at which minutes the road's clock stops, and what must have been read before it goes on. Pure: no clock, no I/O.

The clock stops at every span's end, at the end of every minute in which a promised wake-up falls, at the end of every minute in
which a rescale ends, and at the end of the run. Since everything that a stop causes is acknowledged before the clock goes on, two
runs with one seed make the same decisions at the same minutes on any machine.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from contracts.clock import MINUTE_MS, minute_end_ms
from contracts.messages import Outcome, Progress

_ADVICE = "advise"  # reason of a command that actuators ignore
_FINAL = ("applied", "failed")


@dataclass(slots=True)
class _Command:
    """A command that an outcome named or that arrived at the engine."""

    is_promised: bool = False  # an outcome named it
    has_arrived: bool = False
    is_refused: bool = False
    due_ms: int | None = None  # stop at which the rescale is over


@dataclass(slots=True)
class Lockstep:
    """Where the clock stands still, and why.

    Attributes:
        start_ms: event time of the run's beginning.
        end_ms: event time of its end.
        span_minutes: how often the policy decides.
        stop_ms: the stop that the clock is at, or on its way to.
        misses: answers that did not come within the wall limit.
    """

    start_ms: int
    end_ms: int
    span_minutes: int
    stop_ms: int = -1
    misses: int = 0
    _answered: set[tuple[str, int]] = field(default_factory=set)
    _latest: dict[str, Outcome] = field(default_factory=dict)  # decision -> its highest sequence
    _commands: dict[str, _Command] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)  # commands with a final progress

    def __post_init__(self) -> None:
        """Begin at the start of the run, where nothing is waited for."""
        assert self.span_minutes >= 1, self.span_minutes
        if self.stop_ms < 0:
            self.stop_ms = self.start_ms

    def on_outcome(self, outcome: Outcome) -> None:
        """Take note of what the rescaler did with a decision."""
        self._answered.add((outcome.job, outcome.span_end_ms))
        known = self._latest.get(outcome.decision_id)
        if known is None or outcome.sequence > known.sequence:
            self._latest[outcome.decision_id] = outcome
        command = outcome.command_id
        if outcome.status == "commanded" and command and outcome.reason != _ADVICE and command not in self._ended:
            self._commands.setdefault(command, _Command()).is_promised = True

    def on_command(self, command_id: str, done_at_ms: int) -> None:
        """Take note that a command arrived, and when its rescale will be over; again, if that time has moved."""
        if command_id not in self._ended:
            command = self._commands.setdefault(command_id, _Command())
            command.has_arrived, command.due_ms = True, minute_end_ms(done_at_ms)

    def on_refusal(self, command_id: str) -> None:
        """Take note that a command arrived and the engine refused it."""
        if command_id not in self._ended:
            command = self._commands.setdefault(command_id, _Command())
            command.has_arrived = command.is_refused = True

    def on_progress(self, progress: Progress) -> None:
        """Take note of what the actuator reported."""
        if progress.status in _FINAL:
            self._ended.add(progress.command_id)
            self._commands.pop(progress.command_id, None)

    def waiting_for(self, jobs: Iterable[str]) -> list[str]:
        """Return in words what must still be read at this stop; ``jobs`` are those that run."""
        return [words for words, _ in self._open(jobs)]

    def next_stop(self) -> int:
        """Return the next stop after this one; the end of the run when there is no other."""
        return min((stop for stop in self._stops() if stop > self.stop_ms), default=self.end_ms)

    def move_on(self) -> int:
        """Go to the next stop and return it."""
        self.stop_ms = self.next_stop()
        return self.stop_ms

    def give_up(self, jobs: Iterable[str]) -> list[str]:
        """Count what is still missing at this stop as missed, wait for it no longer, and return it in words."""
        missing = self._open(jobs)
        for _, key in missing:
            kind, identity = key
            if kind == "span":
                self._answered.add((identity, self.stop_ms))
            elif kind == "wake-up":
                del self._latest[identity]
            else:
                del self._commands[identity]
                self._ended.add(identity)
        self.misses += len(missing)
        return [words for words, _ in missing]

    def _open(self, jobs: Iterable[str]) -> list[tuple[str, tuple[str, str]]]:
        found: list[tuple[str, tuple[str, str]]] = []
        minute = self._minute(self.stop_ms)
        if self._is_span_end(self.stop_ms):
            for job in sorted(set(jobs)):
                if (job, self.stop_ms) not in self._answered:
                    found.append((f"an outcome of {job} for the span that ends at minute {minute}", ("span", job)))
        for decision, outcome in sorted(self._latest.items()):
            if outcome.status == "pending" and outcome.until_ms is not None and outcome.until_ms <= self.stop_ms:
                words = f"a further outcome of {decision}, promised for minute {self._minute(minute_end_ms(outcome.until_ms))}"
                found.append((words, ("wake-up", decision)))
        for identity, command in sorted(self._commands.items()):
            words = self._lacks(identity, command)
            if words:
                found.append((words, ("command", identity)))
        return found

    def _lacks(self, identity: str, command: _Command) -> str:
        if not command.has_arrived:
            return f"command {identity} to arrive"
        if not command.is_promised:
            return ""  # somebody's own command: nobody reports on it
        if command.is_refused:
            return f"the report that {identity} was refused"
        if command.due_ms is not None and self.stop_ms >= command.due_ms:
            return f"the report that {identity} is applied"
        return ""

    def _stops(self) -> Iterable[int]:
        yield self.end_ms
        span_ms = self.span_minutes * MINUTE_MS
        span_end_ms = (self.stop_ms // span_ms + 1) * span_ms
        wake_ups = (outcome.until_ms for outcome in self._latest.values() if outcome.status == "pending")
        dues = (command.due_ms for command in self._commands.values())
        for at_ms in (span_end_ms, *wake_ups, *dues):
            if at_ms is not None and minute_end_ms(at_ms) <= self.end_ms:
                yield minute_end_ms(at_ms)

    def _is_span_end(self, at_ms: int) -> bool:
        return at_ms > self.start_ms and at_ms % (self.span_minutes * MINUTE_MS) == 0

    def _minute(self, at_ms: int) -> int:
        return (at_ms - self.start_ms) // MINUTE_MS
