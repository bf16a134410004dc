"""The rescaler's settings: gates, learners, and what is refused by name."""

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import from_environment
from surescale.rescaler.gate_settings import PARAM_NAMES
from surescale.rescaler.service.settings import RescalerSettings


def test_every_parameter_of_the_gate_can_be_set() -> None:
    """By the names that the gate's own command has."""
    text = ",".join(f"{name}={index + 1}" for index, name in enumerate(PARAM_NAMES))
    gate = from_environment(RescalerSettings, {"SURESCALE_GATE": text}).control().gate
    assert [
        gate.wait_timeout_ms,
        gate.waiting_stabilization_ms,
        gate.cooldown_ms,
        gate.executing_stabilization_ms,
        gate.max_delay_ms,
        gate.max_checkpoint_failures,
        gate.checkpoint_interval_ms,
    ] == [1, 2, 3, 4, 5, 6, 7]


def test_settings_of_their_own_hold_where_the_gate_is_not_told() -> None:
    """And give way where it is, also by an old name."""
    own = RescalerSettings(cooldown_ms=1, stabilization_ms=2, gate="rescale-trigger.max-delay=null").control().gate
    assert (own.cooldown_ms, own.executing_stabilization_ms, own.max_delay_ms) == (1, 2, None)
    told = RescalerSettings(cooldown_ms=1, stabilization_ms=2, gate=" scaling-interval.min = 5 ").control().gate
    assert (told.cooldown_ms, told.executing_stabilization_ms) == (5, 2)


def test_old_names_are_warned_of_once() -> None:
    """Used, overridden or ignored."""
    text = "scaling-interval.min=5,executing.cooldown-after-rescaling=6,scaling-interval.max=7,resource-wait-timeout=8"
    gate, warnings = RescalerSettings(stabilization_ms=9, gate=text).gate_settings()
    assert (gate.cooldown_ms, gate.wait_timeout_ms, gate.executing_stabilization_ms) == (6, 8, 9)
    assert {warning.name: warning.effect.value for warning in warnings} == {
        "resource-wait-timeout": "fallback",
        "scaling-interval.min": "overridden",
        "scaling-interval.max": "ignored",
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"gate": "cooldown=5"}, "SURESCALE_GATE: 'cooldown' is not a parameter"),
        ({"gate": "checkpoint-interval=0"}, "SURESCALE_GATE: checkpoint-interval must be an integer of at least 1"),
        ({"gate": "checkpoint-interval"}, "not of the form name=integer"),
        ({"warm_up_then": "later"}, "SURESCALE_WARM_UP_THEN"),
        ({"warm_up_ms_max": -1}, "SURESCALE_WARM_UP_MS_MAX"),
        ({"apply_ms_max": 0}, "SURESCALE_APPLY_MS_MAX: must be at least 1, not 0"),
        ({"cooldown_ms": -1}, "SURESCALE_COOLDOWN_MS: must be at least 0, not -1"),
        ({"stabilization_ms": -1}, "SURESCALE_STABILIZATION_MS: must be at least 0, not -1"),
        ({"session_ms": 0}, "SURESCALE_SESSION_MS: must be at least 1, not 0"),
        ({"engine_timeout_ms": 0}, "SURESCALE_ENGINE_TIMEOUT_MS: must be at least 1, not 0"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given: dict[str, object], words: str) -> None:
    """Before anything starts."""
    with pytest.raises(SettingsError, match=words):
        RescalerSettings(**given)  # type: ignore[arg-type]
