"""How a job did after each step of the load."""

import numpy as np

from surescale.services.local_stack.comparison.phases import Observation, Phase, phases_of

LOAD = np.concatenate([np.full(10, 10.0), np.full(20, 40.0), np.full(10, 10.0)])
STEPS = ((10.0, 4.0), (30.0, 1.0))


def job(backlog: dict[int, int], changes: dict[int, int]) -> list[Observation]:
    """Return a job looked at every second for 40 seconds; what is given holds from its second on."""
    looks, waiting, changed = [], 0, 0
    for second in range(40):
        waiting, changed = backlog.get(second, waiting), changes.get(second, changed)
        looks.append(Observation(float(second), waiting, 4 + changed, changed))
    return looks


def test_a_step_is_settled_once_nothing_waits_for_good() -> None:
    """120 records are three seconds of 40 a second; at second 14 they are fewer for a moment, from 22 on for good."""
    calm, risen, fallen = phases_of(job({11: 500, 14: 100, 15: 900, 22: 60}, {18: 1, 35: 2}), STEPS, LOAD)
    assert (calm.settled_s, calm.rescales, calm.records_per_s, calm.factor) == (0.0, 0, 10.0, 1.0)
    assert (risen.from_s, risen.settled_s, risen.rescales, risen.records_per_s) == (10.0, 12.0, 1, 40.0)
    assert (fallen.settled_s, fallen.rescales) == (None, 1)


def test_areas_are_summed_over_the_seconds_of_the_phase() -> None:
    """100 records for ten seconds are 1,000 record-seconds; five subtasks for nineteen seconds are 1.6 subtask-minutes."""
    _, risen, _ = phases_of(job({10: 100, 20: 0}, {10: 1}), STEPS, LOAD)
    assert (risen.backlog_record_seconds, risen.size_minutes, risen.rescales) == (1_000, 1.6, 1)


def test_a_run_that_ended_early_has_phases_without_figures() -> None:
    """No look fell into the last one."""
    *_, last = phases_of(job({}, {})[:25], STEPS, LOAD)
    nothing = Phase(
        from_s=30.0, factor=1.0, records_per_s=10.0, settled_s=None, backlog_record_seconds=0, size_minutes=0.0, rescales=0
    )
    assert last == nothing


def test_a_step_at_the_very_beginning_is_the_first_phase() -> None:
    """There is none before it."""
    assert [phase.factor for phase in phases_of(job({}, {}), ((0.0, 2.0),), LOAD)] == [2.0]
