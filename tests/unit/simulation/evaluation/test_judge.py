"""From names to a report."""

import json
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pytest

from surescale.contracts.job_limits import RESTART_ASSUMED_S
from surescale.contracts.job_settings import LatencyBound
from surescale.policies.answer import Answer, RawAnswer
from surescale.policies.question import Question
from surescale.policies.registry import load_policy
from surescale.simulation.evaluation.closed_loop import follow
from surescale.simulation.evaluation.judge import (
    EvaluationError,
    EvaluationRequest,
    judge,
    judge_policy,
    known_names,
    setting_of,
    usable,
)
from surescale.simulation.evaluation.report import GapMinutes, report_of
from surescale.simulation.load.workload import Gap, Workload
from surescale.simulation.model.blindness import Blindness
from tests.unit.simulation.cases import chain
from tests.unit.simulation.evaluation.cases import DAY, quiet, setting, wave

FIGURES = {
    "reward_mean", "latency_mean", "utilisation", "task_minutes", "rescales_per_day", "decisions", "subtask_hours_per_day",
    "late_minutes_per_day",
}  # fmt: skip
NAMES = ("ds2", "static", "hold", "oracle")


def report(names: tuple[str, ...] = NAMES, seed: int = 0) -> dict[str, Any]:
    """Return a report on a day."""
    here = setting(wave(1), seed=seed)
    plain: dict[str, Any] = msgspec.to_builtins(
        report_of(here, [judge(name, here, quiet) for name in names], dict.fromkeys(names, 1.0))
    )
    return plain


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """Return the report of four policies."""
    return report()


def test_the_report_keeps_its_contract(told: dict[str, Any]) -> None:
    """All keys, for policies and for each run, and plain JSON values throughout."""
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert {"policies", "runs", "job", "workload", "mode", "lambda", "load_factor", "gaps"} <= set(told)
    assert list(told["policies"]) == list(NAMES)
    for figures in told["policies"].values():
        assert FIGURES | {"reward_ci95", "wall_s"} <= set(figures)
        low, high = figures["reward_ci95"]
        assert low <= figures["reward_mean"] <= high
        blend = -0.5 * figures["latency_mean"] + 0.5 * figures["utilisation"]
        assert figures["reward_mean"] == pytest.approx(blend, abs=2e-6)
    assert [run["seed"] for run in told["runs"]] == [0, 1]
    for run in told["runs"]:
        assert run["offset"] >= DAY // 3
        assert set(run["policies"]["ds2"]) >= FIGURES


def test_the_same_seed_gives_the_same_bytes(told: dict[str, Any]) -> None:
    """And another seed other offsets."""
    assert json.dumps(told) == json.dumps(report())
    offsets = [[run["offset"] for run in report(("hold",), seed)["runs"]] for seed in (0, 3)]
    assert offsets[0] == [run["offset"] for run in told["runs"]] != offsets[1]


def test_clairvoyants_are_marked_and_never_the_best_rule(told: dict[str, Any]) -> None:
    """The oracle has the best reward, the best rule is DS2, and shares lie between static and oracle."""
    assert told["policies"]["oracle"]["clairvoyant"]
    assert told["comparison"]["best_rule"] == "ds2"
    assert set(told["comparison"]["static_to_oracle"]["shares"]) == {"ds2", "hold"}


def test_regret_is_what_the_ceiling_has_more() -> None:
    """It is the paired difference of each policy; without the ceiling there is none, and the ceiling has none to itself."""
    found = report(("ds2", "hold", "ceiling"))
    rewards = {name: figures["reward_mean"] for name, figures in found["policies"].items()}
    regret = found["comparison"]["regret_to_ceiling"]
    assert set(regret) == {"ds2", "hold"}
    for name, told in regret.items():
        assert told["mean"] == pytest.approx(rewards["ceiling"] - rewards[name], abs=2e-6)
        assert told["standard_error"] == found["comparison"]["paired"]["ceiling"][name]["standard_error"] > 0
    assert report(("hold",))["comparison"]["regret_to_ceiling"] == {}


