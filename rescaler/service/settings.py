"""Settings of the rescaler's process."""

from dataclasses import dataclass, replace
from typing import get_args

from contracts.errors import SettingsError
from contracts.settings import RoadSettings
from rescaler.control.placing import PLACING_ALGORITHMS, PlacingAlgorithm, PlacingSettings
from rescaler.control.situation import BalanceVersion, Balancing, ControlSettings, WarmUpThen
from rescaler.gate_settings import COOLDOWN, EXECUTING_STABILIZATION, OLD_NAMES, GateSettings, ParamWarning, resolve
from rescaler.learners_model import exact_factor
from rescaler.refusals import Refused


@dataclass(frozen=True, slots=True)
class RescalerSettings(RoadSettings):
    """What the road shares, how long things may take (milliseconds of the road's clock), and how hosts are chosen."""

    cooldown_ms: int = 30_000
    """Rest of a job after a rescale, counted from its end."""
    stabilization_ms: int = 60_000
    """How long a running job waits for more units when there are not enough for all of an act."""
    gate: str = ""
    """Further parameters of every job's gate, as name=value, separated by commas: rescale-trigger.max-delay=60000."""
    apply_ms_max: int = 600_000
    """A command that has not ended after this has failed."""
    warm_up_ms_max: int = 600_000
    """Learners that are not ready after this are given up; 0: no learners."""
    warm_up_then: WarmUpThen = "elsewhere"
    """What follows learners that were given up: others on other hosts (elsewhere), or the change without them (cold)."""
    placement: PlacingAlgorithm = "cetsa"
    """How hosts are chosen: by cost (cetsa, lba-ce), or evenly whatever they cost (spread)."""
    placement_gain_min: float = PlacingSettings().gain_min
    """Share of a job's rent that must be saved before running subtasks move to cheaper hosts."""
    balance: BalanceVersion = "V2"
    """What moves when hosts come or go: V1 (to hosts that join), V2 (until all are in their band), off; by cost, what pays."""
    balancing_factor: str = "1"
    """Width of the band around a host's fair share, as a decimal; for placement spread."""
    balance_units_max: int = 4
    """Parallel units on their way at one time while hosts are balanced, over all jobs; 0: no limit."""
    standbys: int = 0
    """Copies of each parallel unit's state kept on other hosts."""
    session_ms: int = 6_000
    """Wall time after which Kafka gives a silent rescaler's partition to another process."""
    engine_timeout_ms: int = 5_000
    """Wall time that one call of the engine may take."""

    def __post_init__(self) -> None:
        """Check what the environment may have said.

        Raises:
            SettingsError: a word that is none of those known, or a number out of its range.
        """
        RoadSettings.__post_init__(self)
        if self.placement not in PLACING_ALGORITHMS:
            known = ", ".join(PLACING_ALGORITHMS)
            raise SettingsError(f"SURESCALE_PLACEMENT: there is no placement {self.placement!r}; known: {known}")
        if not 0.0 <= self.placement_gain_min <= 1.0:
            raise SettingsError(f"SURESCALE_PLACEMENT_GAIN_MIN: {self.placement_gain_min} is not within 0 to 1")
        if self.warm_up_then not in get_args(WarmUpThen):
            known = ", ".join(get_args(WarmUpThen))
            raise SettingsError(f"SURESCALE_WARM_UP_THEN: {self.warm_up_then!r} is none of {known}")
        if self.balance not in get_args(BalanceVersion):
            raise SettingsError(f"SURESCALE_BALANCE: {self.balance!r} is none of {', '.join(get_args(BalanceVersion))}")
        self.check_least(cooldown_ms=0, stabilization_ms=0, apply_ms_max=1, warm_up_ms_max=0)
        self.check_least(balance_units_max=0, standbys=0, session_ms=1, engine_timeout_ms=1)
        try:
            exact_factor(self.balancing_factor)
        except Refused as refusal:
            raise SettingsError(f"SURESCALE_BALANCING_FACTOR: {refusal.message}") from None
        self.gate_settings()

    def control(self) -> ControlSettings:
        """What the pure core is given."""
        return ControlSettings(
            gate=self.gate_settings()[0],
            placing=PlacingSettings(self.placement, self.placement_gain_min),
            apply_ms_max=self.apply_ms_max,
            warm_up_ms_max=self.warm_up_ms_max,
            warm_up_then=self.warm_up_then,
            balancing=Balancing(
                version=self.balance if self.warm_up_ms_max else "off",  # nothing is moved cold that may stay
                factor=self.balancing_factor,
                units_max=self.balance_units_max or None,
                standbys=self.standbys,
            ),
        )

    def gate_settings(self) -> tuple[GateSettings, tuple[ParamWarning, ...]]:
        """The gate's parameters, and a warning for each old name; what ``gate`` names wins over the settings of its own.

        Raises:
            SettingsError: no such parameter, or a value that it cannot have.
        """
        given = dict(_parameter(each) for each in self.gate.split(",") if each.strip())
        try:
            found, warnings = resolve(given)
        except Refused as refusal:
            raise SettingsError(f"SURESCALE_GATE: {refusal.message}") from None
        named = {OLD_NAMES.get(name) if name in OLD_NAMES else name for name in given} - {None}
        ignored = {warning.use for warning in warnings if warning.effect == "ignored"} - given.keys()
        if COOLDOWN not in named:
            found = replace(found, cooldown_ms=self.cooldown_ms)
        if EXECUTING_STABILIZATION not in named - ignored:
            found = replace(found, executing_stabilization_ms=self.stabilization_ms)
        return found, warnings

    @property
    def group(self) -> str:
        """Consumer group and transactional id: one active rescaler per cluster (and topic prefix)."""
        return f"{self.topic_prefix}rescaler-{self.cluster}"


def _parameter(text: str) -> tuple[str, object]:
    name, _, value = (part.strip() for part in text.partition("="))
    try:
        return name, None if value == "null" else int(value)
    except ValueError:
        raise SettingsError(f"SURESCALE_GATE: {text.strip()!r} is not of the form name=integer") from None
