"""What is remembered of busy counters that cover a part of the work."""

from typing import Final

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surescale.contracts.capabilities import SIMULATED
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import JobTopology, Saturation, TaskSpec
from surescale.contracts.saturation import (
    LATELY_MINUTES,
    SHOWN_MOST,
    STILL_LEAST,
    evened,
    falls_behind,
    remembered,
    service_remembered,
    times_understated,
)
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import FIGURE, FIGURES, HOUR_MS, Float32, decode_window, encode_window
from tests.support.builders import row

SUBTASKS: Final = 4
TASKS: Final = (TaskSpec(task="calls", parallelism=SUBTASKS, scalable=True),)
REAL: Final = JobTopology(job="a/job", version=0, at_ms=0, tasks=TASKS, engine="flink", epoch="first")
DAY_MS: Final = 24 * HOUR_MS


def minute(busy: float, *, waiting: float = 0.0, subtasks: int = SUBTASKS) -> dict[str, Float32]:
    """Return a minute of the task with 1,000 records, ``busy`` its share of busy time and ``waiting`` at its end."""
    times = {"busy_ms": busy * subtasks * MINUTE_MS, "busy_ms_max": busy * MINUTE_MS, "backpressured_ms": 0.0}
    figures = {"records_in": 1_000.0, "queued_records_last": waiting, "parallelism": subtasks, "coverage": 1.0, "restarts": 0.0}
    return {"calls": row(**times, **figures)}


class Job:
    """A job whose minutes close one after another."""

    def __init__(self, topology: JobTopology = REAL) -> None:
        self.history = WindowHistory(topology.job, 60)
        self.topology, self.end_ms = topology, 0

    def times(self, minutes: int, busy: float, waiting: float = 0.0) -> float:
        """Let minutes pass; return how many times the busy time is that the task then shows."""
        for _ in range(minutes):
            self.end_ms += MINUTE_MS
            window = self.history.close(self.end_ms, minute(busy, waiting=waiting), self.topology)
        return float(times_understated(decode_window(encode_window(window)).saturations, TASKS, self.end_ms)[0])

    def rest(self, duration_ms: int) -> float:
        """Let time pass without a minute, and then a quiet one."""
        self.end_ms += duration_ms
        return self.times(1, 0.1)


def test_what_a_backlog_showed_outlasts_it_for_a_day() -> None:
    """A quarter of the time while records waited: four times as much, until a day after the last such minute."""
    job = Job()
    assert job.times(3, 0.25, waiting=5_000.0) == 1.0
    assert job.times(7, 0.25, waiting=5_000.0) == 4.0
    assert job.times(60, 0.1) == 4.0
    assert job.rest(DAY_MS - 62 * MINUTE_MS) == 4.0
    assert job.times(1, 0.1) == 1.0


def test_what_had_to_be_learned_again_holds_for_twice_as_long() -> None:
    """One day, two, four, and never more than the eight that a history lasts."""
    job = Job()
    for days in (1, 2, 4, 8, 8):
        job.times(4, 0.25, waiting=5_000.0)
        assert job.rest(days * DAY_MS - 2 * MINUTE_MS) == 4.0
        assert job.times(1, 0.1) == 1.0


def test_backlogs_while_it_holds_do_not_lengthen_it() -> None:
    """It is learned anew from the newest, and holds for a day from there."""
    job = Job()
    for shown in (0.25, 0.5, 0.25):
        assert job.times(10, shown, waiting=5_000.0) == 1.0 / shown
    assert job.rest(DAY_MS - 2 * MINUTE_MS) == 4.0
    assert job.times(1, 0.1) == 1.0


def test_a_new_submission_and_the_simulated_engine_remember_nothing() -> None:
    """Other code may have another counter; the simulated one is exact."""
    job = Job()
    job.times(10, 0.25, waiting=5_000.0)
    job.topology = msgspec.structs.replace(REAL, epoch="second")
    assert job.times(1, 0.1) == 1.0
    assert Job(msgspec.structs.replace(REAL, engine=SIMULATED.engine)).times(10, 0.25, waiting=5_000.0) == 1.0


def test_what_is_committed_every_five_minutes_is_no_work_of_one() -> None:
    """Four subtasks that commit 5,000 every five minutes while 9,000 wait: 240 ms each, not 48."""
    history, took = WindowHistory(REAL.job, 60), []
    for at in range(1, 21):
        done = {"records_in": 0.0 if at % 5 else 5_000.0, "queued_records_last": 9_000.0}
        times = {"busy_ms": np.nan, "busy_ms_max": np.nan, "backpressured_ms": 0.0}
        figures = row(**done, **times, parallelism=SUBTASKS, coverage=1.0, restarts=0.0)
        window = history.close(at * MINUTE_MS, {"calls": figures}, REAL)
        took.append(float(service_remembered(window.saturations, TASKS, at * MINUTE_MS)[0]) * MINUTE_MS)
    assert took[9:] == pytest.approx([240.0] * 11)


