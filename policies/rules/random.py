"""The rule ``random``: a ratio drawn evenly from (0, 2] for every task at every span, as the lower end of a comparison.

Draws are a function of seed, job, minute and task, so the same window gives the same answer, whatever the order of its tasks.
"""

from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from surescale.policies.answer import RATIO_MAX, Answer, answer_in_ratios
from surescale.policies.policy import WithoutModel
from surescale.policies.question import Question


@dataclass(frozen=True, slots=True)
class Random(WithoutModel):
    """Draws sizes at random: the lower end of a comparison.

    ratio = 2 x U, U uniform in (0, 1]: SURE's random actions. Small sizes round down more often than up, so jobs shrink.
    """

    name: str = "random"

    def answer(self, question: Question) -> Answer:
        """Return drawn ratios."""
        place = f"{question.seed}/{question.window.job}/{question.window.window_end_ms}"
        drawn = [_even(f"{place}/{task}") for task in question.graph.tasks]
        return answer_in_ratios(RATIO_MAX * np.array(drawn), question.current, "Drawn at random.")


def _even(key: str) -> float:
    """Return a number in (0, 1] that depends on the key alone."""
    return (1 + int.from_bytes(sha256(key.encode()).digest()[:6], "big")) / 2.0**48
