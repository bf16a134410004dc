"""What a tournament found, for people (a table, readable at 80 columns), programs and the release that follows from it."""

import math

import msgspec
from msgspec.structs import replace
from rich.console import Console

from surescale.contracts.errors import SurescaleError
from surescale.contracts.ids import cluster_of
from surescale.contracts.messages import Tuning
from surescale.contracts.releases import Expectation, Release, TournamentResult, in_words
from surescale.runtime.instants import to_the_minute
from surescale.runtime.printable import printable
from surescale.runtime.terminal import Column, fitting
from surescale.simulation.tournament.score import TwinError
from surescale.simulation.tournament.verdict import Change, Place, Verdict


class NoTournament(SurescaleError):
    """None is held for a job; one line that says why."""


class PolicyVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A policy with what a release sets in it."""

    policy: str
    sha256: str = ""
    tuned: Tuning = Tuning()

    @property
    def words(self) -> str:
        """Return it for people."""
        return self.policy if self.tuned == Tuning() else f"{self.policy} ({in_words(self.tuned)})"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate: means over the hours played; differences are to what serves now, null for that itself.

    What is unknown is null too.
    """

    version: PolicyVersion
    reward: float | None
    waiting: float | None
    utilisation: float | None
    rescales_per_day: float
    subtask_hours_per_day: float
    late_minutes_per_day: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    twin_error: float | None
    has_won: bool


class TournamentReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a job's tournament; ``expected`` is set if a winner is to be released."""

    job: str
    from_ms: int
    until_ms: int
    known_minutes: int
    draws: int
    late_seconds: float
    busy_error: float
    waiting_error: float
    change: Change
    why: str
    serving: PolicyVersion
    winner: PolicyVersion
    rows: tuple[Row, ...]
    expected: Expectation | None = None

    def result(self) -> TournamentResult:
        """Return what the release keeps of it."""
        won, now = (next(row for row in self.rows if row.version == each) for each in (self.winner, self.serving))
        assert won.reward is not None, "a verdict that changes something is made of known rewards"
        assert now.reward is not None, "and so is what it was compared with"
        return TournamentResult(
            from_ms=self.from_ms,
            until_ms=self.until_ms,
            policies=len(self.rows),
            draws=self.draws,
            reward=won.reward,
            against=self.serving.words[:256],
            against_reward=now.reward,
            difference=won.difference or 0.0,
            difference_low=won.difference_low or 0.0,
            twin_error=won.twin_error or 0.0,
            why=self.why[:1024],
        )


def version_of(place: Place) -> PolicyVersion:
    """Return a candidate's policy."""
    return PolicyVersion(policy=place.candidate.name, sha256=place.candidate.sha256, tuned=place.candidate.tuned)


def row_of(place: Place) -> Row:
    """Return a candidate's row."""
    ahead, scored = place.ahead, place.scored
    return Row(
        version=version_of(place),
        reward=_known(place.reward),
        waiting=_known(scored.mean(scored.waiting)),
        utilisation=_known(scored.mean(scored.working)),
        rescales_per_day=_rounded(scored.rescales),
        subtask_hours_per_day=_rounded(scored.rent),
        late_minutes_per_day=_known(scored.late),
        difference=None if ahead is None else _known(ahead.estimate.mean),
        difference_low=None if ahead is None else _known(ahead.estimate.low),
        difference_high=None if ahead is None else _known(ahead.estimate.high),
        twin_error=None if ahead is None else _known(ahead.twin_error),
        has_won=place.has_won,
    )


def report_of(
    found: Verdict,
    expected: Expectation | None,
    error: TwinError,
    *,
    job: str,
    from_ms: int,
    until_ms: int,
    known_minutes: int,
    draws: int,
    late_seconds: float,
) -> TournamentReport:
    """Return the report of a verdict."""
    return TournamentReport(
        job=job,
        from_ms=from_ms,
        until_ms=until_ms,
        known_minutes=known_minutes,
        draws=draws,
        late_seconds=late_seconds,
        busy_error=_rounded(error.working),
        waiting_error=_rounded(error.waiting),
        change=found.change,
        why=found.why,
        serving=version_of(found.serving),
        winner=version_of(found.winner),
        rows=tuple(map(row_of, found.places)),
        expected=expected,
    )


def release_of(report: TournamentReport, former: Release | None, *, start_ms: int, by: str) -> Release | None:
    """Return the record by which a tournament changes what serves a job; None: nothing changes.

    Args:
        report: the outcome.
        former: the release of an earlier winner, if one is in force.
        start_ms: from which event minute on.
        by: who has tournaments held.
    """
    if report.change == "stays":
        return None
    author, result = f"tournament (set by {by})", report.result()
    if report.change == "wins":
        return Release(
            cluster=cluster_of(report.job),
            policy=report.winner.policy,
            sha256=report.winner.sha256,
            valid_from_ms=start_ms,
            job=report.job,
            set_by=author,
            note=result.why,
            tuned=report.winner.tuned,
            expected=report.expected,
            tournament=result,
        )
    if former is not None:
        return replace(
            former,
            withdrawn=True,
            valid_from_ms=start_ms,
            set_by=author,
            set_at_ms=None,
            note=result.why,
            tournament=result,
        )
    return None


def _known(value: float) -> float | None:
    return _rounded(value) if math.isfinite(value) else None


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


_HEADS = {"wins": "wins", "ends": "serves again", "stays": "stays"}


def show(report: TournamentReport, console: Console) -> None:
    """Print who took part, by reward, and what follows."""
    when = f"{to_the_minute(report.from_ms)} to {to_the_minute(report.until_ms)}"
    console.print(
        printable(
            f"{report.job}: {when} UTC, {report.draws} draws; the twin is off by {report.busy_error:.1%} of the work "
            f"and {report.waiting_error:.0%} of the waiting; late: latency above {report.late_seconds:g} s"
        ),
        markup=False,
    )
    rows = report.rows
    console.print(
        fitting(
            [
                Column("", [_name(row, report) for row in rows]),
                Column("subtask-h/day", [f"{row.subtask_hours_per_day:,.1f}" for row in rows], rank=1, right=True),
                Column("late min/day", [_figure(row.late_minutes_per_day, 1) for row in rows], rank=1, right=True),
                Column("rescales/day", [f"{row.rescales_per_day:.1f}" for row in rows], rank=1, right=True),
                Column("reward", [_figure(row.reward, 4) for row in rows], rank=2, right=True),
                Column("ahead", [_signed(row.difference) for row in rows], rank=3, right=True),
                Column("95 %", [_interval(row) for row in rows], rank=4, right=True),
                Column("twin's error", ["" if row.twin_error is None else f"{row.twin_error:.4f}" for row in rows], 5, True),
                Column("busy", [_figure(row.utilisation, 3) for row in rows], rank=6, right=True),
            ],
            console.width,
        )
    )
    console.print(printable(f"{report.winner.words} {_HEADS[report.change]}: {report.why}"), markup=False)


def _name(row: Row, report: TournamentReport) -> str:
    serves = " *" if row.version == report.serving else ""
    return f"{row.version.words}{serves}"


def _figure(value: float | None, digits: int) -> str:
    return "unknown" if value is None else f"{value:.{digits}f}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.4f}"


def _interval(row: Row) -> str:
    low, high = row.difference_low, row.difference_high
    return "" if low is None or high is None else f"{low:+.4f} to {high:+.4f}"
