"""The two policies that stand for a human's fixed choice: ``static`` and ``hold``. Neither looks at the load."""

from dataclasses import dataclass

import numpy as np

from contracts.messages import JobSettings
from contracts.windows import Window
from policies.policy import SPAN_MINUTES
from policies.proposal import Answer, RawAnswer, ratios_of


@dataclass(frozen=True, slots=True)
class Static:
    """Every task at the parallelism that the job's author configured; a task without one stays as it is."""

    name: str = "static"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = False

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return the ratios that lead to the configured parallelism."""
        tasks = window.topology.tasks
        wanted = np.array([spec.configured_parallelism or spec.parallelism for spec in tasks], dtype=np.int64)
        current = np.array([spec.parallelism for spec in tasks], dtype=np.int64)
        return RawAnswer(ratios=ratios_of(wanted, current), reason="Every task stays at what the job's author configured.")


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
