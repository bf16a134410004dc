"""The learned policy as it ships: answers, explanations, and every way in which the rule has to take over."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from contracts.decisions import Compared, Decision, LoadOutlook
from contracts.job_settings import JobSettings
from contracts.messages import JobTopology, TaskSpec
from contracts.windows import FIGURES, Window, blank_figures
from contracts.wire import decode
from contracts.wire import encode as encode_message
from policies.answer import PolicyFailed, RawAnswer
from policies.decide import decide
from policies.features import encode
from policies.graph import job_graph
from policies.nvss import look, newest_minute, subgraphs
from policies.paper.models import WholeModel
from policies.policy import ask
from policies.question import Question
from policies.registry import SHIPPED, Unavailable, load_policy, policy_names
from policies.scores import read_scores
from policies.sure.policy import SurePolicy, run_in_chunks
from tests.unit.policies.conftest import END_MS, WindowMaker


@pytest.fixture(scope="module")
def policy() -> SurePolicy:
    """Return the shipped model."""
    loaded = load_policy("sure")
    assert isinstance(loaded, SurePolicy), loaded
    return loaded


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a folder with a copy of the shipped package, free to be damaged."""
    shutil.copytree(SHIPPED / "sure", tmp_path / "sure")
    return tmp_path


def branching_window(seed: int = 0, extra: tuple[TaskSpec, ...] = (), order: tuple[int, ...] | None = None) -> Window:
    """Return a window of two branches that meet, each task with figures of its own; ``extra`` tasks never report."""
    edges = {"s": (), "l": ("s",), "m": ("l",), "r": ("s",), "j": ("m", "r"), "z": ("j",)}
    specs = [TaskSpec(task=t, upstream=up, parallelism=1 if t in "sz" else 3, scalable=t not in "sz") for t, up in edges.items()]
    generator = np.random.default_rng(seed)
    service = np.array([0, 0.01, 0.02, 0.015, 0.01, 0])
    load = generator.uniform(100, 200, size=(60, 1)) * np.ones(6)
    sizes = np.array([spec.parallelism for spec in specs])
    waiting = generator.uniform(0, 5, size=(60, 6))
    figures = blank_figures(60, 6)
    for column, values in {
        0: load, 1: load, 4: load * service * 60_000, 7: waiting, 8: waiting, 9: sizes + 0 * load, 14: 1 + 0 * load,
    }.items():  # fmt: skip
        figures[..., column] = values
    figures[..., 11:13] = np.nan
    figures = np.concatenate([figures, np.full((60, len(extra), len(FIGURES)), np.nan, dtype=np.float32)], axis=1)
    tasks = [*specs, *extra]
    places = list(order) if order else list(range(len(tasks)))
    topology = JobTopology(job="sim/y", version=1, at_ms=0, tasks=tuple(tasks[i] for i in places))
    return Window("sim/y", END_MS, figures[:, places], topology, generator.uniform(90, 220, 192).astype(np.float32))


SETTINGS = JobSettings(job="sim/y")


def sizes_wanted(policy: SurePolicy, window: Window) -> np.ndarray:
    """Return the network's raw outputs per task, [N, 2]."""
    graph = job_graph(window.topology.tasks)
    encoded = encode(window.figures, graph, np.array(window.window_end_ms), window.hourly_load)
    return policy.run(encoded, graph)[2]


def test_the_shipped_model_loads_and_is_listed(policy: SurePolicy) -> None:
    """Its card states its terms; its scores lie beside the card."""
    assert set(policy_names()) >= {"target-utilisation", "static", "hold", "forecast", "sure"}
    scores = read_scores(SHIPPED / "sure")
    assert scores is not None
    assert all(scores.policy in job.policies for job in scores.jobs.values())
    assert policy.card.terms
    assert policy.span_minutes == 10
    assert sum(file.stat().st_size for file in (SHIPPED / "sure").iterdir()) < 1_000_000


@pytest.mark.parametrize("file", ["sampler.onnx", "policy.onnx"])
def test_the_graphs_carry_no_traces_of_the_machine_that_made_them(file: str) -> None:
    """Exporters write stack traces into graphs; ours are stripped."""
    assert b".py" not in (SHIPPED / "sure" / file).read_bytes()


