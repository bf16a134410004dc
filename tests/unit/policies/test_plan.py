"""The plan: what choices score, when a change is worth a restart, and what bounds it."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.messages import TaskSpec
from surescale.policies.graph import JobGraph, job_graph
from surescale.policies.guardrails import Limits
from surescale.policies.measure import Measured
from surescale.policies.sure.choices import Work, leap_of
from surescale.policies.sure.outlook import Expected
from surescale.policies.sure.past import PAST_HOURS, Past
from surescale.policies.sure.plan import PAST_DOUBT, REVERSED, WALK_GAIN, WALK_MOST, _queue, _with_spread, plan
from surescale.policies.sure.planning_input import Planning, PlanningInput, with_objective, with_restart
from surescale.policies.sure.queue_delay import waiting_by_bursts, waiting_by_surges, waiting_inside
from tests.support.planned import CALM, CHAIN, PLANNING, expecting, measured, measuring, past, planned


def constant(load: float, **parts: np.ndarray) -> Past:
    """Return the past of a job with one and the same load in every hour."""
    hours = np.full((1, PAST_HOURS), load)
    return past(
        **{"loads": hours, "peaks": 1.05 * hours, "expected": hours, "change": np.zeros(1), "width": np.zeros(1), **parts}
    )


def surging(expected: Expected, ratio: float, hours: int = 12, highest: float = 1_000.0) -> Expected:
    """Return the outlook of a job that surged by a factor in some of the last day's hours."""
    surges = np.where(np.arange(24) < hours, ratio, 1.0)[None]
    return replace(expected, surges=surges, highest_surge=np.array([highest]))


def test_a_job_that_fits_is_left_alone() -> None:
    """Two and one busy subtasks on three and two: nothing better is worth a restart."""
    answer = planned((3, 2), expecting(100, 100, 100, 100))
    assert not answer.acts[0]
    assert answer.wanted.tolist() == [[1, 3, 2]]


def test_a_rise_that_is_foreseen_is_met_before_it_comes() -> None:
    """The load of the last hour fits; that of the next twenty minutes hardly does."""
    answer = planned((3, 2), expecting(160, 200, 230, 230))
    assert answer.acts[0]
    assert answer.wanted[0, 1] >= 4
    assert answer.changing[0] > answer.holding[0]


def test_a_job_far_too_wide_shrinks_by_half_at_most() -> None:
    """One step never more than halves a task."""
    answer = planned((10, 10), expecting(100, 100, 100, 100))
    assert answer.acts[0]
    assert answer.wanted.tolist() == [[1, 5, 5]]


@pytest.mark.parametrize(("dealt", "least"), [(0, 5), (12, 6), (10, 5)])
def test_a_leap_down_gives_no_subtask_more_than_one_got_through(dealt: int, least: int) -> None:
    """A load worth 4.5 even subtasks: of twelve partitions the fullest of five would have three, which are too many."""
    tasks = [TaskSpec(task="s", scalable=False, max_parallelism=1)]
    tasks += [TaskSpec(task=name, upstream=("s",), max_parallelism=12, useful_max=dealt or None) for name in ("a", "b")]
    graph, expected = job_graph(tasks), expecting(45, 45, 45, 45, spread=0.0)
    limits = Limits(least=np.ones(3, dtype=np.int64), most=graph.parallelism_max, total=99, leaps_down=True)
    seen = measuring(np.full((1, 60), 45.0), np.array([[0.0, 0.02, 0.01]]), np.ones((1, 3)), np.zeros((1, 3)), graph)
    given = PlanningInput(
        replace(expected, shape=np.ones((1, 80))),
        seen,
        np.array([[1, 12, 12]]),
        graph,
        limits,
        np.zeros(1),
        got_through=np.array([[45.0, 10.0, 10.0]]),
    )
    leap = leap_of(PLANNING, given, Work.of(seen, graph))
    assert leap is not None
    assert leap[0].tolist() == [[1, least, least]]


def test_a_short_dip_is_not_followed() -> None:
    """Load that comes back within the hour leaves the sizes as they are."""
    assert not planned((4, 2), expecting(130, 180, 180, 180)).acts[0]


