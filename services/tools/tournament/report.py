"""What a tournament found, for people, programs and the release that follows from it."""

import msgspec
from msgspec.structs import replace

from contracts.errors import SurescaleError
from contracts.ids import cluster_of
from contracts.messages import Tuning
from contracts.releases import ScopedRelease, TunedRelease, in_words
from contracts.tournaments import Expectation, TournamentResult
from simulation.tournament.score import TwinError
from simulation.tournament.verdict import Change, Place, Verdict


class NoTournament(SurescaleError):
    """None is held for a job; one line that says why."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """A policy with what a release sets in it."""

    policy: str
    sha256: str = ""
    tuned: Tuning = Tuning()

    @property
    def words(self) -> str:
        """Return it for people."""
        return self.policy if self.tuned == Tuning() else f"{self.policy} ({in_words(self.tuned)})"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate: means over the hours played; differences are to what serves now, null for that itself."""

    version: Version
    reward: float
    waiting: float
    utilisation: float
    rescales_per_day: float
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    twin_error: float | None
    has_won: bool


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a job's tournament; ``expected`` is set if a winner is to be released."""

    job: str
    from_ms: int
    until_ms: int
    known_minutes: int
    draws: int
    busy_error: float
    waiting_error: float
    change: Change
    why: str
    serving: Version
    winner: Version
    rows: tuple[Row, ...]
    expected: Expectation | None = None

    def result(self) -> TournamentResult:
        """Return what the release keeps of it."""
        won, now = (next(row for row in self.rows if row.version == each) for each in (self.winner, self.serving))
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


def version_of(place: Place) -> Version:
    """Return a candidate's policy."""
    return Version(policy=place.candidate.name, sha256=place.candidate.sha256, tuned=place.candidate.tuned)


def row_of(place: Place) -> Row:
    """Return a candidate's row."""
    ahead, scored = place.ahead, place.scored
    return Row(
        version=version_of(place),
        reward=_rounded(place.reward),
        waiting=_rounded(scored.mean(scored.waiting)),
        utilisation=_rounded(scored.mean(scored.working)),
        rescales_per_day=_rounded(scored.rescales),
        difference=None if ahead is None else _rounded(ahead.estimate.mean),
        difference_low=None if ahead is None else _rounded(ahead.estimate.low),
        difference_high=None if ahead is None else _rounded(ahead.estimate.high),
        twin_error=None if ahead is None else _rounded(ahead.twin_error),
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
) -> Report:
    """Return the report of a verdict."""
    return Report(
        job=job,
        from_ms=from_ms,
        until_ms=until_ms,
        known_minutes=known_minutes,
        draws=draws,
        busy_error=_rounded(error.working),
        waiting_error=_rounded(error.waiting),
        change=found.change,
        why=found.why,
        serving=version_of(found.serving),
        winner=version_of(found.winner),
        rows=tuple(map(row_of, found.places)),
        expected=expected,
    )


def release_of(report: Report, former: ScopedRelease | None, *, start_ms: int, by: str) -> ScopedRelease | None:
    """Return the record by which a tournament changes what serves a job; None: nothing changes.

    Args:
        report: the outcome.
        former: the release of an earlier winner, if one is in force.
        start_ms: from which event minute on.
        by: who has tournaments held.
    """
    author, result = f"tournament (set by {by})", report.result()
    if report.change == "wins":
        return TunedRelease(
            cluster=cluster_of(report.job),
            policy=report.winner.policy,
            sha256=report.winner.sha256,
            valid_from_ms=start_ms,
            job=report.job,
            set_by=author,
            note=result.why,
            tuned=report.winner.tuned,
            expected=report.expected or msgspec.UNSET,
            tournament=result,
        )
    if report.change == "ends" and former is not None:
        return replace(
            former,
            withdrawn=True,
            valid_from_ms=start_ms,
            set_by=author,
            set_at_ms=msgspec.UNSET,
            note=result.why,
            tournament=result,
        )
    return None


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
