"""Plays variants draw by draw until all draws are done or the time is up."""

import time
from collections.abc import Callable, Sequence

from contracts.errors import SurescaleError
from simulation.what_if.play import Played, play
from simulation.what_if.scenario import Scenario
from simulation.what_if.variant import Variant

DRAWS_LEAST = 2  # one says nothing about how far draws lie apart

OnProgress = Callable[[str, float], None]  # what is being done, share done


class TimeLimitReached(SurescaleError):
    """Too few draws were done in the time allowed."""


def play_all(
    scenario: Scenario,
    variants: Sequence[Variant],
    *,
    draws: int,
    seed: int,
    limit_s: float,
    told: OnProgress,
    now_s: Callable[[], float] = time.monotonic,
) -> list[tuple[Variant, list[Played]]]:
    """Return what happened under each variant, in the same draws; fewer than asked for if the time is up before.

    Raises:
        TimeLimitReached: not even ``DRAWS_LEAST`` draws were done.
    """
    began_s, runs = now_s(), draws * len(variants)
    found: list[tuple[Variant, list[Played]]] = [(variant, []) for variant in variants]
    for draw in range(draws):
        done: list[Played] = []
        for at, variant in enumerate(variants):
            before = draw * len(variants) + at

            def tell(share: float, before: int = before, stage: str = f"draw {draw + 1} of {draws}: {variant.label}") -> None:
                told(stage, (before + share) / runs)
                if now_s() - began_s > limit_s:
                    raise _Stop

            try:
                done.append(play(scenario, variant, draw=draw, seed=seed, told=tell))
            except _Stop:
                return _enough(found, (before + 0.5) / runs, limit_s)
        for (_, own), played in zip(found, done, strict=True):
            own.append(played)
    return found


class _Stop(Exception):
    """The time is up."""


def _enough(found: list[tuple[Variant, list[Played]]], share: float, limit_s: float) -> list[tuple[Variant, list[Played]]]:
    if len(found[0][1]) >= DRAWS_LEAST:
        return found
    needed = limit_s / max(share, 1e-3)
    raise TimeLimitReached(
        f"--time-limit: {limit_s:g} s are too few for {DRAWS_LEAST} draws; all draws need about {needed:.0f} s: allow more, "
        "try fewer things, or record a shorter stretch with --from and --until"
    )
