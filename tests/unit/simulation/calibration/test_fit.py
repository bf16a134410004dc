"""A job is simulated in a known world, recorded and fitted: the figures that come out are those that were put in."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from surescale.contracts.messages import JobTopology
from surescale.contracts.windows import FIGURE, Window
from surescale.simulation.calibration.fit import Fitted, fit
from surescale.simulation.calibration.recorded import CalibrationError, put_together, recorded_load
from surescale.simulation.load.jobs import SizedJob, size_job
from surescale.simulation.model.course import course_of, job_in
from surescale.simulation.model.world_file import SECOND_MINUTES
from surescale.simulation.model.worlds import CALM, TaskVariation, World, world_named
from tests.support.simulated_recordings import WORKLOAD, sized, windows_of

WIDE, SMALL = sized("j_1351665"), sized("j_2521346")


def fitted(job: SizedJob, world: World, hours: int, *, seed: int = 0, pipeline: bool = False) -> Fitted:
    """Return the world fitted to a job that was simulated."""
    return fit(put_together(f"sim/{job.name}", windows_of(job, world, hours, seed=seed, pipeline=pipeline)))


def figure(found: Fitted, name: str) -> np.ndarray:
    """Return one figure of all tasks."""
    return np.array([getattr(task, name) for task in found.world.tasks])


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_drift_and_skew_of_a_day_are_found(seed: int) -> None:
    """Sixteen tasks, a day with eight rescales.

    The deviation of the drift is found within 15 %, its memory within a factor of 1.6, the share of every key within 0.006 and
    of large ones within 15 % (each rescale moves it by up to a quarter). Levels lie within two standard errors of the mean of a
    day, the worst of them within four.
    """
    world = world_named("skew+drift", seed=seed)
    found, course = fitted(WIDE, world, 24, seed=seed), course_of(WIDE, world)
    assert course is not None
    assert figure(found, "drift").mean() == pytest.approx(0.25, rel=0.15)
    assert 180.0 / 1.6 < found.world.drift_minutes < 180.0 * 1.6
    np.testing.assert_allclose(figure(found, "hot_share"), course.hot_share[1:-1], atol=0.006)
    large = course.hot_share[1:-1] > 0.02
    np.testing.assert_allclose(figure(found, "hot_share")[large], course.hot_share[1:-1][large], rtol=0.15)
    off = np.log(figure(found, "service_ms") / 60_000 / WIDE.service_minutes[1:-1])
    assert np.abs(off).max() < 4.0 * 0.25 * np.sqrt(2 * 180 / 1_440)
    assert np.sqrt(np.square(off).mean()) < 2.0 * 0.25 * np.sqrt(2 * 180 / 1_440)
    assert not figure(found, "jitter").any()


def test_jitter_is_told_from_drift() -> None:
    """A world with both: a tenth from minute to minute, a fifth within two hours."""
    world = replace(CALM, name="both", drift=0.2, drift_minutes=120.0, jitter=0.1, seed=4)
    found = fitted(WIDE, world, 24)
    assert figure(found, "jitter").mean() == pytest.approx(0.1, rel=0.1)
    assert figure(found, "drift").mean() == pytest.approx(0.2, rel=0.2)


def test_a_calm_world_is_found_exactly() -> None:
    """No drift, no skew, the service times of the job, a restart of a minute, one visit each; no error is held back."""
    found = fitted(SMALL, CALM, 12)
    np.testing.assert_allclose(figure(found, "service_ms"), SMALL.service_minutes[1:-1] * 60_000, rtol=1e-4)
    for name in ("drift", "jitter", "hot_share"):
        assert not figure(found, name).any()
    assert (found.world.restart.seconds, found.world.restart.seen, found.world.restart.spread) == (60.0, 4, 0.0)
    assert found.world.graph().upstream == SMALL.graph.upstream
    assert not found.world.world("here").varies
    part = found.world.held_back
    assert part is not None
    assert part.minutes == 180
    assert max(part.service or 0, part.scatter or 0, part.visits or 0, part.busiest or 0, part.restart or 0) < 1e-4
    assert part.busy_time == pytest.approx(0.0, abs=0.01)


def test_counters_of_the_engine_give_the_same_world() -> None:
    """Whole-numbered counters and quarter-minute steps move a service time by less than half a per cent."""
    found = fitted(SMALL, CALM, 6, pipeline=True)
    np.testing.assert_allclose(figure(found, "service_ms"), SMALL.service_minutes[1:-1] * 60_000, rtol=5e-3)
    assert found.world.restart.seconds == pytest.approx(60.0, abs=1.0)
    assert not figure(found, "drift").any()


def test_a_fitted_world_that_is_played_and_recorded_is_fitted_again() -> None:
    """What goes into the file comes out of a simulation of it: each task's own drift, jitter and hot key, and the restart."""
    first = fitted(SMALL, world_named("skew+drift", seed=2, restart_s=90), 12).world
    tasks = zip(first.tasks, (0.1, 0.2, 0.3, 0.0), (0.1, 0.0, 0.05, 0.0), (0.0, 0.06, 0.0, 0.03), strict=True)
    own = tuple(msgspec.structs.replace(each, drift=d, jitter=j, hot_share=h) for each, d, j, h in tasks)
    put_in = msgspec.structs.replace(first, tasks=own, drift_minutes=90.0)
    literal = {"load": "literal", "literal_factor": SECOND_MINUTES}
    job = size_job(put_in.graph(), WORKLOAD, **literal)  # type: ignore[arg-type]
    again = fitted(job, put_in.world("again", seed=7), 48)
    np.testing.assert_allclose(figure(again, "drift"), [0.1, 0.2, 0.3, 0.0], rtol=0.3, atol=0.005)
    np.testing.assert_allclose(figure(again, "jitter"), [0.1, 0.0, 0.05, 0.0], rtol=0.2, atol=0.005)
    np.testing.assert_allclose(figure(again, "hot_share"), [0.0, 0.06, 0.0, 0.03], atol=0.006)
    assert again.world.restart.seconds == pytest.approx(90.0, abs=1.0)