def test_it_answers_with_sizes_and_what_it_looked_at(policy: SurePolicy) -> None:
    """Every real task looked at some minutes of the window, in time order, and at tasks of its own job."""
    answer = ask(policy, Question.of(branching_window(), SETTINGS, 0))
    assert isinstance(answer, RawAnswer)
    assert answer.wanted.dtype == np.int64
    assert (answer.wanted >= 1).all()
    assert answer.looked_at[0] == ()
    for snapshots in answer.looked_at[1:5]:
        ends = [snapshot.minute_end_ms for snapshot in snapshots]
        assert ends == sorted(ends)
        assert END_MS - 60 * 60_000 < ends[0] <= ends[-1] <= END_MS
        assert all(set(snapshot.neighbours) <= set("slmrjz") for snapshot in snapshots)


def test_a_decision_is_the_same_bytes_every_time(policy: SurePolicy) -> None:
    """Also from a model that was loaded again."""
    window = branching_window(3)
    first, second = (decide(window, model, SETTINGS, seed=1) for model in (policy, load_policy("sure")))
    assert encode_message(first) == encode_message(second)
    assert first.policy.name == "sure"


def test_the_jobs_objective_is_heard_and_told(policy: SurePolicy) -> None:
    """The scores are of the reward that the owner asks for; balanced is, byte for byte, what nothing set is."""
    window = branching_window(3)
    none, balanced, cost, latency = (
        decide(window, policy, JobSettings(job="sim/y", objective=objective), seed=1)
        for objective in (None, "balanced", "cost", "latency")
    )
    assert encode_message(none) == encode_message(balanced)
    assert isinstance(cost.compared, Compared)
    assert isinstance(latency.compared, Compared)
    assert cost.compared.unit.startswith("0.7 x utilisation - 0.3 x minutes of latency")
    assert latency.compared.unit.startswith("0.3 x utilisation - 0.7 x minutes of latency")
    assert cost.compared.subtasks <= latency.compared.subtasks


def test_permuted_tasks_get_permuted_answers(policy: SurePolicy) -> None:
    """The order in which an engine lists its tasks means nothing."""
    order = (4, 2, 0, 5, 1, 3)
    np.testing.assert_allclose(
        sizes_wanted(policy, branching_window(1, order=order)), sizes_wanted(policy, branching_window(1))[list(order)], atol=1e-5
    )


def test_tasks_that_never_report_change_nothing_for_the_others(policy: SurePolicy) -> None:
    """Ten silent strangers in the job leave every other answer as it was."""
    strangers = tuple(TaskSpec(task=f"pad{i}", scalable=False) for i in range(10))
    padded = sizes_wanted(policy, branching_window(2, extra=strangers))
    np.testing.assert_allclose(padded[:6], sizes_wanted(policy, branching_window(2)), atol=1e-6)


def test_masked_minutes_are_never_looked_at(policy: SurePolicy) -> None:
    """With only the last seven minutes known, all anchors lie in them."""
    window = branching_window(4)
    window.figures[:53] = np.nan
    answer = ask(policy, Question.of(window, SETTINGS, 0))
    assert isinstance(answer, RawAnswer)
    assert {len(snapshots) for snapshots in answer.looked_at[1:5]} == {7}
    assert min(snapshot.minute_end_ms for snapshot in answer.looked_at[1]) == END_MS - 6 * 60_000


def test_a_change_by_hindsight_is_told_in_full(policy: SurePolicy, make_window: WindowMaker) -> None:
    """Its sentence is the longest there is; one beyond what the field holds would have the rescaler refuse the decision."""
    hours = np.full(192, 1_000.0, dtype=np.float32)
    window = make_window(load=1_000.0, parallelism=(90, 60), hourly_load=hours)
    roomy = JobSettings(job="sim/chain", parallelism_max=100)
    decision = decide(replace(window, hourly_peak=1.05 * hours), policy, roomy, seed=0)
    assert decision.action == "act"
    assert "taking the last days into account" in decision.reason
    assert "…" not in decision.reason
    assert decode(encode_message(decision), Decision) == decision


@pytest.mark.parametrize(("load", "cut"), [(400.0, True), (80.0, False)])
def test_a_plan_beyond_the_step_is_kept_beside_what_the_step_left(
    policy: SurePolicy, make_window: WindowMaker, load: float, cut: bool
) -> None:
    """In an overload more than twice a size may be planned: the decision has the plan's size and the guardrail's."""
    decision = decide(make_window(load=load, parallelism=(2, 2)), policy, JobSettings(job="sim/chain"), seed=0)
    assert any(task.proposed > 2 * task.current for task in decision.tasks) == cut
    assert ("max_step" in decision.reason) == cut


