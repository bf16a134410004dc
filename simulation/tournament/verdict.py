"""Who serves a job after a tournament. Pure.

What serves now stays unless another is ahead of it by a margin: the interval of the lead excludes zero, it is ahead in each
half of the days, and the lead less the twin's error is still worth a change. A former winner also has to be ahead of what would
serve without any tournament, or it goes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from simulation.tournament.candidates import Candidate
from simulation.tournament.score import Aim, Lead, Scored, TwinError, lead

MARGIN = 0.005
"""Reward by which a winner must be ahead beyond the twin's error: a change of policy also changes sizes, for a restart."""

Change = Literal["stays", "wins", "ends"]


@dataclass(frozen=True, slots=True)
class Place:
    """One candidate and how far it is ahead of what serves now; None: it does serve now."""

    candidate: Candidate
    scored: Scored
    reward: float
    ahead: Lead | None

    @property
    def has_won(self) -> bool:
        """Return whether it is ahead by the margin, and in each half of the days."""
        if self.ahead is None or self.ahead.estimate.low <= 0.0 or self.ahead.margin < MARGIN:
            return False
        return min(self.ahead.in_halves) > 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a tournament.

    Attributes:
        change: ``stays``: what serves now serves on. ``wins``: a winner is released. ``ends``: the former winner's release ends,
            and what would serve without a tournament serves.
        places: all candidates, by reward.
        serving: what serves now.
        own: what would serve without a tournament.
        winner: what serves from now on.
        lead: of the winner over what served; None if that stays.
        why: one sentence.
    """

    change: Change
    places: tuple[Place, ...]
    serving: Place
    own: Place
    winner: Place
    lead: Lead | None
    why: str


def verdict(
    played: Sequence[tuple[Candidate, Scored]],
    aim: Aim,
    error: TwinError,
    *,
    serving: int,
    own: int,
    seed: int,
    has_left: str = "",
) -> Verdict:
    """Return who serves from now on.

    Args:
        played: all candidates with their hours, in the same draws.
        aim: what the job's owner wants.
        error: of the twin.
        serving: index of what serves now.
        own: index of what would serve without a tournament; the same, unless a former winner serves.
        seed: of the resamples.
        has_left: why the former winner was left out lately; empty: it was not.
    """
    places = [
        Place(
            candidate,
            scored,
            scored.mean(scored.rewards(aim)),
            None if at == serving else lead(scored, played[serving][1], aim, error, seed=seed),
        )
        for at, (candidate, scored) in enumerate(played)
    ]
    now, without = places[serving], places[own]
    ranked = tuple(sorted(places, key=lambda place: -place.reward))

    def found(change: Change, winner: Place, why: str) -> Verdict:
        return Verdict(change, ranked, now, without, winner, winner.ahead, why)

    if now is not without and has_left:
        return found("ends", without, f"The job left what the twin had predicted of {now.candidate.words}: {has_left}")
    won = [place for place in places if place.has_won]
    if won:
        best = max(won, key=_margin)
        if best is without:
            return found("ends", without, f"{without.candidate.words} is ahead of the former winner {_by(best)}.")
        return found("wins", best, f"{best.candidate.words} is ahead of {now.candidate.words} {_by(best)}.")
    if now is not without and now.reward <= without.reward:
        return found(
            "ends", without, f"{now.candidate.words} is no longer ahead of {without.candidate.words}, which it replaced."
        )
    return found("stays", now, _why_it_stays(places, now))


def _why_it_stays(places: Sequence[Place], now: Place) -> str:
    rivals = [place for place in places if place.ahead is not None]
    best = max(rivals, key=lambda place: place.reward, default=None)
    name = now.candidate.words
    if best is None or best.ahead is None or best.ahead.estimate.mean <= 0.0:
        return f"No candidate is ahead of {name}."
    return f"{best.candidate.words} is ahead of {name} {_by(best)}, which is too little to tell or to pay."


def _margin(place: Place) -> float:
    assert place.ahead is not None
    return place.ahead.margin


def _by(place: Place) -> str:
    assert place.ahead is not None
    found = place.ahead.estimate
    return f"by {found.mean:.4f} ({found.low:+.4f} to {found.high:+.4f}, twin's error {place.ahead.twin_error:.4f})"
