"""The benchmark of a step measures what it says."""

import json

import pytest
from click.testing import CliRunner

from benchmarks.step import WATCHED_MINUTES, answered, command, stepped
from surescale.simulation.model.worlds import PRESSURE

WORLDS = ("calm", "pressure")


def test_a_policy_that_does_nothing_is_never_right_sized_and_keeps_the_backlog() -> None:
    """In both worlds the same backlog, since nothing changes; a rule gets there."""
    result = CliRunner().invoke(command, ["--policy", "hold", "--policy", "ds2", "--seeds", "1", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["policies"]
    assert found["hold"].keys() == set(WORLDS)
    calm, pressure = (found["hold"][name] for name in ("calm", "pressure"))
    assert calm["right_sized_minutes"] is None
    assert calm["rescales"] == pressure["rescales"] == 0
    assert calm["backlog"] == pytest.approx(pressure["backlog"], rel=1e-3)
    for world in WORLDS:
        assert 0 < found["ds2"][world]["right_sized_minutes"] < WATCHED_MINUTES
        assert found["ds2"][world]["backlog"] < found["hold"][world]["backlog"]


@pytest.mark.parametrize("late_minutes", [1, 6])
@pytest.mark.parametrize("policy", ["target-utilisation", "flink"])
def test_plain_overload_is_answered_within_minutes_and_two_rescales(policy: str, late_minutes: int) -> None:
    """A load four times as high, at any minute of the span: the aim that real engines are held to."""
    at_once, at_the_end = (
        answered(policy, PRESSURE, 100.0, 4.0, 0, 4.0, emergency=emergency, late_minutes=late_minutes)
        for emergency in (True, False)
    )
    assert at_once.right_sized_minutes <= 3
    assert at_once.rescales <= 2
    assert at_once.backlog < at_the_end.backlog / 4


@pytest.mark.parametrize("load", [50.0, 400.0])
def test_a_constant_noisy_load_is_no_emergency(load: float) -> None:
    """Poisson counts for five hours: nothing is rescaled."""
    assert answered("target-utilisation", PRESSURE, load, 1.0, 0, 4.0, emergency=True).rescales == 0


def test_the_load_steps_by_the_factor() -> None:
    """Poisson counts, the same for one seed."""
    load, step = stepped(100.0, 4.0, 1)
    before, after = load.requests[:step].mean(), load.requests[step:].mean()
    assert after / before == pytest.approx(4.0, rel=0.02)
    assert (load.requests == stepped(100.0, 4.0, 1)[0].requests).all()