def test_draws_follow_the_seed(policy: SurePolicy) -> None:
    """A stochastic policy answers alike for one seed and looks elsewhere for another."""
    drawing = replace(policy, stochastic=True)
    one, again, other = (ask(drawing, Question.of(branching_window(), SETTINGS, seed)) for seed in (1, 1, 2))
    assert one.looked_at == again.looked_at
    assert one.looked_at != other.looked_at


def test_wide_jobs_go_through_in_pieces(policy: SurePolicy) -> None:
    """Three hundred tasks answered in two pieces get what one piece would give."""
    specs = [TaskSpec(task="s", scalable=False), *(TaskSpec(task=f"t{i}", upstream=("s",)) for i in range(299))]
    graph = job_graph(specs)
    generator = np.random.default_rng(0)
    z = generator.normal(size=(20, 300, policy.card.hidden)).astype(np.float32)
    mask = np.ones((20, 300), dtype=np.bool_)
    parts = subgraphs(z, look(generator.normal(size=(20, 300, 2)).astype(np.float32), mask, graph, 4, 2), graph)
    now = z[newest_minute(mask), np.arange(300)]
    whole = policy.policy.run(None, {"sub_x": parts.x, "sub_linked": parts.linked, "sub_known": parts.known, "now": now})[0]
    np.testing.assert_allclose(run_in_chunks(policy.policy, parts, now), whole, atol=1e-6)


@pytest.mark.parametrize("file", ["sampler.onnx", "policy.onnx", "card.json"])
def test_a_missing_file_is_named(package: Path, file: str) -> None:
    """The rule takes over, and every decision says which file it misses."""
    (package / "sure" / file).unlink()
    policy = load_policy("sure", str(package))
    assert isinstance(policy, Unavailable)
    assert f"sure/{file} cannot be read" in policy.reason


@pytest.mark.parametrize("file", ["sampler.onnx", "policy.onnx"])
def test_a_damaged_graph_is_refused_by_its_checksum(package: Path, file: str) -> None:
    """One changed byte is enough."""
    path = package / "sure" / file
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    decision = decide(branching_window(), load_policy("sure", str(package)), SETTINGS, seed=0)
    assert decision.policy.name == "target-utilisation"
    assert f"{file} is damaged" in (decision.policy.fallback_reason or "")


def edited_card(package: Path, **changes: object) -> str:
    """Change fields of the card and return why the package is refused."""
    path = package / "sure" / "card.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    policy = load_policy("sure", str(package))
    assert isinstance(policy, Unavailable)
    return policy.reason


def test_a_model_of_other_features_is_refused(package: Path) -> None:
    """Numbers in other slots would mean other things."""
    assert "feature version 99" in edited_card(package, feature_version=99)


def test_a_card_of_another_format_is_refused(package: Path) -> None:
    """A card of an earlier surescale is distinguished from a damaged one."""
    assert "format 1; this version reads format 2" in edited_card(package, format=1)


def test_a_card_that_does_not_parse_names_the_field(package: Path) -> None:
    """The message leads to the mistake."""
    assert "span_minutes" in edited_card(package, span_minutes="ten")


def test_a_graph_that_is_no_onnx_is_refused(package: Path) -> None:
    """A right checksum does not make a model."""
    import hashlib

    (package / "sure" / "policy.onnx").write_bytes(b"not a model")
    files = json.loads((package / "sure" / "card.json").read_text())["files"]
    files["policy.onnx"] = hashlib.sha256(b"not a model").hexdigest()
    assert "cannot be run" in edited_card(package, files=files)


