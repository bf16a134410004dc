"""REINFORCE on branches: signs, mirrored draws, and a run that resumes to the same weights."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: make install-train")

from benchmarks.archive import load_job  # noqa: E402
from reproductions.sure import results  # noqa: E402
from reproductions.sure import train as paper_train  # noqa: E402
from reproductions.sure.campaign import Item, continued, run_campaign  # noqa: E402
from reproductions.sure.environment import MODES, PaperMode, View, start, terms_of, week  # noqa: E402
from reproductions.sure.layers import ForwardPass  # noqa: E402
from reproductions.sure.objective import TrainingDiverged  # noqa: E402
from reproductions.sure.settings import PaperSettings, SettingRefused, changed_settings  # noqa: E402
from reproductions.sure.statistics import fit_statistics, spread_start  # noqa: E402
from reproductions.sure.train import (  # noqa: E402
    Loops,
    PaperRun,
    Torch,
    barrier,
    begin,
    beyond_limits,
    came_to,
    choice_loss,
    resume,
    save,
    train,
    update,
)
from surescale.simulation.load.workload import load_workload  # noqa: E402
from surescale.simulation.loops.rows import LoopRows  # noqa: E402
from tests.unit.reproductions.sure.cases import STATISTICS  # noqa: E402

CLARKNET = load_workload("clarknet")
JOB = load_job("j_2521346", CLARKNET)
SMALL = PaperSettings("SURE", ("j_2521346",), hidden=8, states=4, branches=4, anchors=3, updates_max=4)


def test_what_limits_cut_short_is_pulled_back_to_what_it_came_to() -> None:
    """Ten subtasks cannot grow: draws lie around 0, where the pull leads, however flat the tanh; within limits nothing pulls."""
    before = torch.tensor([[4.0, 0.5]], requires_grad=True)
    mean = torch.tanh(before)
    centre = came_to(mean.detach().double().numpy(), np.array([[10, 4]]), np.array([[10, 6]]), terms_of("clean"))
    beyond_limits(mean, centre).backward()
    assert centre[0, 0] == 0
    assert before.grad[0, 0] > 0.1
    assert before.grad[0, 1] == 0


def test_the_barrier_has_a_slope_even_where_the_tanh_is_flat() -> None:
    """Its slope in front of the tanh is twice the action."""
    before = torch.tensor([[3.0]], requires_grad=True)
    barrier(torch.tanh(before)).backward()
    assert float(before.grad) == pytest.approx(2 * np.tanh(3.0), rel=1e-3)


def test_by_the_score_the_better_of_two_draws_gains() -> None:
    """Equation 2 with the other draw as baseline: the loss falls as the odds of the draw rise whose action pays more."""
    run = begin(replace(SMALL, estimator="score"), STATISTICS)
    loops = Loops.begin(run, JOB, week(CLARKNET, 1))
    current = loops.rows.observe().current
    logs = [torch.zeros(len(current), requires_grad=True) for _ in range(2)]
    shrink, keep = (
        ForwardPass(torch.full(current.shape, mean), log_choice=log) for mean, log in zip((-0.9, 0.0), logs, strict=True)
    )
    choice_loss(loops, (shrink, keep), current, run.settings).backward()
    rewards = loops.try_out(np.stack([np.maximum(1, np.rint(current * 0.1).astype(np.int64)), current]), 3, 0.7)
    assert ((logs[1].grad < 0).numpy() == (rewards[1] > rewards[0])).all()
    assert (logs[0].grad == -logs[1].grad).all()


def test_an_update_by_the_score_moves_the_sampler() -> None:
    """Without straight-through gradients the sampler's weights still change by what draws paid."""
    run = begin(replace(SMALL, estimator="score"), STATISTICS)
    before = run.model.sampler.mu.weight.detach().clone()
    update(run, Loops.begin(run, JOB, week(CLARKNET, 1)))
    assert not torch.equal(run.model.sampler.mu.weight, before)