def test_a_deal_is_no_hot_key_and_is_played_again() -> None:
    """Partitions and key groups are those that were announced; what even ones put on one subtask is no share of a key."""
    world = world_named("dealt", seed=0)  # in this draw all partitions of a task bring as much
    found, deal = fitted(SMALL, world, 12).world, job_in(world, SMALL, WORKLOAD).dealt
    assert tuple(task.dealt for task in found.tasks) == deal[1:-1] == (8, 12, 100, 24)
    assert not any(task.hot_share for task in found.tasks)
    job = size_job(found.graph(), WORKLOAD, load="literal", literal_factor=SECOND_MINUTES)
    true, played = course_of(SMALL, world), course_of(job, found.world("again"))
    assert true is not None
    assert played is not None
    for size in (3, 5, 7):
        sizes = np.full((job.size, 1), size)
        np.testing.assert_allclose(played.busiest(sizes, np.array([0])), true.busiest(sizes, np.array([0])))


def test_a_task_that_is_seldom_wide_shows_its_hot_key_when_it_is() -> None:
    """At two subtasks four per cent on a key are ordinary unevenness, and nothing is fitted; three hours at seven tell."""
    world = replace(CALM, name="hot", hot_share=0.04, own=(TaskVariation(hot_share=0.04),) * SMALL.size, seed=3)
    narrow, wide = (
        fit(put_together(f"sim/{SMALL.name}", windows_of(SMALL, world, 12, widths=widths))) for widths in ((2,), (2, 2, 7, 2))
    )
    assert not figure(narrow, "hot_share").any()
    np.testing.assert_allclose(figure(wide, "hot_share"), 0.04, rtol=0.26)


@pytest.mark.parametrize("seconds", [30.0, 90.0, 200.0])
def test_restarts_are_measured(seconds: float) -> None:
    """Whole minutes or not, to the second."""
    found = fitted(SMALL, world_named("drift", seed=1, restart_s=seconds), 12)
    assert found.world.restart.seconds == pytest.approx(seconds, abs=1.0)
    assert found.world.restart.seen == 4


def test_restarts_that_follow_the_state_have_their_scatter() -> None:
    """Eight restarts of the world restart: as the course says, within three standard errors."""
    found = fitted(SMALL, world_named("restart", seed=0), 24)
    assert found.world.restart.seen == 8
    assert abs(np.log(found.world.restart.seconds / 180.0)) < 3 * 0.25
    assert 0.08 < found.world.restart.spread < 0.6