def test_less_is_dared_when_less_is_sure() -> None:
    """A wider outlook asks for at least as many subtasks."""
    sure, unsure = (planned((3, 2), expecting(*[150.0] * 4, spread=spread)) for spread in (0.03, 0.4))
    assert unsure.wanted.sum() > sure.wanted.sum()


def test_waiting_work_is_worked_off() -> None:
    """A thousand records waiting ask for more than the load alone does."""
    calm, behind = (planned((3, 2), expecting(*[100.0] * 4), measured(queued)) for queued in ((0, 0, 0), (0, 1000, 0)))
    assert behind.acts[0]
    assert behind.wanted.sum() > calm.wanted.sum()


def test_a_young_job_does_not_shrink() -> None:
    """With ten minutes known nothing says that the load will stay low; growing is allowed."""
    assert not planned((10, 10), expecting(*[100.0] * 4), measured(known=10)).acts[0]
    assert planned((2, 1), expecting(*[200.0] * 4), measured(known=10)).acts[0]


def test_a_restart_makes_the_next_one_dearer() -> None:
    """A gain that opens a calm job's gate does not open that of a job that restarted three times within the hour."""
    expected = expecting(*[100.0] * 4)
    fresh, tired = (planned((4, 2), expected, restarts=restarts) for restarts in (0, 3))
    assert fresh.acts[0]
    assert not tired.acts[0]


def test_the_jobs_total_bounds_every_choice() -> None:
    """Sizes beyond the limit are no choice; holding always is one."""
    answer = planned((3, 2), expecting(*[300.0] * 4), total=6)
    assert answer.wanted[0, 1:].sum() <= 6


def test_a_task_that_costs_nothing_needs_one_subtask_and_an_unknown_one_keeps_its_size() -> None:
    """No busy time is known to be little; no records processed is not known at all."""
    for service, left in ((0.0, 2), (np.nan, 4)):
        seen = measured()
        seen.service_minutes[0, 2] = service
        assert planned((4, 4), expecting(*[100.0] * 4), seen).wanted[0, 2] == left


def test_rows_do_not_see_one_another() -> None:
    """A batch gives each job what it would get alone."""
    one, other = expecting(160, 200, 230, 230), expecting(60, 60, 60, 60)
    parts = (field for field in Expected.__slots__ if field not in ("stage_minutes", "past", "shape"))
    days = Past(*(np.concatenate([getattr(one.past, part), getattr(other.past, part)]) for part in Past.__slots__))
    both = Expected(*(np.concatenate([getattr(one, part), getattr(other, part)]) for part in parts), 20, days)
    seen = measured()
    pair = seen.rows(np.array([0, 0]))
    limits = Limits(least=np.ones(3, dtype=np.int64), most=CHAIN.parallelism_max, total=99)
    given = PlanningInput(both, pair, np.array([[1, 3, 2], [1, 8, 6]]), CHAIN, limits, np.zeros(2, dtype=np.int64))
    answer = plan(PLANNING, given)
    assert answer.wanted[0].tolist() == planned((3, 2), one).wanted[0].tolist()
    assert answer.wanted[1].tolist() == planned((8, 6), other).wanted[0].tolist()


def test_surges_of_the_last_day_keep_a_calm_job_wide() -> None:
    """Sizes for a calm load are too small for one that quadruples every other hour; without surges the plan gives up little."""
    calm = expecting(*[100.0] * 4)
    assert not planned((3, 2), calm).acts[0]
    assert planned((3, 2), surging(calm, 4.0)).wanted[0, 1] == 6
    assert not planned((3, 2), surging(calm, 1.3)).acts[0]


def test_a_surge_once_a_day_counts_less_than_one_every_other_hour() -> None:
    """What a record waits is the mean over the day's hours."""
    busy, ratio = np.array([0.7]), np.where(np.arange(24) < 12, 4.0, 1.0)[None]
    often, once = (waiting_by_surges(np.where(np.arange(24) < hours, ratio, 1.0), busy, 7.0)[0] for hours in (12, 1))
    assert often == pytest.approx(12 * once)


def test_no_surge_is_expected_above_the_highest_there_was() -> None:
    """While a surge lasts the load is high already; it is not taken fourfold once more."""
    high = expecting(*[400.0] * 4)
    capped, open_ended = (planned((10, 6), surging(high, 4.0, highest=highest)) for highest in (400.0, np.nan))
    assert capped.holding[0] > open_ended.holding[0]
    assert not capped.acts[0]


