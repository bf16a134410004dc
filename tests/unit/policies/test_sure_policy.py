"""The policy ``sure`` as it ships: its answers, and what it tells of them."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from surescale.contracts.decisions import ChangeScore, Decision, LoadOutlook
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.windows import FIGURE
from surescale.contracts.wire import decode
from surescale.contracts.wire import encode as encode_message
from surescale.policies.decide import decide
from surescale.policies.registry import load_policy
from surescale.policies.sure.policy import CANDIDATES_MOST, SurePolicy
from tests.support.dealt_loop import Cell, run
from tests.unit.policies.conftest import WindowMaker, branching_window

SETTINGS = JobSettings(job="sim/y")


def test_a_decision_is_the_same_bytes_every_time(sure: SurePolicy) -> None:
    """Also from a package that was loaded again."""
    window = branching_window(3)
    first, second = (decide(window, model, SETTINGS, seed=1) for model in (sure, load_policy("sure")))
    assert encode_message(first) == encode_message(second)
    assert first.policy.name == "sure"


def test_the_jobs_objective_is_heard_and_told(sure: SurePolicy) -> None:
    """The scores are of the reward that the owner asks for; balanced is, byte for byte, what nothing set is."""
    window = branching_window(3)
    none, balanced, cost, latency = (
        decide(window, sure, JobSettings(job="sim/y", objective=objective), seed=1)
        for objective in (None, "balanced", "cost", "latency")
    )
    assert encode_message(none) == encode_message(balanced)
    assert isinstance(cost.compared, ChangeScore)
    assert isinstance(latency.compared, ChangeScore)
    assert cost.compared.unit.startswith("0.7 x utilisation - 0.3 x minutes of latency")
    assert latency.compared.unit.startswith("0.3 x utilisation - 0.7 x minutes of latency")
    assert cost.compared.subtasks <= latency.compared.subtasks


def test_the_sizes_it_compared_are_told_as_a_curve_of_rent_against_late_minutes(sure: SurePolicy) -> None:
    """Fewest subtasks first, with the present size and the best; each larger size but those two spares minutes."""
    compared = decide(branching_window(3), sure, SETTINGS, seed=1).compared
    assert isinstance(compared, ChangeScore)
    assert compared.candidates is not None
    subtasks, late = compared.candidates.subtasks, compared.candidates.late_minutes
    assert list(subtasks) == sorted(set(subtasks))
    assert {compared.subtasks, compared.present_subtasks} <= set(subtasks)
    assert len(late) == len(subtasks) <= CANDIDATES_MOST + 2
    assert all(0.0 <= minutes <= compared.candidates.minutes for minutes in late)
    freely = [
        minutes
        for size, minutes in zip(subtasks, late, strict=True)
        if size not in (compared.subtasks, compared.present_subtasks)
    ]
    assert freely == sorted(freely, reverse=True)


def test_each_size_says_how_many_slots_it_takes(sure: SurePolicy) -> None:
    """Tasks of one sharing group share them, so they are fewer than subtasks; the simulator's hosts are chosen afterwards."""
    window = branching_window(3)
    simulated = decide(window, sure, SETTINGS, seed=1).compared
    tasks = tuple(
        msgspec.structs.replace(spec, sharing_group="a" if at else "b") for at, spec in enumerate(window.topology.tasks)
    )
    topology = msgspec.structs.replace(window.topology, engine="flink", tasks=tasks)
    compared = decide(replace(window, topology=topology), sure, SETTINGS, seed=1).compared
    assert simulated is not None
    assert simulated.candidates is not None
    assert simulated.candidates.slots == ()
    assert compared is not None
    assert compared.candidates is not None
    slots = dict(zip(compared.candidates.subtasks, compared.candidates.slots, strict=True))
    assert slots[compared.present_subtasks] == tasks[0].parallelism + max(spec.parallelism for spec in tasks[1:])
    assert list(slots.values()) == sorted(slots.values())
    assert len(set(slots.values())) > 1


