"""A job's last minutes as columns, and the load that its newest decision expects ahead."""

from math import exp, log

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from surescale.contracts.commands import Outcome
from surescale.contracts.decisions import LoadOutlook
from surescale.services.state.documents import HistoryDocument
from surescale.services.state.read.history import MarkedDecision, history
from tests.support.view_documents import WINDOW

MINUTE_MS = 60_000
OUTCOME = Outcome(cluster="sim", job="sim/a", decision_id="d", span_end_ms=0, status="held", reason="hold", at_ms=0)


def with_outlook(*outlooks: LoadOutlook | None) -> HistoryDocument:
    """Return the history of a job with decisions at minutes 10, 20, ... that expected this."""
    made = [
        MarkedDecision(decision_id=f"d{at}", span_end_ms=10 * at * MINUTE_MS, action="hold", reason="", tasks=(), outlook=outlook)
        for at, outlook in enumerate(outlooks, start=1)
    ]
    marks = [(decision, None) for decision in made]
    return history("sim/a", [WINDOW], marks, [], None, fixed=(), unreadable=UNSET)


def test_the_newest_decision_says_what_it_expects() -> None:
    """Stage after stage from its span's end on, within one standard deviation of the logarithm."""
    old = LoadOutlook(stage_minutes=60, means=(1.0,))
    new = LoadOutlook(stage_minutes=15, means=(100.0, 200.0), spread=(log(2.0), 0.1))
    first, second = with_outlook(old, new).expected
    assert (first.from_ms, first.until_ms, first.mean) == (20 * MINUTE_MS, 35 * MINUTE_MS, 100.0)
    assert (first.low, first.high) == (50.0, 200.0)
    assert (second.from_ms, second.until_ms) == (35 * MINUTE_MS, 50 * MINUTE_MS)
    assert second.high == pytest.approx(200.0 * exp(0.1), abs=1e-3)


def test_a_mark_says_what_came_of_its_decision_in_words() -> None:
    """In the words of `surescale job decisions`: advice is not an act, and what nobody has answered yet says so."""
    made = MarkedDecision(decision_id="d", span_end_ms=10 * MINUTE_MS, action="act", reason="", tasks=())
    said = [("commanded", "desired"), ("commanded", "advise"), ("refused", "observe")]
    answers = [None, *(replace(OUTCOME, status=status, reason=reason) for status, reason in said)]
    told = history("sim/a", [WINDOW], [(made, answer) for answer in answers], [], None, fixed=(), unreadable=UNSET)
    assert [mark.came for mark in told.decisions] == ["act, not answered yet", "acted", "advised", "observed"]
    assert [mark.outcome for mark in told.decisions] == [None, "commanded", "commanded", "refused"]


def test_an_outlook_without_a_spread_has_no_band() -> None:
    """The rule ``forecast`` tells one mean and not how sure it is."""
    (stage,) = with_outlook(LoadOutlook(stage_minutes=60, means=(80.0,))).expected
    assert (stage.mean, stage.low, stage.high) == (80.0, None, None)


def test_a_policy_that_only_looks_back_expects_nothing() -> None:
    """Also if one before it looked ahead: that expectation is out of date."""
    assert with_outlook(LoadOutlook(stage_minutes=60, means=(1.0,)), None).expected == ()
    assert with_outlook().expected == ()