def test_waiting_by_a_surge_is_that_of_its_queue() -> None:
    """Seven minutes at thrice the load on capacity for two: a queue of seven, filled in seven minutes, worked off in seven."""
    assert waiting_by_surges(np.array([[3.0]]), np.array([0.5]), 7.0)[0] == pytest.approx((24.5 + 24.5) / 60.0)
    assert waiting_by_surges(np.array([[np.nan]]), np.array([0.5]), 7.0)[0] == 0.0


def overloaded(records: float) -> Measured:
    """Return the job with so much load in its last quarter of an hour."""
    seen = measured()
    seen.load[0, 45:] = records
    return seen


def test_overload_lifts_the_limit_of_a_step_upward() -> None:
    """Three times the demand that the present size serves is met in one decision, as the guardrails allow."""
    assert planned((2, 1), expecting(*[300.0] * 4)).wanted[0, 1] == 4
    assert planned((2, 1), expecting(*[300.0] * 4), overloaded(300.0)).wanted[0, 1] > 4


def test_a_calm_job_resists_what_another_one_follows() -> None:
    """A gain that opens the gate of a job whose hours differ does not open that of one whose hours hardly do."""
    fickle = expecting(*[100.0] * 4)
    calm = replace(fickle, past=past(change=np.array([0.01])))
    assert planned((4, 2), fickle, planning=CALM).acts[0]
    assert not planned((4, 2), calm, planning=CALM).acts[0]


def test_a_calm_job_gives_back_a_good_part_like_any_other() -> None:
    """Half of what it has is no noise, where the rest carries the highest peak of the day; what it needed that day is."""
    long = with_restart(CALM, 180.0)
    calm = replace(expecting(*[50.0] * 4), past=past(change=np.array([0.01])))
    usual, of_calm = (long.gain_min * (1.0 + long.again * restarts) / 4 for restarts in (0.0, long.calm_restarts))
    answer = planned((8, 4), calm, planning=long)
    assert (answer.acts[0], answer.wide[0], answer.wanted.tolist()) == (True, False, [[1, 4, 2]])
    assert answer.gain_needed[0] == pytest.approx(usual)
    assert usual < answer.changing[0] - answer.holding[0] < of_calm
    peaked = planned((8, 4), surging(calm, 3.2, highest=160.0), planning=long)
    assert peaked.gain_needed[0] == pytest.approx(of_calm)


def test_a_day_of_two_levels_is_followed_however_calm_its_hours() -> None:
    """Hardly an hour of an office's day differs from the one before, but one size does not suit all of them."""
    for width, acts in ((0.6, False), (0.8, True)):
        office = replace(expecting(*[100.0] * 4), past=past(change=np.array([0.01]), width=np.array([width])))
        assert planned((4, 2), office, planning=CALM).acts[0] == acts


def test_a_calm_job_shrinks_once_its_load_has_stopped_falling() -> None:
    """While the last quarter of an hour is above the last five minutes, the load is still falling."""
    still, done = (replace(expecting(*[100.0] * 4), past=constant(100.0, falling=np.array([by]))) for by in (2.0, 1.0))
    assert not planned((10, 10), still, planning=CALM).acts[0]
    assert planned((10, 10), done, planning=CALM).acts[0]


def test_a_constant_load_is_sized_by_its_days() -> None:
    """Days at the same load make a trim worth it that two hours would not, and the next look says the same."""
    expected = expecting(*[100.0] * 4)
    known = replace(expected, past=constant(100.0))
    answer = planned((5, 3), known, planning=CALM)
    assert answer.heed[0] == 1.0
    assert answer.wanted.tolist() == [[1, 3, 2]]
    assert not planned((3, 2), known, planning=CALM).acts[0]


def test_a_load_that_has_left_its_last_day_is_not_sized_by_it() -> None:
    """A step away from a constant load: what was best for days says nothing of what comes."""
    left = replace(expecting(*[100.0] * 4), past=constant(100.0, usual=np.array([False])))
    assert planned((5, 3), left, planning=CALM).heed[0] == 0.0


