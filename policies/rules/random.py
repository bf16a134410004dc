"""The rule ``random``: a ratio drawn evenly from (0, 2] for every task at every span, the lower end of any comparison.

Draws are a function of seed, job, minute and task, so the same window gives the same answer, in whatever order its tasks stand.
"""

from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from contracts.messages import JobSettings
from contracts.windows import Window
from policies.policy import SPAN_MINUTES
from policies.proposal import RATIO_MAX, Answer, NotReady, RawAnswer
from policies.rules.reading import MINUTES_KNOWN_MIN


@dataclass(frozen=True, slots=True)
class Random:
    """ratio = 2 x U, U even in (0, 1]: SURE's random actions. Small sizes round down more often than up, so jobs shrink."""

    name: str = "random"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = True

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return drawn ratios."""
        if window.minutes_known < MINUTES_KNOWN_MIN:
            return NotReady(missing_minutes=MINUTES_KNOWN_MIN - window.minutes_known)
        place = f"{seed}/{window.job}/{window.window_end_ms}"
        drawn = [_even(f"{place}/{spec.task}") for spec in window.topology.tasks]
        return RawAnswer(ratios=RATIO_MAX * np.array(drawn), reason="Drawn by chance.")


def _even(key: str) -> float:
    """Return a number in (0, 1] that the key fixes."""
    return (1 + int.from_bytes(sha256(key.encode()).digest()[:6], "big")) / 2.0**48