def test_gaps_are_named_and_do_not_count() -> None:
    """Twenty minutes in the judged part that nobody counted are in the report and in no sum."""
    requests = wave(1.5).requests.copy()
    requests[1200:1220] = 0
    here = setting(Workload("holed", requests, 0, unknown=(Gap(1200, 1219),)), runs=1)
    hold = judge("hold", here, quiet)
    told = report_of(here, [hold], {"hold": 0.0})
    assert told.gaps == [GapMinutes(1200, 1219)]
    assert hold.outcome.hours.weight.sum() == pytest.approx(here.runs.hours - 20 / 60)
    assert told.policies["hold"].task_minutes == 15 * (here.runs.hours * 60 - 20)


class Shrinking:
    """Wants the least of everything."""

    sha256 = ""
    span_minutes = 10
    name = "shrinking"

    def __init__(self, *, floor_applies: bool) -> None:
        self.floor_applies = floor_applies

    def answer(self, question: Question) -> Answer:
        """Return one subtask for every task."""
        return RawAnswer(np.ones_like(question.current), "Less.")


def test_the_load_floor_binds_all_but_who_stands_for_a_persons_choice() -> None:
    """Whatever the policy's name, as in the pipeline."""
    trial = replace(setting(wave(1.5), runs=1).trial, hours=4)
    floored, free = (follow(Shrinking(floor_applies=applies), trial, quiet).hours for applies in (True, False))
    assert free.task_minutes[0, -1] == 3 * 60
    assert floored.task_minutes[0, -1] > free.task_minutes[0, -1]


def test_an_objective_trades_subtasks_for_latency() -> None:
    """A day of sure in the closed loop: told cost it pays less and waits longer than told latency; the judge stays the same."""
    cost, latency = (
        report_of(here, [judge("sure", here, quiet)], {"sure": 1.0})
        for here in (setting(wave(1), runs=1, objective=objective) for objective in ("cost", "latency"))
    )
    cheap, quick = cost.policies["sure"], latency.policies["sure"]
    assert (cost.objective, latency.objective, cost.latency_weight) == ("cost", "latency", latency.latency_weight)
    assert cheap.task_minutes < 0.97 * quick.task_minutes
    assert cheap.latency_mean > quick.latency_mean
    assert cheap.utilisation > quick.utilisation
    assert not cheap.stand_ins


def test_a_bound_on_latency_is_reported_and_kept_the_better_the_tighter() -> None:
    """Sure under a loose and a tight share, and a rule calibrated for the latter; a job without a bound reports no share."""
    loose, tight = (setting(wave(2), runs=1, objective=LatencyBound(seconds=30.0, share=share)) for share in (0.2, 0.005))
    wide, narrow = (report_of(here, [judge("sure", here, quiet)], {"sure": 1.0}) for here in (tight, loose))
    assert (wide.objective, narrow.objective) == ("latency=30@0.005", "latency=30@0.2")
    few, many = (told.policies["sure"] for told in (narrow, wide))
    assert many.task_minutes > few.task_minutes
    assert many.share_above_bound is not None
    assert few.share_above_bound is not None
    assert 0.0 <= many.share_above_bound <= few.share_above_bound <= 1.0
    rule = judge("ds2", tight, quiet)
    assert rule.outcome.hours.late_share == pytest.approx(rule.outcome.hours.mean(rule.outcome.hours.late))


