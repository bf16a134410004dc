"""The word that says how a job is."""

from typing import Any

import pytest
from msgspec import convert, to_builtins
from msgspec.structs import replace

from contracts.job_settings import Mode
from contracts.minute_figures import JobMinute
from services.state.read.status import status_of
from services.state.record_documents import ConditionDocument, GateDocument, TopologyDocument
from tests.support.builders import topology
from tests.support.view_documents import WINDOW

TOPOLOGY = convert(to_builtins(topology()) | {"appended_ms": 1}, TopologyDocument)
GATE = GateDocument(
    applied_generation=1, at_ms=0, conditions=(), desired_generation=1, failures=0, given_up=None, mode=None,
    observed_generation=1, outstanding_command_id=None, pending_decision_id=None, pending_reason=None, phase="Idling",
    standbys=(), step=None, wake_up_ms=None, appended_ms=1,
)  # fmt: skip
BUSY = replace(WINDOW, minute=JobMinute(overloaded=1))
DOWN = replace(WINDOW, minute=JobMinute(ran=0.49, overloaded=1))
GONE = ConditionDocument(last_transition_ms=0, message="", observed_generation=1, reason="Failed", status=False, type="Available")

PAUSED = replace(GONE, reason="Rescaling", status=True, type="Paused")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "fine"),
        ({"topology": None}, "unknown"),
        ({"topology": replace(TOPOLOGY, state="failed")}, "down"),
        ({"topology": replace(TOPOLOGY, state="finished")}, "ended"),
        ({"gate": replace(GATE, conditions=(GONE,))}, "down"),
        ({"gate": replace(GATE, conditions=(GONE,), outstanding_command_id="c", step="commit")}, "scaling"),
        ({"gate": replace(GATE, outstanding_command_id="c", step="prepare")}, "warming"),
        ({"gate": replace(GATE, outstanding_command_id="c", step="commit"), "window": BUSY}, "scaling"),
        ({"window": BUSY}, "overloaded"),
        ({"window": BUSY, "mode": "observe"}, "overloaded"),
        ({"window": DOWN}, "down"),
        ({"window": DOWN, "gate": None}, "down"),
        ({"window": DOWN, "gate": replace(GATE, outstanding_command_id="c", step="prepare")}, "down"),
        ({"window": DOWN, "gate": replace(GATE, outstanding_command_id="c", step="barrier")}, "scaling"),
        ({"window": replace(WINDOW, minute=JobMinute(ran=0.5))}, "fine"),
        ({"gate": replace(GATE, pending_decision_id="d")}, "held"),
        ({"gate": replace(GATE, conditions=(PAUSED,), pending_decision_id="d")}, "paused"),
        ({"gate": replace(GATE, conditions=(replace(PAUSED, status=False),))}, "fine"),
        ({"gate": replace(GATE, conditions=(PAUSED,)), "window": BUSY}, "overloaded"),
        ({"gate": replace(GATE, conditions=(PAUSED,)), "mode": "observe"}, "observed"),
        ({"mode": "advise"}, "advised"),
        ({"mode": "observe"}, "observed"),
        ({"silent_minutes": 15, "window": BUSY}, "silent"),
        ({"silent_minutes": 14}, "fine"),
        ({"gate": None, "window": None}, "fine"),
    ],
)
def test_the_word_is_the_first_that_holds(changes: dict[str, Any], word: str) -> None:
    """What must be acted on, then what is being done, then the mode."""
    mode: Mode = changes.pop("mode", "act")
    given = {"topology": TOPOLOGY, "gate": GATE, "window": WINDOW} | changes
    silent_minutes = given.pop("silent_minutes", None)
    assert status_of(**given, mode=mode, silent_minutes=silent_minutes) == word  # type: ignore[arg-type]
