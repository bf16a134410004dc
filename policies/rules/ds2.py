"""The rule ``ds2``: the subtasks that the rate needs at their true speed, at every span.

Kalavri et al., "Three steps is all you need", OSDI 2018: o_i = records processed / busy time is a subtask's true rate, rates
propagate along the graph by selectivity, and p_i = ceil(lambda_i / o_i). The paper aims at 100 %; a target utilisation u leaves
room for bursts: p_i = ceil(lambda_i / (u x o_i)).
"""

from dataclasses import dataclass

from policies.answer import Answer
from policies.graph import Int64
from policies.policy import SPAN_MINUTES
from policies.question import Question
from policies.rules.reading import Estimate, Reading, answer_of


@dataclass(frozen=True, slots=True)
class DS2:
    """p' = ceil(rate x d / u), at every span."""

    utilisation: float = 0.7
    estimate: Estimate = "mean-15"
    name: str = "ds2"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = True

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]."""
        busy = reading.demand(reading.rate(self.estimate)) / reading.target(reading.aim(self.utilisation))
        return reading.whole(reading.measured.widened(busy))

    def sentence(self, reading: Reading) -> str:
        """Return the load that the sizes are for."""
        return f"Sized for {float(reading.rate(self.estimate)):.0f} records a minute at {reading.aim(self.utilisation):.0%} busy."

    def answer(self, question: Question) -> Answer:
        """Return the sizes that bring every task to the target."""
        return answer_of(self, question)