def test_late_minutes_and_rent_are_told_without_a_bound() -> None:
    """As many as under a bound of 60 s that nobody heeds; the rent is that of the same minutes, with a price in dollars too."""
    plain = setting(wave(1), runs=1)
    bound = setting(wave(1), runs=1, objective=LatencyBound(seconds=60.0))
    rule = load_policy("static")
    here, there = (judge_policy(rule, each, quiet) for each in (plain, bound))
    told = report_of(plain, [here], {"static": 0.0}, price=0.5)
    found = told.policies["static"]
    assert (told.late_seconds, told.price, found.share_above_bound) == (60.0, 0.5, None)
    assert found.late_minutes_per_day == pytest.approx(1440 * (there.outcome.hours.late_share or 0.0), abs=1e-5)
    assert found.late_minutes_per_day is not None
    assert found.late_minutes_per_day > 0.0
    assert found.subtask_hours_per_day == pytest.approx(24 * found.task_minutes / 60 / plain.runs.hours)
    assert found.dollars_per_day == pytest.approx(found.subtask_hours_per_day / 2, abs=1e-5)


@pytest.mark.parametrize("world", ["calm", "dealt", "pressure", "nights"])
@pytest.mark.parametrize("restart_s", [20.0, 90.0])
def test_late_minutes_are_counted_where_a_restart_takes_no_whole_minutes(world: str, restart_s: float) -> None:
    """With a bound too, which had been refused."""
    here = setting(wave(1), runs=1, world=world, restart_s=restart_s, objective=LatencyBound(seconds=15.0))
    trial = replace(here.trial, hours=4)
    late = follow(load_policy("ds2"), trial, quiet).hours.late
    assert late is not None
    assert np.isfinite(late).all()
    assert (late >= 0.0).all()


def test_batches_have_no_late_minutes() -> None:
    """Their latency is another."""
    here = setting(wave(1), runs=1, mode="slo")
    told = report_of(here, [judge("hold", here, quiet)], {"hold": 0.0})
    assert (told.late_seconds, told.policies["hold"].late_minutes_per_day) == (None, None)


def test_minutes_above_a_bound_are_counted_in_mode_clean_only() -> None:
    """Batches of a minute have no such minutes."""
    with pytest.raises(EvaluationError, match="mode clean only"):
        setting(wave(1), runs=1, mode="slo", objective=LatencyBound(seconds=30.0))


def test_minute_zero_need_not_be_midnight() -> None:
    """Shifting the event time of a file by five hours changes no decision of a rule: phases come from the window's own hours."""
    plain = setting(wave(1), runs=1)
    shifted = replace(plain, workload=Workload("wave", wave(1).requests, 5 * 3_600_000))
    first, second = (
        judge("forecast", replace(each, asked=EvaluationRequest(tuned=False)), quiet).outcome.hours for each in (plain, shifted)
    )
    assert first.rewards.tolist() == second.rewards.tolist()


def test_compat_decides_once_an_hour() -> None:
    """There every decision restarts the job, so all policies keep to the paper's hour."""
    here = setting(wave(1.5), mode="compat", runs=1)
    assert judge("ds2", here, quiet).outcome.decisions == here.runs.hours


def test_the_job_is_sized_on_the_calibration_part_alone() -> None:
    """A flood after it does not change the load factor; literal load takes the durations at their word."""
    flooded = wave().requests.copy()
    flooded[DAY:] *= 10
    here, there = setting(), setting(Workload("wave", flooded, 0))
    assert here.job.scale_factor == there.job.scale_factor
    literal = setting_of(chain(2000.0, 1000.0), wave(), EvaluationRequest(load="literal"))
    assert literal.job.service_minutes.tolist() == pytest.approx([0.0, 0.002, 0.001, 0.0])


@pytest.mark.parametrize("name", ["nonsense", "sure-papper", "../sure", ""])
def test_an_unknown_policy_is_one_clear_line(name: str) -> None:
    """It names the policy and what there is."""
    with pytest.raises(EvaluationError, match="--policy") as caught:
        usable(name, "")
    assert "\n" not in str(caught.value)
    assert "ds2-gate" in str(caught.value)


def test_every_promised_name_is_known() -> None:
    """All but ``sure-paper``, which is a package."""
    rules = ["target-utilisation", "ds2", "ds2-gate", "forecast", "flink", "hpa", "lag", "drs", "threshold"]
    promised = [*rules, "static", "hold", "random", "sure", "oracle"]
    assert set(promised) <= set(known_names())
    for name in promised:
        usable(name, "")