def test_a_change_by_hindsight_is_told_in_full(sure: SurePolicy, make_window: WindowMaker) -> None:
    """Its sentence is the longest there is; one beyond what the field holds would have the rescaler refuse the decision."""
    hours = np.full(192, 1_000.0, dtype=np.float32)
    window = make_window(load=1_000.0, parallelism=(90, 60), hourly_load=hours)
    roomy = JobSettings(job="sim/chain", parallelism_max=100)
    decision = decide(replace(window, hourly_peak=1.05 * hours), sure, roomy, seed=0)
    assert decision.action == "act"
    assert "taking the last days into account" in decision.reason
    assert "…" not in decision.reason
    assert decode(encode_message(decision), Decision) == decision


@pytest.mark.parametrize("height", [3.0, 4.0, 5.0])
def test_room_for_surges_is_what_is_needed_until_the_job_has_grown(
    sure: SurePolicy, make_window: WindowMaker, height: float
) -> None:
    """A job that grows at once and restarts in seconds waits for a surge; one that cannot has room for seven minutes of it."""
    hours = np.full(192, 100.0, dtype=np.float32)
    peaks = np.where(np.arange(192) % 6 == 0, height * hours, hours).astype(np.float32)
    window = replace(make_window(load=100.0, parallelism=(8, 8), hourly_load=hours), hourly_peak=peaks)
    window = replace(window, topology=msgspec.structs.replace(window.topology, engine="flink"))

    def wanted(restart_seconds: float, *, grows: bool) -> int:
        settings = JobSettings(job="sim/chain", restart_seconds=restart_seconds, emergency_growth=grows, step_down_max=8.0)
        return sum(task.proposed for task in decide(window, sure, settings, seed=0).tasks)

    assert wanted(10.0, grows=True) < wanted(10.0, grows=False)
    assert wanted(180.0, grows=True) == wanted(180.0, grows=False)


def test_a_change_that_the_load_floor_forces_is_told_as_such(sure: SurePolicy, make_window: WindowMaker) -> None:
    """Where restarts are long it needs no gain; where they take a minute the sentence is that of any other change."""
    window = make_window(load=240.0, parallelism=(4, 2))
    said = "the guardrails do not let the present 6 subtasks stay"
    forced, free = (decide(window, sure, JobSettings(job="sim/chain", restart_seconds=each), seed=0) for each in (300.0, 60.0))
    assert said in forced.reason
    assert isinstance(forced.compared, ChangeScore)
    assert forced.compared.gain_needed == 0.0
    assert said not in free.reason


def test_a_hold_that_no_smaller_size_was_compared_for_says_why(sure: SurePolicy, make_window: WindowMaker) -> None:
    """The job is young, or calm while its load falls; a minute later, or once it has fallen, the same job shrinks."""

    def told(known: int, fell_minutes_ago: int) -> Decision:
        hours = np.full(192, 400.0, dtype=np.float32)
        window = make_window(load=400.0, parallelism=(16, 8), known=known, hourly_load=hours if known == 60 else None)
        for figure in ("records_in", "records_out", "busy_ms"):
            window.figures[window.window_minutes - fell_minutes_ago :, :, FIGURE[figure]] /= 4.0
        return decide(
            replace(window, hourly_peak=window.hourly_load), sure, JobSettings(job="sim/chain", parallelism_max=20), seed=0
        )

    young, grown = told(29, 29), told(30, 30)
    assert (young.action, grown.action) == ("hold", "act")
    assert "no task shrinks before its load is known for 30 minutes, and no larger size should score better" in young.reason
    falling, fallen = told(60, 5), told(60, 15)
    assert (falling.action, fallen.action) == ("hold", "act")
    assert "no task shrinks while the load still falls, and no larger size should score better" in falling.reason


