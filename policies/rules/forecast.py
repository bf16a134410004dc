"""The rule ``forecast``: DS2 behind a restart gate, on the expected load instead of the measured one. The hardest to beat.

The load of the next hour comes from a ridge regression on short trends, yesterday and the days before (``policies.forecast``).
Sizes and gate are those of ``target-utilisation`` (``policies.sizing``). All constants come from the model package.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from surescale.contracts.decisions import LoadOutlook
from surescale.contracts.plurals import records
from surescale.policies.answer import Answer, Float64, RawAnswer
from surescale.policies.forecast import LookedBack
from surescale.policies.graph import Int64
from surescale.policies.policy import WithoutModel
from surescale.policies.question import Question
from surescale.policies.rules.reading import Reading, SizedFor, answer_of, parts_of
from surescale.policies.sizing import Constants, Sizing, exact_subtasks
from surescale.policies.sure.base import Base


@dataclass(frozen=True, slots=True)
class ForecastRule(WithoutModel):
    """As target-utilisation, for the load expected over the next hour.

    p' = ceil((expected rate x d + backlog / catch-up) / u) behind the restart gate; all constants in ``base``.
    """

    base: Base
    name: str = "forecast"

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]; the present one while the gate is closed."""
        return self.sized(reading, SizedFor(self._expected(reading)), self.constants(reading))

    def expected_by(self, rules: Sequence["ForecastRule"], reading: Reading) -> SizedFor:
        """Return the load [B] of several rules' rows (``SizingRule``)."""
        seen, parts = _looked_back(reading), parts_of(reading, len(rules))
        return SizedFor(
            np.concatenate([rule.base.forecast.expected(seen.rows(own)) for rule, own in zip(rules, parts, strict=True)])
        )

    def constants(self, reading: Reading) -> Sizing:
        """Return the rule's constants, with what the job's owner wants of them."""
        return reading.sizing(self.base.sizing)

    def sized(self, reading: Reading, expected: SizedFor, constants: Constants) -> Int64:
        """Return wanted parallelism [.., N] for a load [..]; the present one while the gate is closed."""
        exact = exact_subtasks(reading.measured, expected.load, reading.graph, constants, reading.target(constants.utilisation))
        return reading.whole_if_worth_it(exact, constants)

    def _expected(self, reading: Reading) -> Float64:
        return self.base.forecast.expected(_looked_back(reading))

    def sentence(self, reading: Reading) -> str:
        """Return the load that the sizes are for."""
        return _Expecting(self, self._expected(reading)).sentence(reading)

    def answer(self, question: Question) -> Answer:
        """Return the sizes for the expected load, or the present ones if the change is not worth a restart."""
        expecting = _Expecting(self, self._expected(Reading.of(question)))
        found, expected = answer_of(expecting, question), float(expecting.load)
        if not isinstance(found, RawAnswer) or not np.isfinite(expected):
            return found
        outlook = LoadOutlook(stage_minutes=self.base.forecast.horizon_minutes, means=(float(f"{expected:.4g}"),))
        return replace(found, outlook=outlook)


@dataclass(frozen=True, slots=True)
class _Expecting:
    """The rule once it has its forecast: sizes and sentence share it."""

    rule: ForecastRule
    load: Float64

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]."""
        return self.rule.sized(reading, SizedFor(self.load), self.rule.constants(reading))

    def sentence(self, _reading: Reading) -> str:
        """Return the load that the sizes are for."""
        minutes = self.rule.base.forecast.horizon_minutes
        return f"Sized for {records(float(self.load))} a minute expected over the next {minutes} minutes."


def _looked_back(reading: Reading) -> LookedBack:
    return LookedBack.of(reading.measured.load, reading.hourly_load, reading.ends_ms)
