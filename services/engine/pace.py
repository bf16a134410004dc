"""Lockstep: at which minutes the pipeline's clock stops, and what must be read before it moves on. Pure: no clock, no I/O.

The clock stops at the end of every span, at the end of the run, and at the end of every minute in which

- a promised wake-up falls, or a rescale ends,
- learners warm up, or a checkpoint is taken that an act waits for,
- the rescaler learns that a job has no units, or that hosts came or went.

Everything that a stop causes is acknowledged before the clock moves on. So two runs with the same seed make the same decisions at
the same minutes on any machine.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from surescale.contracts.clock import MINUTE_MS, minute_end_ms
from surescale.contracts.commands import NOT_REPORTED, Balance, Outcome, Progress, RescheduleCommand
from surescale.contracts.ids import command_id

_ADVICE = "advise"  # the reason of an outcome whose command actuators ignore
_FINAL = ("applied", "failed")
_TRIGGERED = ("stabilizing", "stabilized")  # reasons of acts that a checkpoint may release


@dataclass(slots=True)
class _Command:
    """A command that an outcome named or that arrived at the engine."""

    is_promised: bool = False  # an outcome named it
    has_arrived: bool = False
    is_refused: bool = False
    is_acknowledged: bool = False  # the actuator has reported that it was accepted
    is_warming: bool = False  # it ends when its learners are ready
    due_ms: int | None = None  # the stop at which the rescale has ended
    next: str | None = None  # the command that follows when this one has ended


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that the engine has taken: the sequence of its event, and its time."""

    sequence: int
    at_ms: int