@pytest.fixture
def diamond() -> JobGraph:
    """Return s -> (a, b) -> j."""
    return job_graph(
        [
            TaskSpec(task="s", scalable=False),
            TaskSpec(task="a", upstream=("s",)),
            TaskSpec(task="b", upstream=("s",)),
            TaskSpec(task="j", upstream=("a", "b")),
        ]
    )


def test_queues_add_up_along_a_path_only(diamond: JobGraph) -> None:
    """Both branches hold copies of the same records: the longer queue counts, and what waits behind it."""
    seen = measuring(np.ones((1, 1)), np.ones((1, 4)), np.ones((1, 4)), np.array([[0.0, 70.0, 100.0, 5.0]]), diamond)
    assert waiting_inside(seen, diamond).tolist() == [105.0]


def test_a_queue_that_no_record_reaches_is_not_waiting_of_those_that_enter(diamond: JobGraph) -> None:
    """Five records of yesterday behind a filter that lets nothing pass are no five million of today."""
    visits = np.array([[1.0, 1.0, 1.0, 0.0]])
    seen = measuring(np.ones((1, 1)), np.ones((1, 4)), visits, np.array([[0.0, 70.0, 100.0, 5.0]]), diamond)
    assert waiting_inside(seen, diamond).tolist() == [100.0]


def test_a_task_that_works_off_old_records_keeps_its_size() -> None:
    """Nothing that enters reaches it any more, so nothing tells what it needs; the others are planned as ever."""
    seen = replace(measured(queued=(0.0, 0.0, 500.0)), visits=np.array([[1.0, 1.0, 0.0]]))
    answer = planned((10, 10), expecting(100, 100, 100, 100), seen)
    assert answer.wanted.tolist() == [[1, 5, 10]]


def test_waiting_grows_with_utilisation_and_with_bursts() -> None:
    """An even load waits for nothing below one; a burst does, and the more the busier the job is."""
    even, uneven = np.ones((1, 60)), np.ones((1, 60))
    uneven[0, ::10] = 4.0
    flat, bumpy = waiting_by_bursts(even, 20)[0], waiting_by_bursts(uneven / uneven.mean(), 20)[0]
    assert flat[:18].max() == 0.0
    assert (np.diff(bumpy) >= 0).all()
    assert (bumpy[10:] > flat[10:]).all()


def test_constants_travel_with_the_card() -> None:
    """What was calibrated is data: it survives the way through a card."""
    assert msgspec.json.decode(msgspec.json.encode(PLANNING), type=Planning) == PLANNING


def test_a_longer_restart_has_a_higher_price_and_a_shorter_one_a_lower() -> None:
    """Three minutes: nine times the price of a later restart; a second: that without service, and hardly a price."""
    long, half, short = (with_restart(PLANNING, seconds) for seconds in (180.0, 50.0, 1.0))
    assert long.restart_minutes == 3 * PLANNING.restart_minutes
    assert long.later_restart == pytest.approx(9 * PLANNING.later_restart)
    assert long.gain_min > PLANNING.gain_min
    assert long.forced_restart == pytest.approx(8 * PLANNING.later_restart)
    assert half.later_restart == pytest.approx(PLANNING.later_restart * 25 / 36)
    assert short.later_restart == PLANNING.gain_min < half.later_restart
    for seconds in (0.0, 1.0, 29.9, 30.0, 50.0, 60.0, 90.0, 241.0, 600.0):
        assert with_restart(PLANNING, seconds).lost_minutes == pytest.approx(seconds / 60.0)
    assert with_restart(PLANNING, 241.0).forced_restart == pytest.approx(PLANNING.later_restart * ((241 / 60) ** 2 - 1.0))
    assert [with_restart(PLANNING, seconds).looks_back_a_week for seconds in (241.0, 299.0, 300.0)] == [False, False, True]
    for cheap in (half, short):
        assert (cheap.gain_min, cheap.forced_restart) == (PLANNING.gain_min, 0.0)
    assert with_restart(PLANNING, 60.0) == with_restart(PLANNING, None) == PLANNING


