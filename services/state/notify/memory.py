"""What the notifier remembers of each job, so that it tells changes and not states. Pure."""

from dataclasses import dataclass, field

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology
from surescale.contracts.rescaler_state import JobSummary
from surescale.contracts.summaries import WindowSummary
from surescale.services.state.read.status import RAN_LEAST, is_down, is_measured, standing

MINUTES_IN_A_ROW = 3
"""A job counts as overloaded, or as fine again, after so many minutes: one minute says little."""
REFUSALS_EVERY_MS = 10 * MINUTE_MS
REFUSALS_KEPT = 1_000
"""Kinds of refused records. Who writes dead letters chooses the words, so there may be any number; the oldest is forgotten."""


@dataclass(slots=True)
class JobMemory:
    """One job, as its records told so far; ``told`` is what receivers last heard of it."""

    topology: JobTopology | None = None
    settings: JobSettings | None = None
    told: str = "fine"
    is_available: bool = True
    is_changing: bool = False
    changed_ms: int = -1
    """When the last command that may stop the job ended, by the pipeline's clock."""
    window_ms: int = -1
    ran: float | None = None
    has_run: bool = False
    """Whether it ever ran for most of a minute: the minute in which a job starts says nothing."""
    overloaded: int = 0
    """Minutes in a row, up to the newest; below 0: minutes in a row without."""
    fallback: str | None = None
    at_limit: bool = False
    decided_ms: int = -1
    held: str = ""
    """The decision that was last told to be waiting."""

    def take_control(self, at_ms: int, summary: JobSummary) -> None:
        """Take note of how the rescaler's control of it stands."""
        was_changing = self.is_changing
        underway = summary.underway
        self.is_available, self.is_changing = standing(
            underway is not None, underway.step if underway else None, summary.conditions
        )
        if was_changing and not self.is_changing:
            self.changed_ms, self.ran = at_ms, None

    def take_window(self, window: WindowSummary) -> bool:
        """Take note of a window; False for one that is not newer."""
        if window.window_end_ms <= self.window_ms:
            return False
        self.window_ms = window.window_end_ms
        minute = window.minute
        # A minute in which a rescale ended was cut short by it.
        is_whole = window.window_end_ms - MINUTE_MS >= self.changed_ms
        if minute.ran is not None and is_whole:
            self.ran = minute.ran
        self.has_run = self.has_run or (self.ran is not None and self.ran >= RAN_LEAST)
        if minute.overloaded > 0:
            self.overloaded = max(self.overloaded, 0) + 1
        elif is_measured(window):  # a minute of which nothing is known does not say that the job keeps up
            self.overloaded = min(self.overloaded, 0) - 1
        return True

    def health(self) -> str:
        """Return how the job is now: fine, overloaded or down; as it was told before, while that is unsettled."""
        if self.topology is None or self.topology.state in ("created", "finished"):
            return self.told
        ran = self.ran if self.has_run else None
        down = is_down(state=self.topology.state, is_available=self.is_available, ran=ran, is_changing=self.is_changing)
        is_unknown = self.has_run and self.ran is None
        if down or (self.told == "down" and is_unknown):
            return "down"
        if self.overloaded >= MINUTES_IN_A_ROW:
            return "overloaded"
        if self.told == "overloaded" and self.overloaded > -MINUTES_IN_A_ROW:
            return "overloaded"
        return "fine"


@dataclass(slots=True)
class RefusalMemory:
    """Refused records of one kind: when one was last told, and how many came since then."""

    told_ms: int
    untold: int = 0


@dataclass(slots=True)
class Memory:
    """Everything that the notifier remembers."""

    jobs: dict[str, JobMemory] = field(default_factory=dict)
    refusals: dict[tuple[str, str, str], RefusalMemory] = field(default_factory=dict)
    """By topic, reason and who refused; the kind that was told last stands last."""

    def take_refusal(self, of: tuple[str, str, str], at_ms: int) -> int | None:
        """Return how many refusals of a kind were not told since the last one that was; None: this one is not told either."""
        known = self.refusals.get(of)
        if known is not None and at_ms < known.told_ms + REFUSALS_EVERY_MS:
            known.untold += 1
            return None
        self.refusals.pop(of, None)
        self.refusals[of] = RefusalMemory(at_ms)
        if len(self.refusals) > REFUSALS_KEPT:
            del self.refusals[next(iter(self.refusals))]
        return known.untold if known is not None else 0

    def job(self, job: str) -> JobMemory:
        """Return what is remembered of a job."""
        return self.jobs.setdefault(job, JobMemory())


def sizes(topology: JobTopology) -> dict[str, int]:
    """Return the parallelism of each task that may change."""
    return {spec.task: spec.parallelism for spec in topology.tasks if spec.scalable}


def changes_of(command: RescheduleCommand) -> dict[str, tuple[int, int]]:
    """Return the sizes before and after, by task that a command changes."""
    return {change.task: (change.before, change.after) for change in command.changes if change.before != change.after}
