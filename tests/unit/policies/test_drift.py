"""How far a window lies from the training: measured against the card's ranges, told in the decision, and acted on where asked."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from surescale.contracts.decisions import Decision, FeatureDrift
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import TaskSpec
from surescale.contracts.windows import FIGURE, Window
from surescale.contracts.wire import decode, encode
from surescale.policies.decide import decide
from surescale.policies.drift import Ranges, drift_of
from surescale.policies.features import SLOTS, SURE_WIDTH, WIDTH, Encoded
from surescale.policies.graph import job_graph
from surescale.policies.paper.policy import PaperPolicy
from surescale.policies.registry import SHIPPED, Unavailable, load_policy
from tests.unit.policies.conftest import branching_window

RANGES = Ranges(low=(0.0,) * WIDTH, high=(1.0,) * WIDTH, usual=0.02, windows=100)
JOB = "sim/branches"


@pytest.fixture(scope="module")
def policy() -> PaperPolicy:
    """The shipped policy of the paper."""
    loaded = load_policy("sure-paper")
    assert isinstance(loaded, PaperPolicy), loaded
    return loaded


def encoded(**slots: float) -> Encoded:
    """Two minutes of one scalable task between source and sink: every feature at .5 but for those given."""
    x = np.full((2, 3, WIDTH), 0.5, dtype=np.float32)
    for name, value in slots.items():
        x[:, 1, SLOTS.index(name)] = value
    x[:, (0, 2)] = 99.0  # the virtual source and sink count for nothing
    return Encoded(x=x, mask=np.ones((2, 3), dtype=bool))


GRAPH = job_graph(
    (
        TaskSpec(task="source", scalable=False),
        TaskSpec(task="map", upstream=("source",)),
        TaskSpec(task="sink", upstream=("map",), scalable=False),
    )
)


def test_features_inside_the_ranges_are_no_drift() -> None:
    """Nor are those that differ from a bound by rounding, and those of tasks that are not scaled."""
    assert drift_of(encoded(demand=1.00005), GRAPH, RANGES).outside == 0.0


def test_the_share_outside_is_told_with_the_feature_that_is_outside_most() -> None:
    """Above and below; a feature outside in every minute is outside by all of its values."""
    found = drift_of(encoded(demand=9.0, queue_log=-1.0), GRAPH, RANGES)
    assert found.outside == pytest.approx(2 / WIDTH, abs=1e-6)
    assert (found.feature_outside, found.usual, found.low, found.high) == (1.0, 0.02, 0.0, 1.0)
    assert (found.feature, found.mean) == ("queue_log", -1.0), "of equals the first"


@pytest.mark.parametrize(("absurd", "mean"), [(np.inf, 0.0), (3e38, pytest.approx(3e38, rel=1e-6))])
def test_absurd_figures_have_a_mean_that_a_record_can_hold(absurd: float, mean: object) -> None:
    """JSON knows no infinity, and readers would refuse the whole decision."""
    found = drift_of(encoded(demand=absurd), GRAPH, RANGES)
    assert found.mean == mean


def test_what_was_not_reported_counts_for_nothing() -> None:
    """It is zero in the encoding, whatever the range; a window without any report has no drift."""
    given = encoded(demand=9.0)
    given.mask[0] = False
    given.x[0] = 0.0
    strict = replace(RANGES, low=(0.25,) * WIDTH)
    assert drift_of(given, GRAPH, strict).outside == pytest.approx(1 / WIDTH, abs=1e-6)
    given.mask[:] = False
    assert drift_of(given, GRAPH, strict).outside == 0.0


def test_the_shipped_card_has_true_ranges(policy: PaperPolicy) -> None:
    """Of the slots that its network sees, none the wrong way round; constants have no width."""
    ranges = policy.package.card.ranges
    assert ranges is not None
    low, high = np.array(ranges.low), np.array(ranges.high)
    assert low.shape == high.shape == (SURE_WIDTH,)
    assert (low <= high).all()
    assert (low < high).mean() > 0.7
    assert 0.01 < ranges.usual < 0.2, "one feature in a hundred lies outside by the choice of the quantiles"
    assert ranges.windows > 500


def strange(window: Window) -> Window:
    """The same window of a job that has a backlog and latency as no job of the training."""
    figures = window.figures.copy()
    for name in ("queued_records_last", "queued_records_mean", "latency_record_ms", "queue_wait_record_ms"):
        figures[..., FIGURE[name]] = 1e9
    from dataclasses import replace as changed

    return changed(window, figures=figures)


def test_a_decision_tells_its_drift_and_acts_on_it_only_where_asked(policy: PaperPolicy) -> None:
    """A strange window lies further out; above the owner's limit the rule decides, with the figures as its reason."""
    near = decide(branching_window(), policy, JobSettings(job=JOB), seed=0).drift
    far = decide(strange(branching_window()), policy, JobSettings(job=JOB), seed=0)
    assert isinstance(near, FeatureDrift)
    assert isinstance(far.drift, FeatureDrift)
    assert far.drift.outside > near.outside
    assert far.policy.name == "sure-paper"
    limit = 100 * (near.outside + far.drift.outside) / 2
    settings = JobSettings(job=JOB, feature_drift_max=limit)
    assert decide(branching_window(), policy, settings, seed=0).policy.fallback_reason is None
    refused = decide(strange(branching_window()), policy, settings, seed=0)
    assert (refused.policy.name, refused.policy.asked, refused.drift) == ("target-utilisation", "sure-paper", far.drift)
    assert refused.policy.fallback_reason is not None
    assert refused.policy.fallback_reason.startswith("too far from the training: ")
    assert f"{far.drift.feature}: " in refused.policy.fallback_reason
    assert decode(encode(refused), Decision) == refused


def test_a_rule_and_a_package_without_ranges_say_nothing(policy: PaperPolicy, tmp_path: Path) -> None:
    """And the limit does not stop the latter: nobody knows how far it is from its training."""
    settings = JobSettings(job=JOB, feature_drift_max=0.0)
    assert decide(branching_window(), load_policy("target-utilisation"), settings, seed=0).drift is None
    old = changed_card(tmp_path, lambda card: card.pop("ranges"))
    decision = decide(branching_window(), old, settings, seed=0)
    assert (decision.drift, decision.policy.name, decision.policy.fallback_reason) == (None, "sure-paper", None)


def test_a_card_with_ranges_of_another_length_is_refused(tmp_path: Path) -> None:
    """The message names the field."""
    found = changed_card(tmp_path, lambda card: card["ranges"]["low"].pop())
    assert isinstance(found, Unavailable)
    assert "ranges must hold 27 numbers each" in found.reason


def changed_card(folder: Path, change: Callable[[dict], object]) -> PaperPolicy:
    """The shipped package with another card."""
    shutil.copytree(SHIPPED / "sure-paper", folder / "sure-paper")
    path = folder / "sure-paper" / "card.json"
    card = json.loads(path.read_text())
    change(card)
    path.write_text(json.dumps(card))
    return load_policy("sure-paper", str(folder))  # type: ignore[return-value]