@pytest.mark.parametrize(("waiting", "took"), [(4.0, np.nan), (6.0, 120_000.0)])
def test_records_that_are_worked_on_do_not_wait(waiting: float, took: float) -> None:
    """Four members with a record each that takes a minute: none is committed, so four seem to wait, and nobody is behind."""
    history = WindowHistory(REAL.job, 60)
    for at in range(1, 13):
        figures = {"records_in": 2.0, "queued_records_last": waiting, "busy_ms": np.nan, "backpressured_ms": 0.0}
        minute_of = row(**figures, parallelism=SUBTASKS, coverage=1.0, restarts=0.0)
        window = history.close(at * MINUTE_MS, {"calls": minute_of}, REAL)
    found = service_remembered(window.saturations, TASKS, 12 * MINUTE_MS) * MINUTE_MS
    assert found == pytest.approx([took], nan_ok=True)


def test_minutes_without_a_record_are_work_up_to_ten_in_a_row() -> None:
    """More are an outage of something outside. Nothing is spread where nothing waits, or a counter tells the work."""
    for run, even in ((0, [7.0, 6.0]), (2, [7.0, 2.0, 2.0, 2.0]), (10, [7.0, *[6.0 / 11] * 11]), (11, [7.0, *[0.0] * 11, 6.0])):
        done = np.array([7.0, *[0.0] * run, 6.0])[:, None]
        waiting, unknown = np.full_like(done, 50.0), np.full_like(done, np.nan)
        none = np.zeros_like(done, dtype=np.bool_)
        assert evened(done, waiting, unknown, none)[:, 0] == pytest.approx(even)
        assert (evened(done, 0.0 * waiting, unknown, none) == done).all()
        assert (evened(done, waiting, waiting, none) == done).all()


def test_minutes_without_a_record_are_no_work_while_a_task_restarts() -> None:
    """Whether the attempt began in the first of them or in the minute before; one that begins later cuts no wave."""
    done = np.array([7.0, 0.0, 0.0, 6.0])[:, None]
    waiting, unknown = np.full_like(done, 50.0), np.full_like(done, np.nan)
    for began, even in ((0, done[:, 0]), (1, done[:, 0]), (2, [7.0, 2.0, 2.0, 2.0]), (3, [7.0, 2.0, 2.0, 2.0])):
        at = np.arange(len(done))[:, None] == began
        assert evened(done, waiting, unknown, at)[:, 0] == pytest.approx(even)


@pytest.mark.parametrize("shows", [1.0, 0.25])
@pytest.mark.parametrize("part", [0.1, 0.6, 0.85])
@pytest.mark.parametrize("still", [0, 1, 4, 12])
def test_the_minute_in_which_a_job_comes_back_is_not_worked_in_whole(still: int, part: float, shows: float) -> None:
    """A restart ends within a minute that begins and ends with a backlog: what is counted there is a part of it."""
    history, end_ms = WindowHistory(REAL.job, 60), 0
    minutes = [1.0] * 20 + [0.5] + [0.0] * still + [part] + [1.0] * 6
    for at, ran in enumerate(minutes):
        end_ms += MINUTE_MS
        times = {"busy_ms": ran * shows * SUBTASKS * MINUTE_MS, "busy_ms_max": ran * shows * MINUTE_MS, "backpressured_ms": 0.0}
        times["idle_ms"] = ran * (1.0 - shows) * SUBTASKS * MINUTE_MS
        figures = {"records_in": 1_000.0 * ran, "queued_records_last": 0.0 if at < 20 else 5_000.0}
        figures_of = row(**times, **figures, parallelism=SUBTASKS, coverage=1.0, restarts=float(at == 20))
        window = history.close(end_ms, {"calls": figures_of}, REAL)
    assert times_understated(window.saturations, TASKS, end_ms)[0] == pytest.approx(1.0 / shows)


def test_a_counter_that_shows_more_than_it_could_corrects_what_is_remembered() -> None:
    """After an outage of a service the same task works half of its time, and later all of it."""
    job = Job()
    assert job.times(10, 0.25, waiting=5_000.0) == 4.0
    assert job.times(LATELY_MINUTES, 0.5) == pytest.approx(2.0)
    assert job.times(LATELY_MINUTES, 0.95) == 1.0


