"""Settings of the rescaler's process."""

from dataclasses import dataclass, replace
from typing import get_args

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import like
from surescale.contracts.topics import rescaler_group
from surescale.engines.settings import ClusterSettings
from surescale.rescaler.control.settings import (
    PLACING_ALGORITHMS,
    BalanceVersion,
    Balancing,
    ControlSettings,
    PlacingAlgorithm,
    PlacingSettings,
    WarmUpThen,
)
from surescale.rescaler.gate_settings import COOLDOWN, EXECUTING_STABILIZATION, OLD_NAMES, GateSettings, ParamWarning, resolve
from surescale.rescaler.learners_model import exact_factor
from surescale.rescaler.refusals import Refused


@dataclass(frozen=True, slots=True)
class RescalerSettings(ClusterSettings):
    """Shared settings, how long things may take (milliseconds of the pipeline's clock), and how hosts are chosen."""

    cooldown_ms: int = like(GateSettings, "cooldown_ms")
    stabilization_ms: int = like(GateSettings, "executing_stabilization_ms")
    gate: str = ""
    """Further parameters of every job's gate, as name=value, separated by commas: rescale-trigger.max-delay=60000."""
    apply_ms_max: int = like(ControlSettings, "apply_ms_max")
    warm_up_ms_max: int = like(ControlSettings, "warm_up_ms_max")
    warm_up_then: WarmUpThen = like(ControlSettings, "warm_up_then")
    placement: PlacingAlgorithm = like(PlacingSettings, "algorithm")
    placement_gain_min: float = like(PlacingSettings, "gain_min")
    balance: BalanceVersion = like(Balancing, "version")
    balancing_factor: str = like(Balancing, "factor")
    balance_units_max: int = like(Balancing, "units_max")
    standbys: int = like(Balancing, "standbys")
    session_ms: int = 6_000
    """Wall time after which Kafka gives a silent rescaler's partition to another process."""
    engine_timeout_ms: int = 5_000
    """Wall time that one call to the engine may take."""

    def __post_init__(self) -> None:
        """Check what the environment may hold.

        Raises:
            SettingsError: an unknown word, or a number out of its range.
        """
        ClusterSettings.__post_init__(self)
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
        """Return the settings of the pure core."""
        return ControlSettings(
            gate=self.gate_settings()[0],
            placing=PlacingSettings(self.placement, self.placement_gain_min),
            apply_ms_max=self.apply_ms_max,
            warm_up_ms_max=self.warm_up_ms_max,
            warm_up_then=self.warm_up_then,
            balancing=Balancing(
                version=self.balance if self.warm_up_ms_max else "off",  # what may stay is never moved cold
                factor=self.balancing_factor,
                units_max=self.balance_units_max,
                standbys=self.standbys,
            ),
        )

    def gate_settings(self) -> tuple[GateSettings, tuple[ParamWarning, ...]]:
        """Return the gate's parameters, and a warning for each old name. Parameters in ``gate`` win over the other settings.

        Raises:
            SettingsError: an unknown parameter, or a value that it cannot have.
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
        return rescaler_group(self.topic_prefix, self.cluster)


def _parameter(text: str) -> tuple[str, object]:
    name, _, value = (part.strip() for part in text.partition("="))
    try:
        return name, None if value == "null" else int(value)
    except ValueError:
        raise SettingsError(f"SURESCALE_GATE: {text.strip()!r} is not of the form name=integer") from None