@given(st.floats(0.0, 900.0), st.floats(1.0, 60.0))
def test_a_longer_restart_leaves_more_waiting_and_never_by_a_leap(seconds: float, more: float) -> None:
    """Whatever the length: a queue grows by what would have come, or been got through, in the seconds that it takes longer."""
    load, choices = 120.0, planned((4, 2), expecting(*[120.0] * 4)).choices
    short, long = (
        _queue(with_restart(PLANNING, each), choices, np.full((1, 1, 20), load), np.zeros(1))[0, :, 0]
        for each in (seconds, seconds + more)
    )
    assert (long >= short - 1e-9).all()
    assert (long - short <= np.maximum(load, choices.capacity[0])[:, None] * more / 60.0 + 1e-6).all()


@pytest.mark.parametrize(("load", "sizes"), [(180.0, (5, 3)), (200.0, (6, 4)), (230.0, (6, 4))])
def test_a_change_that_stops_nothing_pays_where_a_minute_without_service_does_not(load: float, sizes: tuple[int, int]) -> None:
    """A job that has a little more than its load needs gives it back where a rebalance takes a second."""
    free, minute = (planned(sizes, expecting(*[load] * 4), planning=with_restart(PLANNING, seconds)) for seconds in (1.0, 60.0))
    assert (free.acts[0], minute.acts[0]) == (True, False)
    assert free.choices.capacity[0][(free.choices.sizes[0] == free.wanted[0]).all(axis=-1)].max() >= load


def test_where_the_load_floor_forces_a_long_restart_the_plan_chooses_what_it_leads_to() -> None:
    """Holding is no choice then. The floor alone would add just enough for the last quarter of an hour."""
    seen, rising = overloaded(170.0), expecting(200, 230, 230, 230)
    least = planned((3, 2), expecting(*[170.0] * 4), seen, planning=with_restart(PLANNING, 300.0))
    more = planned((3, 2), rising, seen, planning=with_restart(PLANNING, 300.0))
    for answer in (least, more):
        assert answer.forced[0]
        assert answer.acts[0]
        assert answer.gain_needed[0] == 0.0
        assert answer.changing[0] >= answer.holding[0]
        assert (answer.wanted >= [[1, 4, 2]]).all()
    assert more.wanted[0, 1] >= 5
    assert not planned((3, 2), rising, seen).forced[0]


def test_where_the_guardrails_let_it_hold_a_long_restart_changes_no_choice() -> None:
    """The same sizes, scores and needs as without a price of forced restarts."""
    long = with_restart(PLANNING, 300.0)
    without = msgspec.structs.replace(long, forced_restart=0.0)
    for load in (60.0, 100.0, 140.0, 260.0):
        ours, plain = (planned((4, 2), expecting(*[load] * 4), planning=each) for each in (long, without))
        assert not ours.forced[0]
        assert ours.wanted.tolist() == plain.wanted.tolist()
        assert (ours.holding, ours.changing, ours.gain_needed) == (plain.holding, plain.changing, plain.gain_needed)


def test_a_job_far_too_wide_shrinks_whatever_a_long_restart_costs() -> None:
    """Half of 3 % busy gains less by the hour than a restart of minutes costs, so it would stay for good."""
    long, little = with_restart(PLANNING, 300.0), expecting(*[10.0] * 4)
    answer = planned((10, 10), little, planning=long)
    assert answer.changing[0] - answer.holding[0] < answer.gain_needed[0]
    assert (answer.acts[0], answer.wide[0]) == (True, True)
    assert answer.wanted.tolist() == [[1, 5, 5]]
    assert not planned((10, 10), surging(little, 30.0, highest=1_500.0), planning=long).acts[0], "the last day needed it"
    last_week = replace(little, past=past(week=np.full((1, 168), 60.0), week_peaks=np.full((1, 168), 400.0)))
    assert not planned((10, 10), last_week, planning=long).acts[0], "the day that comes needed it a week ago"
    assert planned((10, 10), last_week, planning=with_restart(PLANNING, 180.0)).acts[0], "three minutes are undone sooner"
    assert not planned((10, 10), little, measured(known=10), planning=long).acts[0], "too little is known of it"
    assert not planned((4, 2), expecting(*[60.0] * 4), planning=long).wide[0]
    assert not planned((10, 10), little).wide[0], "scores tell it where restarts are short"


