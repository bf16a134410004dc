"""A policy with constants of its own for one job, as a release may set them: those that calibration found, or sizes.

Of a rule these are what ``simulation.evaluation.spaces`` calibrates. Of ``sure`` they are factors of its plan: ``margin`` widens
the scenarios of the load, and ``hurdle`` raises what a change must gain.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

import msgspec

from surescale.contracts.messages import Tuning
from surescale.policies.policy import Policy
from surescale.policies.registry import Unavailable
from surescale.policies.rules.ds2 import GatedDS2
from surescale.policies.rules.fixed import Static
from surescale.policies.rules.forecast import ForecastRule
from surescale.policies.rules.reading import Estimate
from surescale.policies.rules.target_utilisation import TargetUtilisation
from surescale.policies.sizing import Sizing
from surescale.policies.sure.policy import SurePolicy

Range = tuple[float, float]
SIZING: Mapping[str, Range] = {"utilisation": (0.05, 1.0), "need": (0.0, 10.0), "saving": (0.0, 1.0)}
"""Constants of rules that aim at a utilisation behind a gate, with the least and the most that they may be."""
PLAN: Mapping[str, Range] = {"margin": (0.1, 10.0), "hurdle": (0.1, 100.0)}
_ESTIMATE = "estimate"


class _Wrong(Exception):
    """Why these constants are none that the policy can have."""


def tuned_policy(policy: Policy, tuned: Tuning) -> Policy:
    """Return a policy with the constants and sizes of a release.

    Never raises: a policy that cannot have them answers every window with the reason, and the rule takes over.
    """
    if isinstance(policy, Unavailable) or tuned == Tuning():
        return policy
    try:
        return _tuned(policy, tuned)
    except _Wrong as wrong:
        return Unavailable(policy.name, f"{policy.name}: {wrong}", policy.sha256, policy.span_minutes)


def _tuned(policy: Policy, tuned: Tuning) -> Policy:
    if isinstance(policy, Static):
        if tuned.constants or not tuned.sizes:
            raise _Wrong("it takes sizes and no constants")
        return replace(policy, sizes=tuple(sorted(tuned.sizes.items())))
    if tuned.sizes:
        raise _Wrong("it takes constants and no sizes")
    if isinstance(policy, SurePolicy):
        return _sure(policy, _numbers(tuned.constants, PLAN))
    if not isinstance(policy, ForecastRule | TargetUtilisation | GatedDS2):
        raise _Wrong("it has no constants that a release can set")
    named = dict(tuned.constants)
    estimate = None if isinstance(policy, ForecastRule) else _estimate(named.pop(_ESTIMATE, policy.estimate))
    numbers = _numbers(named, SIZING)
    if isinstance(policy, ForecastRule):
        return replace(policy, base=msgspec.structs.replace(policy.base, sizing=_sizing(policy.base.sizing, numbers)))
    assert estimate is not None
    if isinstance(policy, TargetUtilisation):
        return replace(policy, sizing=_sizing(policy.sizing, numbers), estimate=estimate)
    return replace(policy, **numbers, estimate=estimate)  # type: ignore[arg-type]


def _sure(policy: SurePolicy, numbers: dict[str, float]) -> SurePolicy:
    base = policy.card.base
    margin, hurdle = numbers.get("margin", 1.0), numbers.get("hurdle", 1.0)
    planning = msgspec.structs.replace(
        base.planning,
        scenarios=tuple(each * margin for each in base.planning.scenarios),
        gain_min=base.planning.gain_min * hurdle,
        later_restart=base.planning.later_restart * hurdle,
    )
    card = msgspec.structs.replace(policy.card, base=msgspec.structs.replace(base, planning=planning))
    return replace(policy, package=replace(policy.package, card=card))


def _sizing(shipped: Sizing, numbers: dict[str, float]) -> Sizing:
    return msgspec.structs.replace(shipped, **numbers)


def _numbers(constants: Mapping[str, float | str], known: Mapping[str, Range]) -> dict[str, float]:
    found = {}
    for name, value in constants.items():
        if name not in known:
            raise _Wrong(f"it has no constant {name[:40]!r}; it has {', '.join(known)}")
        least, most = known[name]
        if isinstance(value, str) or not least <= value <= most:
            raise _Wrong(f"{name} is {value!r}, not a number between {least:g} and {most:g}")
        found[name] = float(value)
    return found


def _estimate(value: object) -> Estimate:
    for known in get_args(Estimate):
        if value == known:
            found: Estimate = known
            return found
    raise _Wrong(f"{_ESTIMATE} is {value!r}, not one of {', '.join(get_args(Estimate))}")