def test_on_a_real_engine_an_unknown_restart_counts_as_long_and_is_said_to_be_assumed(
    sure: SurePolicy, make_window: WindowMaker
) -> None:
    """As three minutes are; growth in an emergency does not wait for that. The simulated engine keeps its minute."""

    def told(load: float, engine: str, restart_ms: int | None = None, parallelism: tuple[int, int] = (8, 8)) -> Decision:
        window = make_window(load=load, parallelism=parallelism)
        topology = msgspec.structs.replace(window.topology, engine=engine, restart_ms=restart_ms)
        return decide(replace(window, topology=topology), sure, JobSettings(job="sim/chain", parallelism_max=20), seed=0)

    unknown, known = told(100.0, "kafka"), told(100.0, "kafka", 180_000)
    assert unknown.compared == known.compared != told(100.0, "kafka", 1_000).compared
    assert "3 min without service, assumed until restarts are measured" in unknown.reason
    assert "with the change charged with 1 s without service, " in told(100.0, "kafka", 1_000).reason
    assert "charged with less than 1 s without service, " in told(100.0, "kafka", 300).reason
    assert "charged with 40 s without service, " in told(100.0, "kafka", 40_000).reason
    assert "assumed" not in known.reason + told(100.0, "simulated").reason
    stays = told(250.0, "kafka", parallelism=(7, 4))
    assert stays.action == "hold"
    assert "charged with 3 min without service, assumed until restarts are measured" in stays.reason
    assert unknown.action == "act", "a job with four times the subtasks that it needs need not stay so"


@pytest.mark.parametrize(("load", "words"), [(0.0, "no record comes, so"), (20.0, "that is next to no work, so")])
def test_a_job_of_little_work_goes_to_its_least_and_many_records_are_not_called_none(
    sure: SurePolicy, make_window: WindowMaker, load: float, words: str
) -> None:
    """Twenty records a minute were called "next to nothing" that comes; it is their work that is."""
    window = make_window(load=load, parallelism=(4, 4))
    topology = msgspec.structs.replace(window.topology, engine="kafka")
    decision = decide(replace(window, topology=topology), sure, JobSettings(job="sim/chain", parallelism_max=20), seed=0)
    assert decision.action == "act"
    assert f": {words} the fewest subtasks that the limits allow are enough." in decision.reason


@pytest.mark.parametrize(("load", "cut"), [(400.0, True), (80.0, False)])
def test_a_plan_beyond_the_step_is_kept_beside_what_the_step_left(
    sure: SurePolicy, make_window: WindowMaker, load: float, cut: bool
) -> None:
    """In an overload more than twice a size may be planned: the decision has the plan's size and the guardrail's."""
    decision = decide(make_window(load=load, parallelism=(2, 2)), sure, JobSettings(job="sim/chain"), seed=0)
    assert any(task.proposed > 2 * task.current for task in decision.tasks) == cut
    assert ("max_step" in decision.reason) == cut


def test_what_the_load_is_expected_to_be_is_part_of_the_record(sure: SurePolicy) -> None:
    """Stage by stage, with how sure it is; a rule that only looks back says nothing."""
    window = branching_window()
    settings = JobSettings(job=window.job)
    made = decode(encode_message(decide(window, sure, settings, seed=0)), Decision)
    outlook = sure.card.base.outlook
    assert isinstance(made.outlook, LoadOutlook)
    assert made.outlook.stage_minutes == outlook.stage_minutes
    assert len(made.outlook.means) == len(made.outlook.spread) == outlook.stages
    assert f"Expecting {min(made.outlook.means):.0f} to {max(made.outlook.means):.0f} records" in made.reason
    ahead = decide(window, load_policy("forecast"), settings, seed=0).outlook
    assert isinstance(ahead, LoadOutlook)
    assert (len(ahead.means), ahead.spread) == (1, ())
    assert decide(window, load_policy("ds2"), settings, seed=0).outlook is None


@pytest.mark.parametrize("engine", ["kafka", "flink"])
@pytest.mark.parametrize(("things", "busy", "begin", "times"), [(60, 4.0, 6, 2.5), (24, 3.0, 4, 2.5), (128, 8.0, 11, 2.0)])
def test_a_job_that_never_rests_grows_though_nobody_knows_what_waits(
    engine: str, things: int, busy: float, begin: int, times: float
) -> None:
    """What it reads is what it gets through, and says of a load that rose after calm hours only that it is as high at least."""
    cell = Cell(engine, things, busy, 0.02, begin, seed=1, rise=(120, times), hidden=True)
    course = run(cell, load_policy("sure"), 300)
    behind = [waits > 1_000.0 * busy * times for waits in course.waiting]
    assert sum(behind) <= 40
    assert course.sizes[-1] <= 2.5 * busy * times, "and gives back what it had to catch up with"
