"""The benchmark of a step measures what it says."""

import json

import pytest
from click.testing import CliRunner

from benchmarks.step import WATCHED_MINUTES, command, stepped

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


def test_the_load_steps_by_the_factor() -> None:
    """Poisson counts, the same for one seed."""
    load, step = stepped(100.0, 4.0, 1)
    before, after = load.requests[:step].mean(), load.requests[step:].mean()
    assert after / before == pytest.approx(4.0, rel=0.02)
    assert (load.requests == stepped(100.0, 4.0, 1)[0].requests).all()
