"""Every way in which a package fails to answer, so that the rule has to take over."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from surescale.contracts.job_settings import JobSettings
from surescale.policies.answer import PolicyFailed
from surescale.policies.decide import decide
from surescale.policies.paper.models import WholeModel
from surescale.policies.paper.policy import PaperPolicy
from surescale.policies.policy import ask
from surescale.policies.question import Question
from surescale.policies.registry import load_policy
from surescale.policies.sure.policy import SurePolicy
from tests.unit.policies.conftest import branching_window

SETTINGS = JobSettings(job="sim/y")


def with_model(**graphs: object) -> PaperPolicy:
    """Return the shipped policy of the paper with other graphs."""
    opened = load_policy("sure-paper")
    assert isinstance(opened, PaperPolicy)
    return replace(opened, model=replace(opened.model, **graphs))


def test_nan_from_the_model_is_a_failure() -> None:
    """The rule takes over and says so."""
    decision = decide(branching_window(), with_model(policy=OtherShape((6,), fill=np.nan)), SETTINGS, seed=0)
    assert decision.policy.name == "target-utilisation"
    assert decision.policy.fallback_reason == "the model answered a value that is not a number"


def test_a_graph_that_refuses_its_inputs_is_a_failure() -> None:
    """An error of the runtime ends in a decision by the rule, not in a crash."""
    opened = load_policy("sure-paper")
    answer = ask(with_model(sampler=opened.model.policy), Question.of(branching_window(), SETTINGS, 0))
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


def test_nan_among_the_scores_is_a_failure() -> None:
    """It would choose at random, and stand in the decision as a weight that no reader accepts."""
    blind = with_model(sampler=BlindSampler(load_policy("sure-paper").model.sampler))
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


def test_an_error_without_a_message_is_named_by_its_kind() -> None:
    """There may be no first line to quote."""
    answer = ask(with_model(sampler=SilentGraph()), Question.of(branching_window(), SETTINGS, 0))
    assert answer == PolicyFailed("the model cannot be run: ValueError")


class OtherShape:
    """Stands for a graph that was exported from another network: its answers have other shapes."""

    def __init__(self, *shapes: tuple[int, ...], fill: float = 0.0) -> None:
        self.shapes, self.fill = shapes, fill

    def run(self, _names: object, _inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Answer the same number everywhere."""
        return [np.full(shape, self.fill, dtype=np.float32) for shape in self.shapes]


@pytest.mark.parametrize("shapes", [[], [(1, 60), (1, 60, 6, 2), (1,)], [(1, 60, 6, 32), (1, 6, 2), (1,)], [(), (), ()]])
def test_a_sampler_of_other_shapes_is_a_failure(shapes: list[tuple[int, ...]]) -> None:
    """Whatever numpy makes of them, it is no crash."""
    answer = ask(with_model(sampler=OtherShape(*shapes)), Question.of(branching_window(), SETTINGS, 0))
    assert isinstance(answer, PolicyFailed)


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