@pytest.mark.parametrize(("method", "alike"), [("SURE", False), ("TVW-RL", True)])
def test_drawn_actions_differ_from_the_best_and_follow_the_seed(method: str, alike: bool) -> None:
    """A wide Normal moves sizes at random, the same for the same seed; a joint policy moves all tasks of a row by one draw."""
    run = begin(replace(SMALL, method=method), STATISTICS)
    with torch.no_grad():
        run.model.log_std.fill_(0.0)
    view = View((rows := Loops.begin(run, JOB, week(CLARKNET, 1)).rows).observe(), rows.graph, JOB, rows.terms)
    view.observed.current[:] = 5
    one, same, other = (Torch(run.model, np.random.default_rng(seed)).sizes(view) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert (len(np.unique(one[0, JOB.scalable])) == 1) is alike


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("estimator", "guess", "estimator=guess: Invalid enum value 'guess'"),
        ("hidden", "many", "hidden=many: Expected `int`"),
        ("colour", "red", "colour is not a training setting; choose from .*gnn"),
        ("seed", "3", "seed is not a training setting"),
        ("hidden", "0", "hidden=0: Expected `int` >= 1"),
        ("branches", "41", "branches=41: Expected `int` that's a multiple of 2"),
        ("information_every", "0", "information_every=0: Expected `int` >= 1"),
        ("learning_rate", "nan", "learning_rate=nan: Expected `float` > 0.0"),
        ("tau_last", "0", "tau_last=0: Expected `float` > 0.0"),
        ("states", "1", "states=1: .* use two or more, or 0"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(name: str, value: str, told: str) -> None:
    """The message names the field and what is wrong with the value, or the fields there are."""
    with pytest.raises(SettingRefused, match=told):
        changed_settings(SMALL, {name: value})


def test_branches_start_in_the_state_of_their_loop() -> None:
    """Doing the same in all branches pays the same in all of them, and trying out leaves the loops where they are."""
    run = begin(SMALL, STATISTICS)
    loops = Loops.begin(run, JOB, week(CLARKNET, 1))
    before = loops.rows.observe()
    rewards = loops.try_out(np.broadcast_to(before.current, (4, *before.current.shape)))
    np.testing.assert_array_equal(rewards, np.broadcast_to(rewards[:1], rewards.shape))
    np.testing.assert_array_equal(loops.rows.observe().figures, before.figures)


@pytest.mark.parametrize(("mode", "least_loss"), [("clean", 5.0), ("compat", 0.1)])
def test_delay_beyond_ten_minutes_costs_in_training_in_both_modes(mode: PaperMode, least_loss: float) -> None:
    """Two hours at one subtask a task leave the job hours behind, which neither mode's reward shows in full."""
    run = begin(replace(SMALL, mode=mode), STATISTICS)
    loops = Loops.begin(run, JOB, week(CLARKNET, 1))
    least, ample = (np.full(loops.rows.observe().current.shape, size) for size in (1, 7))
    rewards = loops.try_out(np.stack([least, ample, ample, ample]), spans=2, discount=0.7)
    assert (rewards[0] < rewards[1] - least_loss).all()
    np.testing.assert_array_equal(rewards[1], rewards[2])


def test_in_compat_the_way_out_of_an_overload_pays_the_more_the_longer_it_lasts() -> None:
    """The hour's own reward says the reverse: the larger sizes are, the more late batches leave in it."""
    rows = LoopRows(JOB, week(CLARKNET, 1), np.array([660]), start(JOB, 1), terms_of("compat"))
    least, ample = np.ones_like(start(JOB, 1)), start(JOB, 1)
    charged, rewarded = [], []
    for _ in range(6):
        one, all_of_them = Loops(rows).try_out(np.stack([least, ample]))[:, 0].tolist()
        charged.append(all_of_them - one)
        spans = [twin.reward(twin.step(sizes))[0] for twin, sizes in ((rows.copy(), least), (rows.copy(), ample))]
        rewarded.append(spans[1] - spans[0])
        rows.step(least)
    assert charged == sorted(charged)
    assert charged[-1] > 1.0
    assert rewarded[-1] < 0.5 * rewarded[0]


def test_draws_narrow_with_the_run_in_compat_and_are_learned_in_clean() -> None:
    """From 0.3 to 0.1 whatever rewards say there; here by their gradient."""
    runs = {mode: begin(replace(SMALL, mode=mode), STATISTICS) for mode in MODES}
    for run in runs.values():
        run.update = 2
        update(run, Loops.begin(run, JOB, week(CLARKNET, 1)))
    assert float(runs["compat"].model.log_std.detach().exp()) == pytest.approx(0.2)
    assert runs["compat"].model.log_std.grad is None
    assert float(runs["clean"].model.log_std.grad) != 0.0


class Cut(Exception):
    """Stands for a lost machine."""


def cut_after_three(folder: Path) -> Callable[[PaperRun], None]:
    """Return what saves a run at its third validation and ends it there."""

    def tell(run: PaperRun) -> None:
        if run.validations == 3:
            save(run, folder)
            raise Cut

    return tell


@pytest.mark.parametrize("changes", [{}, {"mode": "compat", "method": "w/o NVSS"}])
def test_a_run_cut_amid_an_episode_ends_at_the_weights_of_an_uncut_one(
    changes: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Network, optimiser, generators and the way of the loops are all in the checkpoint: the same to the last bit."""
    monkeypatch.setattr(paper_train, "VALIDATION_DECISIONS", 2)
    settings = replace(SMALL, updates_max=8, episode=5, **changes)
    whole, half = begin(settings, STATISTICS), begin(settings, STATISTICS)
    train(whole, None, lambda _: None)
    with pytest.raises(Cut):
        train(half, None, cut_after_three(tmp_path))
    again = resume(tmp_path)
    assert 0 < again.loops.age < 5
    train(again, None, lambda _: None)
    assert (again.best, again.episodes) == (whole.best, whole.episodes)
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name]), name


def test_a_run_whose_loss_is_no_number_stops_with_its_weights_as_they_were() -> None:
    """The message names method, job, seed and update, and what to try; no step is taken."""
    run = begin(SMALL, STATISTICS)
    with torch.no_grad():
        run.model.policy.head.out.bias.fill_(float("nan"))
    before = run.model.policy.head.out.weight.detach().clone()
    with pytest.raises(TrainingDiverged, match=r"SURE on j_2521346, clean, seed 0, update 1: .*nan.*learning_rate"):
        update(run, Loops.begin(run, JOB, week(CLARKNET, 1)))
    assert torch.equal(run.model.policy.head.out.weight, before)
    assert run.update == 0


def test_a_campaign_does_not_mix_settings(tmp_path: Path) -> None:
    """A run with other settings, finished or not, is not taken for the one asked for; another budget does not matter."""
    item = Item("SURE", "j_2521346", "clean", 0, anchors=3)
    save(begin(item.settings(SMALL), STATISTICS), item.folder(tmp_path))
    assert continued(item.folder(tmp_path), item.settings(replace(SMALL, budget_s=77.0))).settings.budget_s == 77.0
    with pytest.raises(SettingRefused, match=r"started with gnn=sage, not gin; .* --out"):
        continued(item.folder(tmp_path), item.settings(replace(SMALL, gnn="gin")))
    (item.folder(tmp_path) / results.FILE).write_text("{}")
    with pytest.raises(SettingRefused, match="started with updates_max=4, not 9"):
        run_campaign([item], tmp_path, replace(SMALL, updates_max=9), lambda _: None)
    run_campaign([item], tmp_path, SMALL, lambda _: None)


def test_what_began_better_than_it_became_stays_as_it_began() -> None:
    """A learning rate that throws the network into overload: the weights before training are the best there are."""
    large = ("j_3803524",)  # what it starts with holds all week
    run = begin(replace(SMALL, method="TVW-RL", jobs=large, learning_rate=3.0), STATISTICS)
    before = {name: weight.clone() for name, weight in run.model.state_dict().items()}
    train(run, None, lambda _: None)
    assert run.validations == 7
    assert not all(torch.equal(weight, run.model.state_dict()[name]) for name, weight in before.items())
    assert all(torch.equal(weight, run.best_state[name]) for name, weight in before.items())


def test_loops_begin_with_sizes_of_all_kinds() -> None:
    """A third as every run begins; all within the bounds."""
    sizes = spread_start(JOB, week(CLARKNET, 1), np.arange(60, 69), np.random.default_rng(0))
    assert (sizes[::3] == JOB.start_parallelism).all()
    assert len({tuple(row) for row in sizes.tolist()}) >= 5
    assert sizes.min() >= 1
    assert sizes.max() <= 10


def test_statistics_cover_the_papers_slots() -> None:
    """27 of them, none with a spread of nothing."""
    found = fit_statistics(CLARKNET, "clean")
    assert len(found.mean) == len(found.std) == 27
    assert min(found.std) >= 0.05
