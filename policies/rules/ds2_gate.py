"""The rule ``ds2-gate``: DS2's sizes (``policies.rules.ds2``; Kalavri et al., OSDI 2018) where the change is worth a restart.

One restart stops every task, so small changes are left undone. The gate opens when some task needs more than ``need`` above what
it has, max over i of lambda_i d_i / (u p_i) - 1; when more than a share ``saving`` of all subtasks can go; or, in an emergency,
when a task that wants more has ``backlog_minutes`` of work waiting.
"""

from dataclasses import dataclass

from contracts.messages import JobSettings
from contracts.windows import Window
from policies.graph import Int64
from policies.policy import SPAN_MINUTES
from policies.proposal import Answer
from policies.rules.reading import Estimate, Reading, answer_of, changed_where
from policies.sizing import Sizing, wish, worth_a_restart

NO_CATCH_UP = 1e9  # minutes: DS2 has no term for waiting work


@dataclass(frozen=True, slots=True)
class GatedDS2:
    """p' = ceil(rate x d / u) for all tasks at once, or no change."""

    utilisation: float = 0.75
    need: float = 0.25
    saving: float = 0.14
    backlog_minutes: float = 1.0
    estimate: Estimate = "quick-up"
    name: str = "ds2-gate"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = True

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]; the present one while the gate is shut."""
        sizing = Sizing(
            utilisation=self.utilisation,
            catch_up_minutes=NO_CATCH_UP,
            need=self.need,
            saving=self.saving,
            backlog_minutes=self.backlog_minutes,
        )
        asked = wish(reading.demand(reading.rate(self.estimate)) / self.utilisation, reading.current)
        opened = worth_a_restart(asked, reading.measured, reading.current, reading.graph, sizing)
        return changed_where(opened, asked.wanted, reading.current)

    def sentence(self, reading: Reading) -> str:
        """Say for which load."""
        return f"Sized for {float(reading.rate(self.estimate)):.0f} records a minute at {self.utilisation:.0%} busy."

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return ratios that bring every task to the target, or ones where that is not worth a restart."""
        return answer_of(self, window)