@dataclass(slots=True)
class Lockstep:
    """Where the clock stops, and why.

    Attributes:
        start_ms: event time of the run's beginning.
        end_ms: event time of its end.
        span_minutes: how often the policy decides.
        stop_ms: the stop that the clock is at, or moving to.
        misses: answers that did not arrive within the wall limit.
    """

    start_ms: int
    end_ms: int
    span_minutes: int
    stop_ms: int = -1
    misses: int = 0
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Jobs without units, and since when. The rescaler owes each an answer one minute later, when it can know."""
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=dict)
    """The newest checkpoint of each job."""
    checkpoint_interval_ms: int | None = None
    host_changes_ms: tuple[int, ...] = ()
    """Times at which hosts are scheduled to die or join: stops, so that the look at the hosts follows one minute later."""
    _hosts: tuple[int, int] | None = None  # version of the hosts that the rescaler must look at, and when
    _balance: Balance | None = None  # its newest look
    _answered: set[tuple[str, int]] = field(default_factory=set)
    _latest: dict[str, Outcome] = field(default_factory=dict)  # decision -> its highest sequence
    _commands: dict[str, _Command] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)  # commands with a final progress

    def __post_init__(self) -> None:
        """Begin at the start of the run, where nothing is expected."""
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

    def on_command(self, command: RescheduleCommand) -> None:
        """Take note that a command arrived and was accepted."""
        if command.command_id not in self._ended:
            known = self._commands.setdefault(command.command_id, _Command())
            known.has_arrived = True
            if command.action == "prepare":
                known.next = command_id(command.job, command.desired_generation, command.step + 1)

    def on_rescale(self, of: str, done_at_ms: int | None) -> None:
        """Take note of when a command that arrived will end; None: whenever its learners are ready."""
        if of in self._commands:
            command = self._commands[of]
            command.is_warming = done_at_ms is None
            command.due_ms = None if done_at_ms is None else minute_end_ms(done_at_ms)

    def on_refusal(self, of: str) -> None:
        """Take note that a command arrived and the engine refused it."""
        if of not in self._ended:
            command = self._commands.setdefault(of, _Command())
            command.has_arrived = command.is_refused = True

    def on_progress(self, progress: Progress) -> None:
        """Take note of a report. A ``prepare`` that has ended is followed by another step, unless it was given up."""
        if progress.status == "accepted" and progress.command_id in self._commands:
            self._commands[progress.command_id].is_acknowledged = True
        if progress.status in _FINAL:
            self._ended.add(progress.command_id)
            ended = self._commands.pop(progress.command_id, None)
            goes_on = ended is not None and ended.is_promised and progress.code != NOT_REPORTED
            if ended and goes_on and ended.next and ended.next not in self._ended:
                self._commands.setdefault(ended.next, _Command()).is_promised = True

    def on_hosts(self, version: int, at_ms: int) -> None:
        """Take note that a host joined, leaves or died. The rescaler looks one minute later, when it can know about the jobs too.

        Before its first answer, the rescaler knows no cluster that could have changed.
        """
        if self._answered:
            self._hosts = (version, minute_end_ms(at_ms) + MINUTE_MS)

    def on_balance(self, balance: Balance) -> None:
        """Take note of the rescaler's look at the hosts."""
        newest = self._balance
        if newest is None or (balance.generation, balance.sequence) > (newest.generation, newest.sequence):
            self._balance = balance
        if self._hosts and balance.hosts_version >= self._hosts[0]:
            self._hosts = None

    def waiting_for(self, jobs: Iterable[str]) -> list[str]:
        """Return, in words, what must still be read at this stop; ``jobs`` are the running ones."""
        return [words for words, _ in self._open(jobs)]

    def next_stop(self) -> int:
        """Return the next stop after this one, or the end of the run if there is none."""
        return min((stop for stop in self._stops() if stop > self.stop_ms), default=self.end_ms)

    def move_on(self) -> int:
        """Go to the next stop and return it."""
        self.stop_ms = self.next_stop()
        return self.stop_ms

    def give_up(self, jobs: Iterable[str]) -> list[str]:
        """Count everything still missing at this stop as missed, stop waiting for it, and return it in words."""
        missing = self._open(jobs)
        for _, key in missing:
            kind, identity = key
            if kind == "span":
                self._answered.add((identity, self.stop_ms))
            elif kind == "waiting":
                self._answered.add((identity, self.waiting[identity]))
            elif kind == "hosts":
                self._hosts = None
            elif kind == "balance":
                self._balance = None
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
            elif checkpoint := self._untold(outcome):
                words = f"an outcome of {decision} that takes checkpoint {checkpoint.sequence} into account"
                found.append((words, ("wake-up", decision)))
        for identity, command in sorted(self._commands.items()):
            words = self._lacks(identity, command)
            if words:
                found.append((words, ("command", identity)))
        for job, since_ms in sorted(self.waiting.items()):
            if self.stop_ms >= since_ms + MINUTE_MS and not self._is_looked_after(job, since_ms):
                words = f"an outcome of {job}, which has been waiting for units since minute {self._minute(since_ms)}"
                found.append((words, ("waiting", job)))
        if self._hosts and self.stop_ms >= self._hosts[1]:
            found.append((f"a look at version {self._hosts[0]} of the hosts", ("hosts", "")))
        look_ms = self._balance.until_ms if self._balance else None
        if look_ms is not None and self.stop_ms >= look_ms:
            found.append(
                (f"another look at the hosts, promised for minute {self._minute(minute_end_ms(look_ms))}", ("balance", ""))
            )
        return found

    def _untold(self, outcome: Outcome) -> Checkpoint | None:
        """Return the checkpoint taken since an act's last outcome, if the act waits for one."""
        newest = self.checkpoints.get(outcome.job)
        if outcome.status != "pending" or outcome.reason not in _TRIGGERED or newest is None:
            return None
        return newest if newest.at_ms > outcome.at_ms and newest.sequence > outcome.checkpoint else None

    def _is_looked_after(self, job: str, since_ms: int) -> bool:
        """Say whether the rescaler knows that a job waits: it has answered, or an act or command of the job is under way."""
        pending = any(outcome.job == job and outcome.status == "pending" for outcome in self._latest.values())
        return pending or (job, since_ms) in self._answered or any(of.startswith(f"{job}#") for of in self._commands)

    def _lacks(self, identity: str, command: _Command) -> str:
        if not command.has_arrived:
            return f"command {identity} to arrive"
        if not command.is_promised:
            return ""  # sent by someone else: nobody reports on it
        if command.is_refused:
            return f"the report that {identity} was refused"
        if not command.is_acknowledged:
            return f"the report that {identity} was accepted"
        if command.due_ms is not None and self.stop_ms >= command.due_ms:
            return f"the report that {identity} is applied"
        return ""

    def _stops(self) -> Iterable[int]:
        yield self.end_ms
        span_ms = self.span_minutes * MINUTE_MS
        span_end_ms = (self.stop_ms // span_ms + 1) * span_ms
        wake_ups = (outcome.until_ms for outcome in self._latest.values() if outcome.status == "pending")
        dues = (command.due_ms for command in self._commands.values())
        warming = (self.stop_ms + MINUTE_MS for command in self._commands.values() if command.is_warming)
        told = (since_ms + MINUTE_MS for since_ms in self.waiting.values())
        looks = (self._hosts[1] if self._hosts else None, self._balance.until_ms if self._balance else None)
        for at_ms in (span_end_ms, *wake_ups, *dues, *warming, *told, *looks, *self.host_changes_ms, self._next_checkpoint_ms()):
            if at_ms is not None and minute_end_ms(at_ms) <= self.end_ms:
                yield minute_end_ms(at_ms)

    def _next_checkpoint_ms(self) -> int | None:
        """Return when the next checkpoint is due, while an act waits for one."""
        every_ms, latest = self.checkpoint_interval_ms, self._latest.values()
        if not every_ms or not any(each.status == "pending" and each.reason in _TRIGGERED for each in latest):
            return None
        return self.start_ms + ((self.stop_ms - self.start_ms) // every_ms + 1) * every_ms

    def _is_span_end(self, at_ms: int) -> bool:
        return at_ms > self.start_ms and at_ms % (self.span_minutes * MINUTE_MS) == 0

    def _minute(self, at_ms: int) -> int:
        return (at_ms - self.start_ms) // MINUTE_MS