@pytest.mark.parametrize("load", [60.0, 100.0, 250.0])
def test_an_objective_moves_the_best_size_towards_what_it_names(load: float) -> None:
    """Cost wants no more subtasks than balanced, and that no more than latency; under an uncertain load they differ."""
    outlook = expecting(load, load, load, load, spread=0.3)
    low, middle, high = (
        int(planned((6, 4), outlook, planning=with_objective(PLANNING, objective)).best[0])
        for objective in ("cost", "balanced", "latency")
    )
    assert low <= middle <= high
    assert low < high or load != 100.0  # elsewhere one step's limit may be the same for all


def test_without_an_objective_and_balanced_the_plan_is_the_shipped_one() -> None:
    """Not only its numbers: the same constants."""
    assert with_objective(PLANNING, None) is PLANNING
    assert with_objective(PLANNING, "balanced") is PLANNING


def test_a_service_time_that_walks_widens_the_outlook() -> None:
    """A task that walks makes less sure; without one the bits stay."""
    here = replace(measured(), spread=np.array([[0.0, 0.3, 0.0]]))
    assert (_with_spread(expecting(100.0), here.spread.max(axis=-1)).spread > expecting(100.0).spread).all()
    assert _with_spread(expecting(100.0), np.zeros(1)).spread.tobytes() == expecting(100.0).spread.tobytes()


def test_a_change_must_gain_more_where_service_times_walk() -> None:
    """A size is soon wrong again, so a change that pays on firm ground is put off; one against overload is not."""
    walking = replace(measured(), spread=np.array([[0.0, 0.1, 0.0]]))
    slight, overload = expecting(110, 110, 110, 110), expecting(260, 260, 260, 260)
    firm, unsure = (planned((4, 2), slight, seen) for seen in (measured(), walking))
    assert unsure.gain_needed[0] == pytest.approx((1.0 + WALK_GAIN * 0.1) * firm.gain_needed[0])
    assert firm.acts[0]
    assert not unsure.acts[0]
    assert planned((3, 2), overload, walking).acts[0]


def test_hindsight_asks_for_more_where_service_times_walk() -> None:
    """What was the best constant over days is soon another: each look would find a slightly better one, at a restart each."""
    known = replace(expecting(*[100.0] * 4), past=constant(100.0))
    firm, unsure = (
        planned((5, 3), known, replace(measured(), spread=np.array([[0.0, spread, 0.0]])), planning=CALM) for spread in (0.0, 0.1)
    )
    stages = 4 + CALM.hindsight_days * 72
    own = CALM.gain_min  # a good part is spared, so a calm job needs no more
    doubt = WALK_GAIN * 0.1
    assert firm.heed[0] == unsure.heed[0] == 1.0
    assert firm.gain_needed[0] * stages == pytest.approx(own + CALM.hindsight_gain * (stages - 4))
    more = CALM.gain_min * doubt + CALM.hindsight_gain * (stages - 4) * PAST_DOUBT * doubt
    assert (unsure.gain_needed[0] - firm.gain_needed[0]) * stages == pytest.approx(more)


def test_hindsight_asks_for_half_the_price_of_a_long_restart_as_well() -> None:
    """Of what it costs beyond a shipped one, as far as hindsight counts; where nothing is forced, nothing more."""
    still = replace(expecting(*[100.0] * 4), past=constant(100.0))
    usual, long = (planned((9, 6), still, planning=msgspec.structs.replace(CALM, forced_restart=price)) for price in (0.0, 1.2))
    assert usual.heed[0] == long.heed[0] > 0.0
    stages = 4 + usual.heed[0] * CALM.hindsight_days * 72
    assert (long.gain_needed[0] - usual.gain_needed[0]) * stages == pytest.approx(REVERSED * 1.2 * usual.heed[0])


def test_a_jump_needs_no_more_gain_than_a_fast_walk() -> None:
    """Its spread says that the task was somewhere else an hour ago, not that it will be in an hour."""
    fast, jumped = (
        planned((4, 2), expecting(*[110.0] * 4), replace(measured(), spread=np.array([[0.0, spread, 0.0]])))
        for spread in (WALK_MOST, 0.35)
    )
    assert jumped.gain_needed[0] == fast.gain_needed[0] == pytest.approx((1.0 + WALK_GAIN * WALK_MOST) * PLANNING.gain_min / 4)
