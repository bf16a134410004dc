"""Every way in which the learned policy fails to answer, so that the rule has to take over."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from surescale.contracts.job_settings import JobSettings
from surescale.policies.answer import PolicyFailed
from surescale.policies.decide import decide
from surescale.policies.paper.models import WholeModel
from surescale.policies.policy import ask
from surescale.policies.question import Question
from surescale.policies.registry import load_policy
from surescale.policies.sure.policy import SurePolicy
from tests.unit.policies.conftest import branching_window

SETTINGS = JobSettings(job="sim/y")


class BrokenGraph:
    """Stands for a policy graph whose weights have gone wrong."""

    def run(self, _names: object, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Answer NaN for every task."""
        return [np.full((len(inputs["now"]), 2), np.nan, dtype=np.float32)]


def test_nan_from_the_model_is_a_failure(sure: SurePolicy) -> None:
    """The rule takes over and says so."""
    decision = decide(branching_window(), replace(sure, policy=BrokenGraph()), SETTINGS, seed=0)
    assert decision.policy.name == "target-utilisation"
    assert decision.policy.fallback_reason == "the model answered a value that is not a number"


def test_a_graph_that_refuses_its_inputs_is_a_failure(sure: SurePolicy) -> None:
    """An error of the runtime ends in a decision by the rule, not in a crash."""
    swapped = replace(sure, sampler=sure.policy)
    answer = ask(swapped, Question.of(branching_window(), SETTINGS, 0))
    assert isinstance(answer, PolicyFailed)
    assert "cannot be run" in answer.reason


class BlindSampler:
    """Stands for a sampler whose scores have gone wrong, while its embeddings have not."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def run(self, names: object, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Answer NaN for one task-minute's score."""
        z, mu, *rest = self.sampler.run(names, inputs)
        mu[0, -1, 1] = np.nan
        return [z, mu, *rest]


@pytest.mark.parametrize("name", ["sure", "sure-paper"])
def test_nan_among_the_scores_is_a_failure(name: str) -> None:
    """It would choose at random, and stand in the decision as a weight that no reader accepts."""
    model = load_policy(name)
    if isinstance(model, SurePolicy):
        blind = replace(model, sampler=BlindSampler(model.sampler))
    else:
        blind = replace(model, model=replace(model.model, sampler=BlindSampler(model.model.sampler)))
    assert ask(blind, Question.of(branching_window(), SETTINGS, 0)) == PolicyFailed(
        "the model answered a value that is not a number"
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_hours_that_are_no_number_are_a_failure(sure: SurePolicy) -> None:
    """An infinite load stopped the agent: the plan looked up how long a record waits at a utilisation that is none."""
    window = branching_window()
    window.hourly_load[[-14, -38]] = np.inf
    assert ask(sure, Question.of(window, SETTINGS, 0)) == PolicyFailed("what the window's figures lead to expect is not a number")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_load_that_is_no_number_is_a_failure(sure: SurePolicy) -> None:
    """A plan over it would silently prefer holding forever."""
    window = branching_window()
    window.figures[-3, 0, 0] = np.inf
    assert isinstance(ask(sure, Question.of(window, SETTINGS, 0)), PolicyFailed)


class SilentGraph:
    """Stands for a graph that fails without a word."""

    def run(self, _names: object, _inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Fail."""
        raise ValueError


def test_an_error_without_a_message_is_named_by_its_kind(sure: SurePolicy) -> None:
    """There may be no first line to quote."""
    answer = ask(replace(sure, sampler=SilentGraph()), Question.of(branching_window(), SETTINGS, 0))
    assert answer == PolicyFailed("the model cannot be run: ValueError")


class OtherShape:
    """Stands for a graph that was exported from another network: its answers have other shapes."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.shapes = shapes

    def run(self, _names: object, _inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Answer zeros."""
        return [np.zeros(shape, dtype=np.float32) for shape in self.shapes]


@pytest.mark.parametrize("shapes", [[], [(1, 60), (1, 60, 6, 2), (1,)], [(1, 60, 6, 32), (1, 6, 2), (1,)], [(), (), ()]])
def test_a_sampler_of_other_shapes_is_a_failure(sure: SurePolicy, shapes: list[tuple[int, ...]]) -> None:
    """Whatever numpy makes of them, it is no crash."""
    answer = ask(replace(sure, sampler=OtherShape(*shapes)), Question.of(branching_window(), SETTINGS, 0))
    assert isinstance(answer, PolicyFailed)


@pytest.mark.parametrize("shape", [(6, 3), (6,), (5, 2)])
def test_outputs_of_another_shape_are_a_failure(sure: SurePolicy, shape: tuple[int, ...]) -> None:
    """Two numbers per task, or the wrong ones would be taken for them."""
    answer = ask(replace(sure, policy=OtherShape(shape)), Question.of(branching_window(), SETTINGS, 0))
    assert answer == PolicyFailed(f"the model cannot be run: it answers 6 tasks in the shape {shape}")


def test_actions_of_another_shape_are_a_failure() -> None:
    """The paper's policy answers one number per task."""
    opened = load_policy("sure-paper")
    answer = ask(replace(opened, model=WholeModel(OtherShape((1, 5)))), Question.of(branching_window(), SETTINGS, 0))
    assert answer == PolicyFailed("the model answered 6 tasks in the shape (1, 5)")


def test_stale_figures_are_not_answered(sure: SurePolicy) -> None:
    """Nothing new for more than three minutes: the model steps back."""
    window = branching_window()
    window.figures[-6:] = np.nan
    decision = decide(window, sure, SETTINGS, seed=0)
    assert decision.policy.name == "target-utilisation"
    assert "stale" in (decision.policy.fallback_reason or "")


@pytest.mark.parametrize("name", ["sure", "sure-paper"])
def test_a_window_longer_than_the_models_is_stale_by_its_newest_figures(name: str) -> None:
    """Figures of two hours ago are no answer to a model that looks back one."""
    window, model = branching_window(), load_policy(name)
    silent = np.full((model.package.card.window_minutes, *window.figures.shape[1:]), np.nan, dtype=np.float32)
    answer = ask(model, Question.of(replace(window, figures=np.concatenate([window.figures, silent])), SETTINGS, 0))
    assert isinstance(answer, PolicyFailed)
    assert f"nothing new for {model.package.card.window_minutes} minutes" in answer.reason
