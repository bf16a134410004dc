"""The rule ``target-utilisation``: DS2's demand (Kalavri et al., OSDI 2018) over a target utilisation, behind a restart gate.

It takes over when a learned policy cannot answer. That includes figures that stopped coming; then the guardrails
let it remove no subtask.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from surescale.policies.graph import Int64
from surescale.policies.rules.reading import Estimate, Reading, RuleWithoutModel, SizedFor, sized_for_each
from surescale.policies.sizing import CALIBRATED, Constants, Sizing, exact_subtasks


@dataclass(frozen=True, slots=True)
class TargetUtilisation(RuleWithoutModel):
    """Sizes for load and backlog at a target utilisation, if worth a restart.

    p' = ceil((rate x d + backlog / catch-up) / u): d the true service time, u the target.
    """

    sizing: Sizing = CALIBRATED
    estimate: Estimate = "quick-up"
    name: str = "target-utilisation"

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]; the present one while the gate is closed."""
        return self.sized(reading, reading.sized_for(self.estimate, self.span_minutes), self.constants(reading))

    def expected_by(self, rules: Sequence["TargetUtilisation"], reading: Reading) -> SizedFor:
        """Return the load [B] of several rules' rows (``SizingRule``)."""
        return sized_for_each([(rule.estimate, rule.span_minutes) for rule in rules], reading)

    def constants(self, reading: Reading) -> Sizing:
        """Return the rule's constants, with what the job's owner wants of them."""
        return reading.sizing(self.sizing)

    def sized(self, reading: Reading, expected: SizedFor, constants: Constants) -> Int64:
        """Return wanted parallelism [.., N] for a load [..]."""
        target = reading.target(constants.utilisation)
        exact = exact_subtasks(reading.measured, expected.load, reading.graph, constants, target)
        steady = (
            None
            if expected.steady is None
            else exact_subtasks(reading.measured, expected.steady, reading.graph, constants, target)
        )
        return reading.whole_if_worth_it(exact, constants, steady)

    def sentence(self, reading: Reading) -> str:
        """Return the load that the sizes are for."""
        load = reading.rate_in_words(self.estimate, self.span_minutes)
        return f"Sized to keep tasks {reading.aim(self.sizing.utilisation):.0%} busy at {load}."
