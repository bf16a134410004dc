"""The two policies that stand for a human's fixed choice: ``static`` and ``hold``. Neither looks at the load."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from contracts.messages import JobSettings
from contracts.windows import Window
from policies.policy import SPAN_MINUTES
from policies.proposal import Answer, RawAnswer, ratios_of


@dataclass(frozen=True, slots=True)
class Static:
    """Every task at one size for good: the vector ``sizes`` where it names the task, else what the job's author configured.

    A task without either stays as it is.
    """

    sizes: tuple[tuple[str, int], ...] = ()  # (task, parallelism)
    name: str = "static"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = False

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return the ratios that lead to the chosen parallelism."""
        chosen: Mapping[str, int] = dict(self.sizes)
        tasks = window.topology.tasks
        wanted = np.array(
            [chosen.get(spec.task) or spec.configured_parallelism or spec.parallelism for spec in tasks], dtype=np.int64
        )
        current = np.array([spec.parallelism for spec in tasks], dtype=np.int64)
        whose = "was chosen for it" if self.sizes else "the job's author configured"
        return RawAnswer(ratios=ratios_of(wanted, current), reason=f"Every task stays at what {whose}.")


@dataclass(frozen=True, slots=True)
class Hold:
    """Never changes anything."""

    name: str = "hold"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = False

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return a ratio of one for every task."""
        return RawAnswer(ratios=np.ones(len(window.topology.tasks)), reason="This policy never changes anything.")
