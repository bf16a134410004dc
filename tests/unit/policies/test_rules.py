"""Each rule's formula on a small case worked out by hand: a chain with demands of 2 and 1 busy subtasks."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.windows import FIGURE, Window
from surescale.policies.answer import NotReady, RawAnswer
from surescale.policies.decide import decide
from surescale.policies.policy import Policy, ask
from surescale.policies.question import Question
from surescale.policies.registry import RULES, load_policy, policy_names
from surescale.policies.rules.drs import DRS, greedy, sojourns
from surescale.policies.rules.ds2 import DS2, GatedDS2
from surescale.policies.rules.fixed import Static
from surescale.policies.rules.flink import FlinkAutoscaler
from surescale.policies.rules.forecast import ForecastRule
from surescale.policies.rules.hpa import HorizontalPodAutoscaler
from surescale.policies.rules.lag import Lag
from surescale.policies.rules.random import Random
from surescale.policies.rules.reading import Rule
from surescale.policies.rules.target_utilisation import TargetUtilisation
from surescale.policies.rules.threshold import Threshold
from tests.unit.policies.conftest import WindowMaker, chain_window, read

NAMES = (*RULES, "forecast")


def wanted(rule: Rule, window: Window) -> list[int]:
    """Return what a rule wants for the real tasks."""
    return rule.wanted(read(window))[1:-1].tolist()


def with_load(window: Window, loads: list[float]) -> Window:
    """Return the window with these loads at the source in its last minutes."""
    figures = window.figures.copy()
    for name in ("records_in", "records_out"):
        figures[-len(loads) :, 0, FIGURE[name]] = loads
    return replace(window, figures=figures)


def test_ds2_rounds_demand_over_utilisation_up(make_window: WindowMaker) -> None:
    """2 / 0.7 and 1 / 0.7 busy subtasks make three and two; at 100 % a demand of exactly 2 needs two."""
    assert wanted(DS2(utilisation=0.7), make_window()) == [3, 2]
    assert wanted(DS2(utilisation=1.0), make_window()) == [2, 1]


def test_the_gate_keeps_small_savings(make_window: WindowMaker) -> None:
    """Five instead of six subtasks is a saving of 17 %: worth a restart at 15 %, not at 20 %."""
    assert wanted(GatedDS2(saving=0.15), make_window()) == [3, 2]
    assert wanted(GatedDS2(saving=0.2), make_window()) == [4, 2]


def test_the_gate_opens_for_need_and_for_waiting_work(make_window: WindowMaker) -> None:
    """2 / 0.75 = 2.67 is 33 % more than two subtasks have; and a minute of waiting work opens the gate however small the need."""
    assert wanted(GatedDS2(need=0.3), make_window(parallelism=(2, 2))) == [3, 2]
    assert wanted(GatedDS2(need=0.4), make_window(parallelism=(2, 2))) == [2, 2]
    assert wanted(GatedDS2(need=0.4), make_window(parallelism=(2, 2), queued=(100.0, 0.0))) == [3, 2]


def test_flink_adds_backlog_and_restart(make_window: WindowMaker) -> None:
    """2 / 0.7 + 2 x 5 / 30 = 3.19 subtasks; 1,800 records waiting are 36 minutes of work, 1.2 subtasks over 30 minutes."""
    rule = FlinkAutoscaler(boundary=0.05)
    assert wanted(rule, make_window(parallelism=(8, 2))) == [4, 2]
    assert wanted(rule, make_window(parallelism=(8, 2), queued=(1800.0, 0.0))) == [5, 3]


def test_flink_leaves_a_job_within_its_boundaries(make_window: WindowMaker) -> None:
    """At u = 0.7 +- 0.3 task a may have 2 to 5.3 subtasks."""
    assert wanted(FlinkAutoscaler(), make_window(parallelism=(5, 2))) == [5, 2]
    assert wanted(FlinkAutoscaler(), make_window(parallelism=(6, 2))) == [4, 2]
    assert wanted(FlinkAutoscaler(boundary=0.1), make_window(load=20.0, parallelism=(1, 1))) == [1, 1]


def test_flink_reads_a_lower_bound_of_nothing_as_five_per_cent(make_window: WindowMaker) -> None:
    """Upstream never shrinks such a vertex. 2 / 0.05 + 2 x 5 / 30 = 40.3 subtasks at a utilisation of 0.7 - 0.7."""
    rule = FlinkAutoscaler(boundary=0.7)
    assert wanted(rule, make_window(parallelism=(40, 2))) == [40, 2]
    assert wanted(rule, make_window(parallelism=(41, 2))) == [4, 2]


def test_flink_keeps_its_upper_bound_while_a_backlog_is_worked_off(make_window: WindowMaker) -> None:
    """Upstream raises it to 100 %: 8.8 + 0.5 subtasks are fewer than ten. At 90 % they are 10.3."""
    rule, load = FlinkAutoscaler(boundary=0.2), 440.0
    assert wanted(rule, make_window(load=load, parallelism=(10, 8))) == [10, 8]
    assert wanted(rule, make_window(load=load, parallelism=(10, 8), queued=(750.0, 0.0))) == [15, 8]


def test_lag_is_carried_along_the_worst_path(make_window: WindowMaker) -> None:
    """What waits before a task counts for it too."""
    flows = read(make_window()).measured.flows
    assert flows.carried(np.array([0.0, 5.0, 2.0, 0.0])).tolist() == [0.0, 5.0, 7.0, 7.0]


def test_hpa_scales_by_the_ratio_of_metric_to_target(make_window: WindowMaker) -> None:
    """Half busy at a target of 0.7: 4 x 0.5 / 0.7 = 2.86; within the tolerance of 10 % nothing changes."""
    assert wanted(HorizontalPodAutoscaler(target=0.7), make_window()) == [3, 2]
    assert wanted(HorizontalPodAutoscaler(target=0.46), make_window()) == [4, 2]
    assert wanted(HorizontalPodAutoscaler(target=0.45), make_window()) == [5, 3]


def test_keda_gives_one_subtask_per_accepted_lag(make_window: WindowMaker) -> None:
    """100 records of 0.02 minutes are two minutes of work: four subtasks at half a minute each; no lag, one subtask."""
    assert wanted(Lag(threshold_minutes=0.5), make_window(queued=(100.0, 0.0))) == [4, 1]


@pytest.mark.parametrize(("waiting", "size"), [(250.0, 10), (252.5, 11), (225.0, 9), (245.0, 10)])
def test_keda_s_rule_has_no_tolerance(make_window: WindowMaker, waiting: float, size: int) -> None:
    """A HorizontalPodAutoscaler would keep ten for a need of 10.1, and for one of nine."""
    assert wanted(Lag(threshold_minutes=0.5), make_window(parallelism=(10, 2), queued=(waiting, 0.0)))[0] == size


def test_threshold_moves_by_one(make_window: WindowMaker) -> None:
    """Half busy lies between the marks, above a high mark of 0.4, below a low mark of 0.6."""
    assert wanted(Threshold(), make_window()) == [4, 2]
    assert wanted(Threshold(high=0.4), make_window()) == [5, 3]
    assert wanted(Threshold(low=0.6), make_window()) == [3, 1]


def test_sojourns_are_erlangs() -> None:
    """C(3, 2) = 4/9 and C(2, 1) = 1/3, so a record is held 1.444 and 1.333 service times; M/M/1 at 0.5 holds it for two."""
    table = sojourns(np.array([2.0, 1.0, 0.5]), np.array([3, 2, 1]), 1)
    assert table[:, 0] == pytest.approx([1 + 4 / 9, 1 + 1 / 3, 2.0])


def test_drs_gives_where_the_sojourn_falls_most(make_window: WindowMaker) -> None:
    """Three and two subtasks hold 4.22 records for 3 in service (1.41); one more at task a brings that to 3.51 (1.17)."""
    assert wanted(DRS(sojourn=1.5), make_window()) == [3, 2]
    assert wanted(DRS(sojourn=1.2), make_window()) == [4, 2]
    assert wanted(DRS(sojourn=1.1), make_window()) == [4, 3]


def test_greedy_stops_at_the_target() -> None:
    """Gains of 5 and 1 at the first task, 3 at the second: a target of 12 takes 5 and 3."""
    held = np.array([[10.0, 5.0, 4.0], [10.0, 7.0, 7.0]])
    assert [greedy(held, np.array(target)).tolist() for target in (20.0, 15.0, 12.0, 0.0)] == [[0, 0], [1, 0], [1, 1], [2, 2]]


def test_static_goes_to_its_vector(make_window: WindowMaker, settings: JobSettings) -> None:
    """The vector wins over what the author configured; a task it does not name stays as configured."""
    window = make_window(parallelism=(3, 2), configured=(4, 4))
    decision = decide(window, Static(sizes=(("a", 5),)), settings, seed=0)
    assert [task.desired for task in decision.tasks] == [1, 5, 4, 1]


def test_the_forecast_rule_sizes_for_the_expected_load(make_window: WindowMaker) -> None:
    """When every day the coming hour doubles the load, the rule wants more than DS2 at the same target."""
    hours = np.full(192, 100.0, dtype=np.float32)
    hours[192 - 24 :: -24] = 200.0  # a day ago, two days ago, ...: the hour after this one
    rule = load_policy("forecast")
    assert isinstance(rule, ForecastRule)
    window = make_window(load=100.0, parallelism=(2, 1), hourly_load=hours)
    assert wanted(rule, window) > wanted(DS2(utilisation=rule.base.sizing.utilisation), window)


def test_target_utilisation_counts_waiting_work(make_window: WindowMaker) -> None:
    """1,800 waiting records add 36 minutes of work over a catch-up of 30: (2 + 1.2) / 0.75 = 4.27 subtasks."""
    assert wanted(TargetUtilisation(), make_window(queued=(1800.0, 0.0))) == [5, 2]


def test_estimates_of_the_rate(make_window: WindowMaker) -> None:
    """The last ten minutes are 200, the others 100: means, the 54th of 60 ordered minutes, the peak, the larger of 10 and 30."""
    reading = read(with_load(make_window(), [200.0] * 10))
    means = [float(reading.rate(estimate)) for estimate in ("mean-10", "mean-15", "mean-60", "p90", "peak", "quick-up")]
    assert means == pytest.approx([200.0, 166.67, 116.67, 200.0, 200.0, 200.0], abs=0.01)


def test_who_decides_every_minute_sees_a_step_after_a_minute(make_window: WindowMaker) -> None:
    """The quick mean is as long as the span and the slow one three times that, so a fall still counts later than a rise."""
    risen, fallen = read(with_load(make_window(), [400.0])), read(with_load(make_window(), [400.0, 400.0, 100.0]))
    assert [float(risen.rate("quick-up", span)) for span in (1, 2, 10, 60)] == [400.0, 250.0, 130.0, 130.0]
    assert float(fallen.rate("quick-up", 1)) == 300.0


def test_estimates_know_only_known_minutes(make_window: WindowMaker) -> None:
    """Unreported minutes do not count as zeros."""
    reading = read(make_window(known=7))
    assert {float(reading.rate(estimate)) for estimate in ("mean-60", "p90", "peak", "quick-up")} == {100.0}


def test_random_draws_are_fixed_by_seed_and_minute(make_window: WindowMaker, settings: JobSettings) -> None:
    """The same window and seed give the same ratios, in (0, 2]; another seed gives others."""
    first, again, other = (ask(Random(), Question.of(make_window(), settings, seed)) for seed in (1, 1, 2))
    assert isinstance(first, RawAnswer)
    assert isinstance(again, RawAnswer)
    assert isinstance(other, RawAnswer)
    assert first.ratios is not None
    assert again.ratios is not None
    assert other.ratios is not None
    assert first.ratios.tolist() == again.ratios.tolist() != other.ratios.tolist()
    assert ((first.ratios > 0) & (first.ratios <= 2)).all()
    assert first.wanted.tolist() == again.wanted.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_is_loaded_by_its_name(name: str, settings: JobSettings) -> None:
    """It says that name, decides every ten minutes and acts on a window."""
    policy = load_policy(name)
    assert policy.name == name
    assert name in policy_names()
    assert policy.span_minutes == 10
    assert decide(chain_window(), policy, settings, seed=0).policy.fallback_reason is None


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("static", "hold")])
def test_rules_wait_for_figures(name: str, settings: JobSettings) -> None:
    """Four known minutes are too few for any rule that looks at the load."""
    assert isinstance(ask(load_policy(name), Question.of(chain_window(known=4), settings, 0)), NotReady)


@pytest.mark.parametrize("name", NAMES)
def test_a_silent_source_changes_nothing_by_measurement(name: str, settings: JobSettings) -> None:
    """A rule that measures holds when no source has reported, instead of shrinking the job."""
    window = chain_window(configured=(4, 2))
    window.figures[:, 0] = np.nan
    policy: Policy = load_policy(name)
    answer = ask(policy, Question.of(window, settings, 0))
    assert isinstance(answer, RawAnswer)
    if name != "random":
        assert answer.wanted.tolist() == [spec.parallelism for spec in window.topology.tasks]


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_decides_as_often_as_it_is_told(name: str) -> None:
    """The setting reaches every rule, and nothing but the rule's span changes."""
    policy = load_policy(name, span_minutes=2)
    assert policy.span_minutes == 2
    assert replace(policy, span_minutes=10) == load_policy(name)


