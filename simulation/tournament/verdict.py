"""Who serves a job after a tournament, and what the job must keep to for that. Pure.

What serves now stays unless another is ahead of it by a margin: the interval of the lead excludes zero, it is ahead in each
half of the days, and the lead less the twin's error is still worth a change. A former winner also has to be ahead of what would
serve without any tournament, or it goes. Hours of which nothing is known do not count, and an unknown figure wins nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.releases import Expectation
from surescale.policies.answer import Float64
from surescale.policies.departure import STRETCHES, busy_ms, per_record
from surescale.simulation.calibration.recorded import recorded_load
from surescale.simulation.tournament.candidates import Candidate
from surescale.simulation.tournament.score import Aim, Lead, Scored, TwinError, lead
from surescale.simulation.what_if.play import Played
from surescale.simulation.what_if.scenario import Scenario

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
        """Return whether it is ahead by the margin, and in each half of the days. What is unknown is ahead of nothing."""
        if self.ahead is None or not math.isfinite(self.reward):
            return False
        is_beyond_chance = self.ahead.estimate.low > 0.0
        return is_beyond_chance and self.ahead.margin >= MARGIN and all(half > 0.0 for half in self.ahead.in_halves)


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
    ranked = tuple(sorted(places, key=lambda place: -place.reward if math.isfinite(place.reward) else math.inf))

    def found(change: Change, winner: Place, why: str) -> Verdict:
        return Verdict(change, ranked, now, without, winner, winner.ahead, why)

    unknown = next((place for place in (now, without) if not math.isfinite(place.reward)), None)
    if unknown is not None:
        why = f"Too little is known of the hours played to say what {unknown.candidate.words} is worth; record more of them."
        return found("stays", now, why)
    if now is not without and has_left:
        return found("ends", without, f"The job left what the twin had predicted of {now.candidate.words}: {has_left}")
    won = [place for place in places if place.has_won]
    if won:
        best = max(won, key=_margin)
        if best is without:
            return found("ends", without, f"{without.candidate.words} is ahead of the former winner {_by(best, now)}.")
        return found("wins", best, f"{best.candidate.words} is ahead of {now.candidate.words} {_by(best, now)}.")
    if now is not without and without.reward >= now.reward:
        return found(
            "ends", without, f"{now.candidate.words} is no longer ahead of {without.candidate.words}, which it replaced."
        )
    return found("stays", now, _why_it_stays(places, now))


def _why_it_stays(places: Sequence[Place], now: Place) -> str:
    rivals = [place for place in places if place.ahead is not None and math.isfinite(place.reward)]
    best = max(rivals, key=lambda place: place.reward, default=None)
    name = now.candidate.words
    if best is None or best.ahead is None or not best.ahead.estimate.mean > 0.0:
        return f"No candidate is ahead of {name}."
    return f"{best.candidate.words} is ahead of {name} {_by(best, now)}, which is too little to tell or to pay."


def _margin(place: Place) -> float:
    assert place.ahead is not None
    return place.ahead.margin


def _by(place: Place, now: Place) -> str:
    """Return what it would come to in what an operator pays and bears, and then in reward, which decides."""
    assert place.ahead is not None
    found, own, other = place.ahead.estimate, place.scored, now.scored
    late = f"{own.late:.1f} late minutes instead of {other.late:.1f}"
    if not math.isfinite(own.late + other.late):
        late = "late minutes that are unknown"
    return (
        f"with {own.rent:,.0f} subtask-hours a day instead of {other.rent:,.0f}, {late} and {own.rescales:.1f} rescales "
        f"instead of {other.rescales:.1f}: "
        f"by {found.mean:.4f} of reward ({found.low:+.4f} to {found.high:+.4f}, twin's error {place.ahead.twin_error:.4f})"
    )


WORK_ERROR_LEAST = 0.15
"""A few days have not seen the cheapest and the dearest hour that the job will have."""
WAITING_ERROR_LEAST = 0.5
WAITING_LEAST = 0.25
"""Minutes of waiting that never count as a departure."""


def expectation(winner: Sequence[Played], ground: Scenario, error: TwinError) -> Expectation:
    """Return what the twin predicted of a job under the winner, over all draws, hours and stretches of ``policies.departure``.

    The work on a record does not depend on who sizes the job, so what was recorded counts as well.
    """
    load = ground.load.astype(np.float64)
    work, waiting = [_of(busy_ms(ground.recorded.figures), recorded_load(ground.recorded))], [np.array([np.nan])]
    for played in winner:
        work.append(_of(played.busy * MINUTE_MS, load))
        waiting.append(_of(played.waiting, load))
    least, most = _range(work)
    _, longest = _range(waiting)
    off = 1.0 + max(error.working, WORK_ERROR_LEAST)
    later = 1.0 + max(min(error.waiting, 1.0), WAITING_ERROR_LEAST)
    return Expectation(
        work_least=_rounded(least / off) if math.isfinite(least) else 0.0,
        work_most=_rounded(most * off) if math.isfinite(most) else 1e9,
        waiting_most=_rounded(max(WAITING_LEAST, longest * later)) if math.isfinite(longest) else WAITING_LEAST,
    )


def _of(values: Float64, load: Float64) -> Float64:
    """Return values per record over every stretch, of all lengths."""
    lengths = [minutes for minutes in STRETCHES if minutes <= len(load)]
    found: Float64 = np.concatenate([np.full(1, np.nan), *(per_record(values, load, minutes) for minutes in lengths)])
    return found


def _range(parts: Sequence[Float64]) -> tuple[float, float]:
    """Return the least and the largest known value; NaN twice if none is known."""
    values = np.concatenate(parts)
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else (math.nan, math.nan)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