def test_what_a_record_took_a_task_without_a_counter_is_remembered_for_a_day() -> None:
    """Four subtasks that got through 1,000 a minute while 5,000 waited: 240 ms each. Its busy time is corrected by nothing."""
    job = Job()
    assert job.times(5, np.nan, waiting=5_000.0) == 1.0
    job.times(60, np.nan)
    saturations = job.history.close(job.end_ms + MINUTE_MS, minute(np.nan), REAL).saturations
    assert [(each.task, each.shown) for each in saturations] == [("calls", None)]
    assert saturations[0].record_ms == pytest.approx(240.0)
    learned_ms = saturations[0].at_ms
    assert service_remembered(saturations, TASKS, learned_ms + DAY_MS - 1) == pytest.approx([0.004])
    assert np.isnan(service_remembered(saturations, TASKS, learned_ms + DAY_MS)).all()


def test_a_task_falls_behind_if_more_waits_on_fewer_subtasks_than_lately() -> None:
    """A quarter of a minute's work, and a tenth more than before; not while it restarts, and not at its largest size."""

    def found(before: dict[str, Float32], after: dict[str, Float32]) -> bool:
        return bool(falls_behind(np.stack([before["calls"], after["calls"]])[:, None])[0])

    before = minute(np.nan, waiting=100.0, subtasks=5)
    assert found(before, minute(np.nan, waiting=300.0))
    assert not found(before, minute(np.nan, waiting=240.0))
    assert not found(minute(np.nan, waiting=290.0, subtasks=5), minute(np.nan, waiting=380.0))
    assert not found(minute(np.nan, waiting=100.0), minute(np.nan, waiting=300.0))
    assert not found(before, minute(np.nan, waiting=np.nan))


@pytest.mark.parametrize(("more", "minutes"), [(50.0, 3), (20.0, 6), (12.0, 9)])
def test_a_task_falls_behind_that_is_a_little_too_small(more: float, minutes: int) -> None:
    """By two to five per cent of what it gets through: it took up to an hour, until a minute's work was waiting."""
    larger = [minute(np.nan, subtasks=5)]

    def found(waits: list[float]) -> bool:
        figures = [each["calls"] for each in (*larger, *(minute(np.nan, waiting=each) for each in waits))]
        return bool(falls_behind(np.stack(figures)[:, None])[0])

    grows = [300.0 + more * each for each in range(minutes + 1)]
    assert found(grows)
    assert found([300.0] * STILL_LEAST)
    assert not found([300.0] * (STILL_LEAST - 1))
    assert not found([each - 100.0 for each in grows[:3]])
    assert not found([1_000.0 - more * each for each in range(10)])  # what a restart left is worked off, however slowly
    larger = [minute(np.nan, subtasks=5, waiting=300.0)] * 3
    assert not found([300.0] * STILL_LEAST)  # as much seemed to wait before, since it commits seldom
    assert found([500.0] * STILL_LEAST)


def test_a_task_that_is_gone_and_comes_back_starts_anew() -> None:
    """Nothing is said of tasks that the job does not have."""
    known = (Saturation(task="old", shown=0.25, at_ms=0, epoch="first"),)
    figures = np.full((2, 1, len(FIGURES)), np.nan, dtype=np.float32)
    assert remembered(known, figures, REAL, MINUTE_MS) == ()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 1.0), st.sampled_from([0.0, np.nan, 5_000.0]), st.integers(1, 20)), min_size=1, max_size=12)
)
def test_it_says_something_only_of_counters_that_showed_too_little(stretches: list[tuple[float, float, int]]) -> None:
    """Whatever happens: never less than once, and never anything where no minute had a backlog."""
    job, was_told = Job(), False
    for busy, waiting, minutes in stretches:
        times = job.times(minutes, busy, waiting=waiting)
        was_told |= waiting > 0 and busy < SHOWN_MOST
        assert 1.0 <= times <= 20.0
        assert was_told or times == 1.0


def test_what_a_counter_told_before_it_fell_silent_is_kept() -> None:
    """Half the time of four subtasks for 1,000 records: 120 ms each. A restart's minute and one without records tell nothing."""
    history, took = WindowHistory(REAL.job, 60), []
    shown = [0.5] * 5 + [np.nan] * 20
    for at, share in enumerate(shown, start=1):
        figures = minute(share)["calls"].copy()
        if at == 2:
            figures[FIGURE["restarts"]], figures[FIGURE["busy_ms"]] = 1.0, 0.0
        if at == 3:
            figures[FIGURE["records_in"]] = 0.0
        window = history.close(at * MINUTE_MS, {"calls": figures}, REAL)
        took.append(float(service_remembered(window.saturations, TASKS, at * MINUTE_MS)[0]) * MINUTE_MS)
    assert np.isnan(took[:5]).all()
    assert took[5:] == pytest.approx([120.0] * 20)


def test_a_silent_counter_takes_nothing_from_what_its_backlog_showed() -> None:
    """It understated: that stays known, and what a record took by it is not kept in its place."""
    job = Job()
    assert job.times(10, 0.25, waiting=5_000.0) == 4.0
    assert job.times(10, np.nan) == 4.0