def test_a_package_states_its_own_span() -> None:
    """It was trained with that one; a model that cannot be loaded leaves the rule to decide as often as rules do."""
    assert load_policy("sure", span_minutes=2).span_minutes == load_policy("sure").span_minutes
    assert load_policy("nosuch", span_minutes=2).span_minutes == 2


@pytest.mark.parametrize("name", ["target-utilisation", "flink", "forecast"])
def test_a_backlog_is_worked_off_in_the_time_the_owner_sets(make_window: WindowMaker, name: str) -> None:
    """Half an hour by default; in five minutes it takes more subtasks."""
    window = make_window(load=100.0, queued=(6_000.0, 0.0))
    slow, fast = (
        ask(load_policy(name), Question.of(window, JobSettings(job="sim/chain", catch_up_minutes=minutes), 0))
        for minutes in (None, 5.0)
    )
    assert isinstance(slow, RawAnswer)
    assert isinstance(fast, RawAnswer)
    assert fast.wanted[1] > slow.wanted[1]


def test_flink_plans_for_the_restart_that_the_owner_states(make_window: WindowMaker) -> None:
    """A job that stands still for ten minutes at a rescale has more to catch up with than one that stops for a second."""
    window = make_window(load=390.0)
    quick, long = (
        ask(FlinkAutoscaler(), Question.of(window, JobSettings(job="sim/chain", restart_seconds=seconds), 0))
        for seconds in (1.0, 600.0)
    )
    assert isinstance(quick, RawAnswer)
    assert isinstance(long, RawAnswer)
    assert long.wanted[1] > quick.wanted[1]