def test_held_up_tasks_show_bounded_buffers() -> None:
    """Back pressure is seen only where there is some."""
    assert fitted(SMALL, world_named("starved", seed=1), 24).world.pressure
    assert not fitted(SMALL, world_named("skew", seed=1), 12).world.pressure


def test_a_job_without_a_restart_has_a_prior_that_says_so() -> None:
    """The length is the one stated, nothing counts as seen, and a note says what to record."""
    made = windows_of(SMALL, CALM, 3)
    recorded = put_together(f"sim/{SMALL.name}", made[1:])
    found = fit(recorded, prior_restart_s=45.0)
    assert (found.world.restart.seconds, found.world.restart.seen) == (45.0, 0)
    assert any("no restart was seen in 120 minutes, so 45 s are assumed" in note for note in found.notes)


def test_the_engine_knows_its_restarts_best() -> None:
    """What the monitor measured at rescales is taken, not what the figures show."""
    made = [replaced(window, restart_ms=21_500) for window in windows_of(SMALL, CALM, 6)]
    assert fit(put_together(f"sim/{SMALL.name}", made)).world.restart.seconds == 21.5


def test_selectivities_become_visits() -> None:
    """A task that gets a tenth of the records has a tenth of the visits, and its service time stays that of one record."""
    made = windows_of(SMALL, CALM, 6)
    last = SMALL.size - 2
    for window in made:
        for name in ("records_in", "records_out", "busy_ms", "busy_ms_max"):
            window.figures[:, last, FIGURE[name]] *= 0.1
        window.figures[:, SMALL.graph.upstream[last][0], FIGURE["records_out"]] *= 0.1
    found = fit(put_together(f"sim/{SMALL.name}", made)).world.tasks[-1]
    assert found.visits == pytest.approx(0.1, rel=0.02)
    assert found.service_ms == pytest.approx(SMALL.service_minutes[last] * 60_000, rel=0.02)
    assert found.seconds == pytest.approx(SMALL.service_minutes[last] * 6, rel=0.02)


def test_unknown_minutes_of_the_load_are_bridged_or_left_as_a_gap() -> None:
    """Three lie on the line between their neighbours; twelve stay unknown, which a workload leaves out."""
    made = windows_of(SMALL, CALM, 6)
    sent = recorded_load(put_together(f"sim/{SMALL.name}", made))
    made[1].figures[10:13] = np.nan
    made[3].figures[20:32] = np.nan
    found = recorded_load(put_together(f"sim/{SMALL.name}", made))
    short, long = np.arange(70, 73), np.arange(200, 212)
    same = np.setdiff1d(np.arange(360), np.concatenate([short, long]))
    assert (found[same] == sent[same]).all()
    assert np.isnan(found[long]).all()
    np.testing.assert_allclose(found[short], sent[69] + (sent[73] - sent[69]) * np.array([0.25, 0.5, 0.75]), atol=0.5)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda made: made[:1], "60 minutes with figures are too few to fit a world; record at least 120"),
        (lambda made: made[:0], "no minute with figures"),
        (lambda made: [without(window, "busy_ms") for window in made], "has records but no busy time"),
        (lambda made: [idle(window) for window in made], "no task was busy in 360 minutes"),
        (lambda made: [made[0], made[1], made[5]], ""),
    ],
)
def test_what_cannot_be_fitted_is_said_in_one_line(break_it: object, message: str) -> None:
    """Too short, silent, without busy time, idle. A gap in the middle is none of these."""
    made = break_it(windows_of(SMALL, CALM, 6))  # type: ignore[operator]
    if not message:
        assert fit(put_together(f"sim/{SMALL.name}", made)).world.recorded
        return
    with pytest.raises(CalibrationError, match=message) as raised:
        fit(put_together(f"sim/{SMALL.name}", made))
    assert "\n" not in str(raised.value)


def replaced(window: Window, **fields: object) -> Window:
    """Return a window with other fields in its topology."""
    topology: JobTopology = msgspec.structs.replace(window.topology, **fields)
    return replace(window, topology=topology)


def without(window: Window, name: str) -> Window:
    """Return a window whose engine does not know a figure."""
    window.figures[..., FIGURE[name]] = np.nan
    return window


def idle(window: Window) -> Window:
    """Return a window in which nothing happened."""
    for name in ("records_in", "records_out", "busy_ms", "busy_ms_max"):
        window.figures[..., FIGURE[name]] = 0.0
    return window