class BrokenGraph:
    """Stands for a policy graph whose weights have gone wrong."""

    def run(self, _names: object, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Answer NaN for every task."""
        return [np.full((len(inputs["now"]), 2), np.nan, dtype=np.float32)]


def test_nan_from_the_model_is_a_failure(policy: SurePolicy) -> None:
    """The rule takes over and says so."""
    decision = decide(branching_window(), replace(policy, policy=BrokenGraph()), SETTINGS, seed=0)
    assert decision.policy.name == "target-utilisation"
    assert decision.policy.fallback_reason == "the model answered a value that is not a number"


def test_a_graph_that_refuses_its_inputs_is_a_failure(policy: SurePolicy) -> None:
    """An error of the runtime ends in a decision by the rule, not in a crash."""
    swapped = replace(policy, sampler=policy.policy)
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
def test_hours_that_are_no_number_are_a_failure(policy: SurePolicy) -> None:
    """An infinite load stopped the agent: the plan looked up how long a record waits at a utilisation that is none."""
    window = branching_window()
    window.hourly_load[[-14, -38]] = np.inf
    assert ask(policy, Question.of(window, SETTINGS, 0)) == PolicyFailed(
        "what the window's figures lead to expect is not a number"
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_load_that_is_no_number_is_a_failure(policy: SurePolicy) -> None:
    """A plan over it would silently prefer holding forever."""
    window = branching_window()
    window.figures[-3, 0, 0] = np.inf
    assert isinstance(ask(policy, Question.of(window, SETTINGS, 0)), PolicyFailed)


class SilentGraph:
    """Stands for a graph that fails without a word."""

    def run(self, _names: object, _inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Fail."""
        raise ValueError


def test_an_error_without_a_message_is_named_by_its_kind(policy: SurePolicy) -> None:
    """There may be no first line to quote."""
    answer = ask(replace(policy, sampler=SilentGraph()), Question.of(branching_window(), SETTINGS, 0))
    assert answer == PolicyFailed("the model cannot be run: ValueError")


class OtherShape:
    """Stands for a graph that was exported from another network: its answers have other shapes."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.shapes = shapes

    def run(self, _names: object, _inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Answer zeros."""
        return [np.zeros(shape, dtype=np.float32) for shape in self.shapes]


@pytest.mark.parametrize("shapes", [[], [(1, 60), (1, 60, 6, 2), (1,)], [(1, 60, 6, 32), (1, 6, 2), (1,)], [(), (), ()]])
def test_a_sampler_of_other_shapes_is_a_failure(policy: SurePolicy, shapes: list[tuple[int, ...]]) -> None:
    """Whatever numpy makes of them, it is no crash."""
    answer = ask(replace(policy, sampler=OtherShape(*shapes)), Question.of(branching_window(), SETTINGS, 0))
    assert isinstance(answer, PolicyFailed)


@pytest.mark.parametrize("shape", [(6, 3), (6,), (5, 2)])
def test_outputs_of_another_shape_are_a_failure(policy: SurePolicy, shape: tuple[int, ...]) -> None:
    """Two numbers per task, or the wrong ones would be taken for them."""
    answer = ask(replace(policy, policy=OtherShape(shape)), Question.of(branching_window(), SETTINGS, 0))
    assert answer == PolicyFailed(f"the model cannot be run: it answers 6 tasks in the shape {shape}")


def test_actions_of_another_shape_are_a_failure() -> None:
    """The paper's policy answers one number per task."""
    opened = load_policy("sure-paper")
    answer = ask(replace(opened, model=WholeModel(OtherShape((1, 5)))), Question.of(branching_window(), SETTINGS, 0))
    assert answer == PolicyFailed("the model answered 6 tasks in the shape (1, 5)")


def test_stale_figures_are_not_answered(policy: SurePolicy) -> None:
    """Nothing new for more than three minutes: the model steps back."""
    window = branching_window()
    window.figures[-6:] = np.nan
    decision = decide(window, policy, SETTINGS, seed=0)
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


def test_the_forecast_rule_reads_its_constants_from_the_model_package(package: Path, make_window: WindowMaker) -> None:
    """It comes with the package whose base it uses, and is missing without it."""
    rule = load_policy("forecast", str(package))
    decision = decide(make_window(load=250.0), rule, JobSettings(job="sim/chain"), seed=0)
    assert decision.policy.name == "forecast"
    assert "Sized for" in decision.reason
    shutil.rmtree(package / "sure")
    assert isinstance(load_policy("forecast", str(package)), Unavailable)


def test_what_the_load_is_expected_to_be_is_part_of_the_record(policy: SurePolicy) -> None:
    """Stage by stage, with how sure it is; a rule that only looks back says nothing."""
    window = branching_window()
    settings = JobSettings(job=window.job)
    made = decode(encode_message(decide(window, policy, settings, seed=0)), Decision)
    outlook = policy.card.base.outlook
    assert isinstance(made.outlook, LoadOutlook)
    assert made.outlook.stage_minutes == outlook.stage_minutes
    assert len(made.outlook.means) == len(made.outlook.spread) == outlook.stages
    assert f"Expecting {min(made.outlook.means):.0f} to {max(made.outlook.means):.0f} records" in made.reason
    ahead = decide(window, load_policy("forecast"), settings, seed=0).outlook
    assert isinstance(ahead, LoadOutlook)
    assert (len(ahead.means), ahead.spread) == (1, ())
    assert decide(window, load_policy("ds2"), settings, seed=0).outlook is UNSET