def test_zero_nights_are_played_and_judged() -> None:
    """Ten hours a day without a record are no gap: every hour counts, what is rented in them too, and no figure is unknown."""
    requests = wave(3).requests.copy()
    requests.reshape(3, 24, 60)[:, 14:] = 0
    here = setting(Workload("nights", requests, 0), runs=1)
    for name in ("hold", "forecast", "sure"):
        hours = judge(name, here, quiet).outcome.hours
        assert (hours.weight == 1.0).all()
        assert np.isfinite([*hours.rewards.ravel(), *hours.task_minutes.ravel()]).all()
    told = report_of(here, [judge("hold", here, quiet)], {"hold": 0.0})
    assert told.gaps == []
    assert told.policies["hold"].task_minutes == 15 * here.runs.hours * 60


def test_a_world_of_nights_takes_the_load_away_and_leaves_the_job_as_it_is() -> None:
    """The setting's load is silent at night; the job is sized as in the world calm."""
    calm, nights = setting(), setting(world="nights", world_seed=1)
    assert (nights.workload.requests == 0).mean() == pytest.approx(0.35, abs=0.1)
    assert nights.job.scale_factor == calm.job.scale_factor


def test_emergencies_are_answered_between_spans_where_the_engine_has_it_so() -> None:
    """The load becomes three times as high in the middle of a span: who may be raised grows before its end, and hold does not."""
    load = wave(1.5).requests.copy()
    here = setting(world="blind", world_seed=2, runs=1, tuned=False, load_parallelism=5.0)
    load[int(here.trial.first_minutes[0]) + 63 :] *= 3
    trial = replace(here.trial, workload=Workload("risen", load, 0), hours=2)
    made = [follow(load_policy(name), trial, quiet).decisions for name in ("target-utilisation", "hold")]
    assert made[0] > made[1] == 2 * 6


def test_blind_figures_are_announced_as_a_real_engines() -> None:
    """So that policies doubt them: a counter that shows a part of the work makes no task as small as it says."""
    here = setting(world="blind", world_seed=1, runs=1, tuned=False, load_parallelism=5.0)
    blindness = Blindness.of(here.terms.world, here.job)
    assert blindness is not None
    assert blindness.shown.min() < 0.25
    assert (here.terms.world.engine, setting().terms.world.engine) == ("flink", "simulated")
    hours = judge("target-utilisation", here, quiet).outcome.hours
    assert hours.mean(hours.latency) < 2.0  # believed, it would be nearly ten minutes


@dataclass
class Alternating:
    """Goes back and forth between two sizes, and notes how long it was told that a restart takes."""

    told: list[float | None]
    name: str = "alternating"
    sha256: str = ""
    span_minutes: int = 20
    floor_applies: bool = False

    def answer(self, question: Question) -> Answer:
        """Return a subtask more or less of each."""
        self.told.append(question.restart_seconds)
        return RawAnswer(question.current + (1 if len(self.told) % 2 else -1), "back and forth")


@pytest.mark.parametrize(("world", "seconds"), [("restart@300", 300.0), ("restart@40", 40.0), ("blind@300", 300.0)])
def test_how_long_a_restart_takes_is_told_or_measured(world: str, seconds: float) -> None:
    """From the first that takes longer than is assumed, else the second. Lengths vary by a quarter, and a part is not seen."""
    told = {}
    for served in ("told", "measured"):
        here, policy = setting(world=world, runs=1, tuned=False, load_parallelism=5.0, served=served), Alternating([])
        follow(policy, replace(here.trial, hours=6), quiet)
        told[served] = policy.told
    assert set(told["told"]) == {seconds}
    first, second, *_, last = told["measured"]
    assert first is None
    assert (second is None) == (seconds < RESTART_ASSUMED_S)
    assert last is not None
    assert abs(last - seconds) < 0.4 * seconds + 60.0
