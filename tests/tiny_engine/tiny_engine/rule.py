"""A rule, as an example of how to bring one."""

from dataclasses import dataclass

import numpy as np

from surescale.policies.answer import Answer, RawAnswer
from surescale.policies.policy import SPAN_MINUTES
from surescale.policies.question import Question


@dataclass(frozen=True, slots=True)
class OneEach:
    """Wants one subtask of every task."""

    name: str = "one-each"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = True

    def answer(self, question: Question) -> Answer:
        """Return ones. The floor, limits and guardrails apply to them as to every answer."""
        return RawAnswer(np.ones_like(question.current), "One subtask does.")