def test_a_measured_restart_takes_the_place_of_the_prior_and_the_owner_that_of_both(make_window: WindowMaker) -> None:
    """Five minutes until a rescale of the job was measured; the reason names the figure."""
    window = make_window(load=390.0)
    short, long = (
        replace(window, topology=msgspec.structs.replace(window.topology, restart_ms=restart_ms)) for restart_ms in (600, 600_000)
    )
    answers = [
        ask(FlinkAutoscaler(), Question.of(asked, JobSettings(job="sim/chain", restart_seconds=seconds), 0))
        for asked, seconds in ((short, None), (window, None), (long, None), (long, 0.6))
    ]
    wanted = [answer.wanted[1] for answer in answers if isinstance(answer, RawAnswer)]
    assert wanted[0] < wanted[1] < wanted[2]
    assert wanted[3] == wanted[0]
    assert [answer.reason.endswith("a restart of 0.6 s.") for answer in answers] == [True, False, False, True]


def test_the_lag_rule_says_that_nobody_knows_of_a_backlog(make_window: WindowMaker) -> None:
    """It does not say that no record waits, nor that the sizes are close enough to that."""
    window = make_window(queued=(np.nan, np.nan))
    window.figures[..., FIGURE["queued_records_last"]] = np.nan
    answer = Lag().answer(Question.of(window, JobSettings(job=window.job), 0))
    assert isinstance(answer, RawAnswer)
    assert answer.reason == "Nobody knows how many records wait, so sizes stay as they are."


