"""The rules ``ds2`` and ``ds2-gate`` (Kalavri et al., "Three steps is all you need", OSDI 2018).

o_i = records processed / busy time is a subtask's true rate, rates propagate along the graph by selectivity, and
p_i = ceil(lambda_i / o_i). The paper aims at 100 %; a target utilisation u leaves room for bursts:
p_i = ceil(lambda_i / (u x o_i)). ``ds2`` asks for that at every span.

``ds2-gate`` does if the change is worth a restart. A restart stops every task, so small changes are not made. The gate opens
when a task needs more than ``need`` above its present size, max over i of lambda_i d_i / (u p_i) - 1; when more than a share
``saving`` of all subtasks can go; or, in an emergency, when a task that wants more has ``backlog_minutes`` of backlog.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from surescale.policies.graph import Int64
from surescale.policies.rules.reading import Estimate, Reading, RuleWithoutModel, SizedFor, sized_for_each
from surescale.policies.sizing import Constants, Sizing


@dataclass(frozen=True, slots=True)
class DS2(RuleWithoutModel):
    """Sizes for the load at a target utilisation, at every span.

    p' = ceil(rate x d / u).
    """

    utilisation: float = 0.7
    estimate: Estimate = "mean-15"
    name: str = "ds2"

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]."""
        busy = reading.demand(reading.rate(self.estimate)) / reading.target(reading.aim(self.utilisation))
        return reading.whole(reading.measured.widened(busy))

    def sentence(self, reading: Reading) -> str:
        """Return the load that the sizes are for."""
        load = reading.rate_in_words(self.estimate)
        return f"Sized for {load} at {reading.aim(self.utilisation):.0%} busy."


NO_CATCH_UP = 1e9  # minutes: DS2 has no term for backlog


@dataclass(frozen=True, slots=True)
class GatedDS2(RuleWithoutModel):
    """Sizes all tasks as ds2 does, or none: when that is worth a restart."""

    utilisation: float = 0.75
    need: float = 0.25
    saving: float = 0.14
    backlog_minutes: float = 1.0
    estimate: Estimate = "quick-up"
    name: str = "ds2-gate"

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]; the present one while the gate is closed."""
        return self.sized(reading, reading.sized_for(self.estimate, self.span_minutes), self.constants(reading))

    def expected_by(self, rules: Sequence["GatedDS2"], reading: Reading) -> SizedFor:
        """Return the load [B] of several rules' rows (``SizingRule``)."""
        return sized_for_each([(rule.estimate, rule.span_minutes) for rule in rules], reading)

    def constants(self, reading: Reading) -> Sizing:
        """Return the rule's constants as those of a sizing."""
        return Sizing(
            utilisation=reading.aim(self.utilisation),
            catch_up_minutes=NO_CATCH_UP,
            need=self.need,
            saving=self.saving,
            backlog_minutes=self.backlog_minutes,
        )

    def sized(self, reading: Reading, expected: SizedFor, constants: Constants) -> Int64:
        """Return wanted parallelism [.., N] for a load [..]."""
        target = reading.target(constants.utilisation)
        exact = reading.measured.widened(reading.demand(expected.load) / target)
        steady = None if expected.steady is None else reading.measured.widened(reading.demand(expected.steady) / target)
        return reading.whole_if_worth_it(exact, constants, steady)

    def sentence(self, reading: Reading) -> str:
        """Return the load that the sizes are for."""
        load = reading.rate_in_words(self.estimate, self.span_minutes)
        return f"Sized for {load} at {reading.aim(self.utilisation):.0%} busy."
