"""The gate's parameters: every default, every old name, every refusal."""

from __future__ import annotations

import pytest

from surescale.rescaler.gate_settings import OLD_NAMES, PARAM_NAMES, Effect, GateSettings, ParamWarning, resolve
from surescale.rescaler.refusals import Refused

DEFAULTS = {
    "submission.resource-wait-timeout": ("wait_timeout_ms", 300_000),
    "submission.resource-stabilization-timeout": ("waiting_stabilization_ms", 10_000),
    "executing.cooldown-after-rescaling": ("cooldown_ms", 30_000),
    "executing.resource-stabilization-timeout": ("executing_stabilization_ms", 60_000),
    "rescale-trigger.max-delay": ("max_delay_ms", None),
    "rescale-trigger.max-checkpoint-failures": ("max_checkpoint_failures", 2),
    "checkpoint-interval": ("checkpoint_interval_ms", None),
}
FALLBACKS = [(old, new) for old, new in OLD_NAMES.items() if old not in ("scaling-interval.max", "min-parallelism-increase")]


@pytest.mark.parametrize("name", list(DEFAULTS))
def test_default(name: str) -> None:
    """Each parameter has the default that its documentation promises."""
    attribute, value = DEFAULTS[name]
    assert getattr(resolve({})[0], attribute) == value


def test_no_parameter_is_undocumented() -> None:
    """The table above is complete."""
    assert set(DEFAULTS) == set(PARAM_NAMES)


@pytest.mark.parametrize("name", list(DEFAULTS))
def test_given_value_is_used(name: str) -> None:
    """A value under its current name arrives, without a warning."""
    settings, warnings = resolve({name: 7})
    assert (getattr(settings, DEFAULTS[name][0]), warnings) == (7, ())


@pytest.mark.parametrize(
    ("settings", "delay_ms"),
    [
        (GateSettings(), 0),
        (GateSettings(checkpoint_interval_ms=20_000), 60_000),
        (GateSettings(checkpoint_interval_ms=20_000, max_checkpoint_failures=4), 100_000),
        (GateSettings(checkpoint_interval_ms=20_000, max_delay_ms=5), 5),
        (GateSettings(max_delay_ms=0), 0),
    ],
)
def test_maximum_delay(settings: GateSettings, delay_ms: int) -> None:
    """The maximum delay is as set, else interval * (failures + 1), else 0 without checkpoints."""
    assert settings.trigger_delay_ms == delay_ms


@pytest.mark.parametrize(("old", "new"), FALLBACKS)
def test_old_name_stands_in(old: str, new: str) -> None:
    """An old name's value is used, with a warning that names the new one."""
    settings, warnings = resolve({old: 7})
    assert getattr(settings, DEFAULTS[new][0]) == 7
    assert warnings == (ParamWarning(old, new, Effect.FALLBACK),)


@pytest.mark.parametrize(("old", "new"), FALLBACKS)
def test_null_under_the_new_name_yields_to_the_old_one(old: str, new: str) -> None:
    """Null counts as absent where an old name is given."""
    assert getattr(resolve({new: None, old: 7})[0], DEFAULTS[new][0]) == 7


@pytest.mark.parametrize(("old", "new"), FALLBACKS)
def test_new_name_wins(old: str, new: str) -> None:
    """The value of an overridden old name is not even looked at."""
    settings, warnings = resolve({old: "nonsense", new: 9})
    assert getattr(settings, DEFAULTS[new][0]) == 9
    assert warnings == (ParamWarning(old, new, Effect.OVERRIDDEN),)


@pytest.mark.parametrize(
    ("old", "use"), [("scaling-interval.max", "executing.resource-stabilization-timeout"), ("min-parallelism-increase", None)]
)
def test_meaningless_old_name_is_ignored(old: str, use: str | None) -> None:
    """Old names without a meaning warn and change nothing, whatever their value."""
    assert resolve({old: "nonsense"}) == (GateSettings(), (ParamWarning(old, use, Effect.IGNORED),))


def test_unknown_name_is_refused() -> None:
    """A name we do not know is an error, not a silent default."""
    with pytest.raises(Refused) as refused:
        resolve({"cooldown": 1})
    assert (refused.value.code, refused.value.place) == ("UNKNOWN_PARAM", {"field": "cooldown"})


@pytest.mark.parametrize("value", [True, 1.5, 3.0, "7", [], {}])
@pytest.mark.parametrize("name", [*DEFAULTS, "scaling-interval.min"])
def test_value_that_is_no_integer_is_refused(name: str, value: object) -> None:
    """Booleans and floats included; the name is the one given."""
    with pytest.raises(Refused) as refused:
        resolve({name: value})
    assert (refused.value.code, refused.value.place) == ("INVALID_PARAM", {"field": name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("submission.resource-stabilization-timeout", -1),
        ("executing.cooldown-after-rescaling", -1),
        ("executing.resource-stabilization-timeout", -1),
        ("rescale-trigger.max-delay", -1),
        ("rescale-trigger.max-checkpoint-failures", 0),
        ("checkpoint-interval", 0),
        ("scaling-interval.min", -1),
        ("scale-on-failed-checkpoints-count", 0),
    ],
)
def test_value_out_of_range_is_refused(name: str, value: int) -> None:
    """The first value below the limit of each parameter."""
    with pytest.raises(Refused, match="INVALID_PARAM"):
        resolve({name: value})


def test_negative_wait_timeout_is_allowed() -> None:
    """It disables the wait."""
    assert resolve({"submission.resource-wait-timeout": -1})[0].wait_timeout_ms == -1


@pytest.mark.parametrize("name", ["rescale-trigger.max-delay", "checkpoint-interval", "max-delay-for-scale-trigger"])
def test_null_is_allowed_where_it_means_the_default(name: str) -> None:
    """Null is a value for these."""
    assert resolve({name: None})[0] == GateSettings()


@pytest.mark.parametrize("name", ["executing.cooldown-after-rescaling", "scaling-interval.min"])
def test_null_is_refused_elsewhere(name: str) -> None:
    """A duration cannot be null."""
    with pytest.raises(Refused, match="INVALID_PARAM"):
        resolve({name: None})


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("submission.resource-stabilization-timeout", 0),
        ("executing.cooldown-after-rescaling", 0),
        ("executing.resource-stabilization-timeout", 0),
        ("rescale-trigger.max-delay", 0),
        ("rescale-trigger.max-checkpoint-failures", 1),
        ("checkpoint-interval", 1),
    ],
)
def test_the_least_value_is_allowed(name: str, least: int) -> None:
    """The limit belongs to the range; the refusal of what is below names it, and says where null may stand."""
    assert getattr(resolve({name: least})[0], DEFAULTS[name][0]) == least
    with pytest.raises(Refused) as refused:
        resolve({name: least - 1})
    null = " or null" if name in ("rescale-trigger.max-delay", "checkpoint-interval") else ""
    assert f"{name} must be an integer of at least {least}{null}, not {least - 1}" in str(refused.value)


def test_a_refusal_says_what_would_do() -> None:
    """Any integer, where there is no least one; all names, where the name is unknown."""
    with pytest.raises(Refused, match=r"submission\.resource-wait-timeout must be an integer, not 'soon'"):
        resolve({"submission.resource-wait-timeout": "soon"})
    with pytest.raises(Refused) as refused:
        resolve({"cooldown": 1})
    assert f"known: {', '.join(DEFAULTS)}" in str(refused.value)
