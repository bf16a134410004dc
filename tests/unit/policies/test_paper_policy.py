"""From the paper's actions to ratios: what a card says of the rules its network was trained under."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from reproductions.sure.environment import REACH, asked_for, terms_of
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.rounding import round_half_up
from surescale.contracts.windows import Float32
from surescale.policies.answer import RawAnswer
from surescale.policies.decide import decide
from surescale.policies.features import Encoded
from surescale.policies.graph import JobGraph
from surescale.policies.paper.models import ModelOutput
from surescale.policies.paper.policy import PaperPolicy
from surescale.policies.policy import ask
from surescale.policies.question import Question
from surescale.policies.registry import SHIPPED, Unavailable, load_policy
from tests.unit.policies.conftest import END_MS, WindowMaker, branching_window

ACTIONS = np.array([0.0, -1.0, -0.9, -0.44, 0.05, 0.3, 0.449, 0.46, 0.899, 0.9, 0.97, 1.0], dtype=np.float32)
JOB = JobSettings(job="sim/chain", parallelism_max=100)


class Acting:
    """Stands for a network with given actions."""

    def __init__(self, action: Float32) -> None:
        self.action = action

    def act(self, encoded: Encoded, graph: JobGraph, seeds: list[int]) -> ModelOutput:
        """Return them."""
        return ModelOutput(self.action[None, : len(graph.tasks)])


def acting(*actions: float, **changes: object) -> PaperPolicy:
    """Return the shipped package with given actions and a changed card."""
    opened = load_policy("sure-paper")
    assert isinstance(opened, PaperPolicy)
    card = msgspec.structs.replace(opened.package.card, **changes)
    return replace(opened, package=replace(opened.package, card=card), model=Acting(np.array(actions, dtype=np.float32)))


def test_it_tells_what_it_looked_at() -> None:
    """Every real task looked at some minutes of the window, in time order, and at tasks of its own job; never at unknown ones."""
    window, settings = branching_window(4), JobSettings(job="sim/y")
    window.figures[:53] = np.nan
    answer = ask(load_policy("sure-paper"), Question.of(window, settings, 0))
    assert isinstance(answer, RawAnswer)
    assert answer.looked_at[0] == ()
    for snapshots in answer.looked_at[1:5]:
        ends = [snapshot.minute_end_ms for snapshot in snapshots]
        assert len(ends) == 7
        assert ends == sorted(ends)
        assert END_MS - 6 * 60_000 <= ends[0] <= ends[-1] <= END_MS
        assert 0.0 < sum(snapshot.weight for snapshot in snapshots) <= 1.0 + 1e-3
        assert all(set(snapshot.neighbours) <= set("slmrjz") for snapshot in snapshots)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10])
@pytest.mark.parametrize(("mode", "changes"), [("clean", {}), ("compat", {"reach": REACH, "rounding": "towards-zero"})])
def test_a_package_asks_for_what_its_training_made_of_an_action(
    make_window: WindowMaker, mode: str, changes: dict[str, object], size: int
) -> None:
    """In ``compat`` .9 doubles a task and changes are cut towards zero; served as ``clean`` they would be other sizes."""
    window = make_window(parallelism=(size,) * 10, service_minutes=(1e-6,) * 10, queued=(0.0,) * 10)
    current = np.array([spec.parallelism for spec in window.topology.tasks])
    answer = ask(acting(*ACTIONS, **changes), Question.of(window, JOB, 0))
    wanted = asked_for(ACTIONS.astype(np.float64)[None], current[None], terms_of(mode))[0]
    assert answer.wanted.tolist() == wanted.tolist()
    assert [round_half_up(p * r) for p, r in zip(current, answer.ratios, strict=True)] == wanted.tolist()


def test_an_action_of_compat_doubles_a_task_that_has_one(make_window: WindowMaker) -> None:
    """Without the card's reach .9 would be a ratio of 1.9, and 1 subtask cut towards zero stays 1."""
    window = make_window(parallelism=(1, 1))
    compat = acting(0, 0.91, 0.6, 0, reach=REACH, rounding="towards-zero")
    assert [task.desired for task in decide(window, compat, JOB, seed=0).tasks] == [1, 2, 1, 1]


def carded(tmp_path: Path, change: dict[str, object], mode: str) -> object:
    """Load the shipped package as one that was trained in a mode and whose card has other fields."""
    shutil.copytree(SHIPPED / "sure-paper", tmp_path / "sure-paper")
    path = tmp_path / "sure-paper" / "card.json"
    card = json.loads(path.read_text()) | change
    card["training"]["settings"]["mode"] = mode
    path.write_text(json.dumps(card))
    return load_policy("sure-paper", str(tmp_path))


def test_a_card_of_compat_that_does_not_say_its_reach_is_refused(tmp_path: Path) -> None:
    """Packages exported before there was the field would be served without it."""
    policy = carded(tmp_path, {}, "compat")
    assert isinstance(policy, Unavailable)
    assert "lacks reach" in policy.reason
    assert "export its run again" in policy.reason


def test_a_card_of_compat_with_its_reach_is_served(tmp_path: Path) -> None:
    """The numbers on the card are all that serving needs."""
    policy = carded(tmp_path, {"reach": 0.9, "rounding": "towards-zero"}, "compat")
    assert isinstance(policy, PaperPolicy)
    assert policy.package.card.reach == 0.9


@pytest.mark.parametrize(("field", "value"), [("reach", 0.0), ("reach", 1.1), ("rounding", "up")])
def test_a_reach_that_means_nothing_is_refused(tmp_path: Path, field: str, value: object) -> None:
    """Actions lie in [-1, 1]."""
    policy = carded(tmp_path, {field: value}, "clean")
    assert isinstance(policy, Unavailable)
    assert f"$.{field}" in policy.reason


def test_a_task_that_never_reported_stays_as_it_is(make_window: WindowMaker) -> None:
    """What a network makes of no figures at all is no wish."""
    window = make_window(parallelism=(4, 4))
    window.figures[:, 2] = np.nan
    assert ask(acting(0.0, 0.5, 0.5, 0.0), Question.of(window, JOB, 0)).ratios.tolist() == [1.0, 1.5, 1.0, 1.0]


@pytest.mark.parametrize("action", [1e30, -1e30, 1.0000001, -1.0000001])
def test_an_action_beyond_its_range_is_the_end_of_the_range(make_window: WindowMaker, action: float) -> None:
    """A ratio never leaves (0, 2]."""
    answer = ask(acting(0, action, 0, 0), Question.of(make_window(), JOB, 0))
    assert 0 < answer.ratios[1] <= 2
