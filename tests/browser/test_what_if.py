"""The page asks what a decision would have been without a task or a minute: over a real Kafka, by the policy itself.

``SURESCALE_PAGE_FIGURES=yes`` writes the screenshot to docs/figures (`make page-figures`).
"""

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.ids import decision_id
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.topics import DECISIONS, JOB_TOPOLOGY, SNAPSHOTS
from surescale.contracts.windows import Window, encode_window
from surescale.policies.decide import decide
from surescale.policies.registry import load_policy
from surescale.runtime.kafka import create_topics
from surescale.runtime.topic_records import append_ms, read_topics, value_of
from surescale.services.recomputation.counterfactual import question_of, without
from surescale.services.state.counterfactuals import Counterfactuals
from surescale.services.state.settings import StateSettings
from surescale.services.state.write.projections import Record
from surescale.simulation.model.worlds import CALM
from tests.conftest import KafkaForTests
from tests.support.browsed_page import keep, settled, violations
from tests.support.served_page import View, serving
from tests.support.simulated_recordings import sized, windows_of
from tests.support.view_pipeline import send

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def decided() -> tuple[Window, Decision]:
    """A window of a simulated job, and what `sure` decided on it."""
    pytest.importorskip("onnxruntime")
    window = windows_of(sized("j_2521346"), CALM, 4, widths=(3,))[-1]
    return window, decide(window, load_policy("sure"), JobSettings(job=window.job), seed=0)


def test_a_decision_is_made_again_without_a_task_and_a_minute(
    page: "Page", view: View, kafka: KafkaForTests, decided: tuple[Window, Decision]
) -> None:
    """The answers stand below the decision and are those of the command line; what is gone from Kafka is said in one line."""
    window, decision = decided
    settings = StateSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix())
    create_topics(settings)
    gone = an_hour_before(decision)
    send(settings, (JOB_TOPOLOGY, window.job, window.topology), (SNAPSHOTS, window.job, encode_window(window)))
    send(settings, (DECISIONS, "sim", decision), (DECISIONS, "sim", gone))
    for topic, records in read_topics(settings, [JOB_TOPOLOGY, DECISIONS]).items():
        view.take(
            Record(topic, int(each.partition() or 0), int(each.offset() or 0), _key(each.key()), value_of(each), append_ms(each))
            for each in records
        )
    with serving(page, view, decide_without=Counterfactuals(settings).answer) as served:
        page.goto(f"{served.url}#/decisions/{quote(decision.decision_id, safe='')}")
        settled(page)
        card = page.get_by_role("region", name="What if a task or minute were missing")
        assert card.locator("optgroup[label=Minutes] option").count() == decision.minutes_known
        names = (max(decision.tasks, key=lambda task: task.current).task, "0")
        rows = page.get_by_role("region", name="Answers with everything").get_by_role("row")
        for at, name in enumerate(names):
            card.get_by_role("combobox").select_option(name)
            card.get_by_role("button", name="Decide again").press("Enter")
            rows.nth(2 + at).wait_for()
        labels = {spec.task: spec.label or spec.task for spec in window.topology.tasks}
        facts = without(question_of(decision, window, JobSettings(job=window.job), ""), names)
        for at, fact in enumerate(facts):
            told = rows.nth(2 + at).inner_text()
            assert f"{fact.action}" in told
            for task, (before, after) in fact.sizes.items():
                assert labels[task] in told
                assert f"{after} instead of {before}" in told
            assert ("it made no difference" in told) is not bool(fact.sizes)
        assert any(fact.sizes for fact in facts)
        assert page.get_by_text("does not decide as recorded").count() == 0
        for theme in ("dark", "light"):
            page.emulate_media(color_scheme=theme)
            assert violations(page) == [], theme
        keep(card, "page-what-if.png")

        page.expected_errors = 1  # type: ignore[attr-defined]  # the browser itself logs the 410
        page.goto(f"{served.url}#/decisions/{quote(gone.decision_id, safe='')}")
        page.get_by_role("button", name="Decide again").click()
        page.get_by_text("is no longer in Kafka: snapshots are kept only for a while").wait_for()
        page.get_by_text(f"surescale job explain {gone.decision_id} --without").wait_for()
        assert violations(page) == []


def an_hour_before(decision: Decision) -> Decision:
    """Return a decision whose window is not on Kafka."""
    end_ms = decision.span_end_ms - 60 * MINUTE_MS
    return replace(
        decision,
        decision_id=decision_id(decision.job, end_ms, "sure"),
        window_id=decision.window_id.replace(str(decision.span_end_ms), str(end_ms)),
        span_end_ms=end_ms,
        figures_until_ms=None,
    )


def _key(key: object) -> bytes:
    assert isinstance(key, bytes)
    return key
