"""The policies ``static`` and ``hold``: a person's fixed choice. Neither looks at the load."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from surescale.policies.answer import Answer, RawAnswer
from surescale.policies.policy import WithoutModel
from surescale.policies.question import Question


@dataclass(frozen=True, slots=True)
class Static(WithoutModel):
    """Keeps every task at the size that the job's author configured.

    A size in ``sizes`` comes before it; a task with neither keeps its present one.
    """

    sizes: tuple[tuple[str, int], ...] = ()  # (task, parallelism)
    name: str = "static"
    floor_applies: bool = field(default=False, kw_only=True)

    def answer(self, question: Question) -> Answer:
        """Return the chosen parallelism."""
        chosen: Mapping[str, int] = dict(self.sizes)
        tasks = question.window.topology.tasks
        wanted = np.array(
            [chosen.get(spec.task) or spec.configured_parallelism or spec.parallelism for spec in tasks], dtype=np.int64
        )
        whose = "chosen for it" if self.sizes else "configured by the job's author"
        return RawAnswer(wanted, f"Every task stays at the size {whose}.")


@dataclass(frozen=True, slots=True)
class Hold(WithoutModel):
    """Never changes anything."""

    name: str = "hold"
    floor_applies: bool = field(default=False, kw_only=True)

    def answer(self, question: Question) -> Answer:
        """Return the present parallelism."""
        return RawAnswer(question.current, "This policy never changes anything.")