@pytest.mark.parametrize(
    ("rule", "loads", "said"),
    [
        (TargetUtilisation(), [400.0] * 10, "400 records a minute (mean of 10 minutes)"),
        (TargetUtilisation(), [10.0] * 10, "70 records a minute (mean of 30 minutes)"),
        (TargetUtilisation(span_minutes=1), [400.0], "400 records a minute (the last minute)"),
        (TargetUtilisation(span_minutes=1), [190.0, 10.0], "100 records a minute (mean of 3 minutes)"),
        (TargetUtilisation(estimate="peak"), [400.0, 10.0], "400 records a minute (the busiest minute)"),
        (GatedDS2(estimate="mean-60"), [160.0], "101 records a minute (mean of 60 minutes)"),
        (DS2(estimate="p90"), [400.0] * 6, "100 records a minute (nine of ten minutes have no more)"),
        (FlinkAutoscaler(metrics_minutes=10), [400.0] * 5, "250 records a minute (mean of 10 minutes)"),
    ],
)
def test_a_reason_says_which_load_it_is_for(make_window: WindowMaker, rule: Rule, loads: list[float], said: str) -> None:
    """Beside it a decision shows the mean of five minutes, which is another figure."""
    assert said in rule.sentence(read(with_load(make_window(load=100.0), loads)))
