"""Which minutes tune, which judge, and where runs begin."""

import numpy as np
import pytest

from surescale.simulation.evaluation.protocol import ProtocolError, Split, place_runs, split
from surescale.simulation.load.workload import Gap
from tests.unit.simulation.cases import clarknet, workload
from tests.unit.simulation.evaluation.cases import DAY, wave


def test_the_first_third_calibrates_by_default() -> None:
    """Of fourteen days of 20,160 minutes, 6,720."""
    assert split(clarknet(), None) == Split(0, 6720)


def test_ends_move_inward_to_whole_hours() -> None:
    """A part from minute 61 to 1,499 is calibrated on from 120 to 1,440."""
    assert split(wave(), "61:1499") == Split(120, 1440)


def test_runs_begin_after_calibration_and_end_within_the_file() -> None:
    """Seven days each, the whole hours they begin at all different, the first hour without a decision."""
    runs = place_runs(clarknet(), Split(0, 6720), 5, seed=0)
    assert runs.minutes == 7 * DAY
    assert runs.hours == 167
    assert runs.offsets.min() >= 6720
    assert (runs.offsets + runs.minutes).max() <= clarknet().minutes
    assert len(set(runs.offsets.tolist())) == 5
    assert (runs.offsets % 60 == 0).all()
    assert (runs.first_decisions == runs.offsets + 60).all()


def test_the_seed_places_the_runs() -> None:
    """The same seed gives the same offsets, another one others, both spread over the whole part."""
    first, again, other = (place_runs(clarknet(), Split(0, 6720), 5, seed).offsets for seed in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()
    assert np.diff(first).min() > 0


def test_a_single_run_takes_all_there_is() -> None:
    """Up to seven days."""
    assert place_runs(wave(), Split(0, DAY), 1, seed=0).minutes == 2 * DAY
    assert place_runs(wave(), Split(0, DAY), 2, seed=0).minutes == int(1.5 * DAY)


def test_many_runs_of_a_short_file_still_differ() -> None:
    """Sixteen hours for ten runs: seven hours each, one hour apart."""
    runs = place_runs(wave(1), Split(0, 480), 10, seed=0)
    assert sorted(runs.offsets.tolist()) == list(range(480, 480 + 600, 60))
    assert runs.hours == 6


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("week", "'week' is not A:B in minutes"),
        ("1:", "is not A:B in minutes"),
        ("-5:100", "is not A:B in minutes"),
        ("900:300", "need A < B"),
        ("0:999999", "does not lie within the 4320 minutes of wave"),
        ("0:200", "at least 240 needed"),
        ("0:" + "9" * 5_000, "is not A:B in minutes"),
    ],
)
def test_a_part_that_cannot_be_is_refused(given: str, words: str) -> None:
    """The message names the option and the fix."""
    with pytest.raises(ProtocolError, match="--calibrate") as caught:
        split(wave(), given)
    assert words in str(caught.value)


def test_a_run_in_which_nothing_counts_is_refused() -> None:
    """After minute 540 of eighteen hours there is one long gap: a run that begins there would be worth nothing."""
    holed = workload([5] * 540 + [0] * 540, gaps=(Gap(540, 1079),))
    with pytest.raises(ProtocolError, match="--runs: the run from minute 540 to 1080 cannot be judged"):
        place_runs(holed, Split(0, 540), 1, seed=0)
    assert place_runs(holed, Split(0, 360), 1, seed=0).offsets.tolist() == [360]


def test_too_little_to_judge_is_refused() -> None:
    """Two hours after calibration hold no run of three."""
    with pytest.raises(ProtocolError, match="--runs: 120 minutes follow"):
        place_runs(workload([5] * 600), Split(0, 480), 1, seed=0)
