"""A decision to explain: made on one window, on its way to an applied command, and on the screen."""

import io

from rich.console import Console

from surescale.contracts.commands import Outcome, Progress, RescheduleCommand, TaskChange
from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import EngineEvent
from surescale.contracts.windows import encode_window
from surescale.services.agent.decider import Decider
from surescale.services.tools.explain.explanation import Explanation, OwnActExplanation
from surescale.services.tools.explain.lookup import Aftermath
from surescale.services.tools.explain.screen import show
from tests.support.builders import JOB, window_at

WINDOW = window_at(600)
SETTINGS = JobSettings(job=JOB)
NOTHING = Aftermath((), (), (), ())


def decided(policy: str = "target-utilisation") -> Decision:
    """Return a decision on the window of minute 600."""
    decision = Decider(lambda job: SETTINGS, policy=policy, folder="", seed=3).answer(encode_window(WINDOW))
    assert decision is not None
    return decision


def course(decision: Decision) -> Aftermath:
    """Return a decision's way to an applied command."""
    at_ms, command_id = decision.span_end_ms, f"{JOB}#4.0"
    base = {"cluster": "sim", "job": JOB}
    outcome = base | {"decision_id": decision.decision_id, "span_end_ms": at_ms}
    waited = Outcome(**outcome, status="pending", reason="cooldown", at_ms=at_ms, until_ms=at_ms + 30_000)  # type: ignore[arg-type]
    sent = Outcome(**outcome, status="commanded", reason="desired", at_ms=at_ms + 30_000, sequence=1, command_id=command_id)  # type: ignore[arg-type]
    command = RescheduleCommand(
        **base,
        command_id=command_id,
        desired_generation=4,
        step=0,
        base_placement_generation=2,
        decision_id=decision.decision_id,
        gate_reason="desired",
        gate_cause="timer",
        issued_at_ms=at_ms + 30_000,
        changes=(TaskChange(task="map", before=2, after=4, added_units=(8, 9)),),
    )  # fmt: skip
    step = base | {"command_id": command_id, "desired_generation": 4}
    applied = Progress(**step, status="applied", at_ms=at_ms + 120_000, duration_ms=60_000)  # type: ignore[arg-type]
    event = EngineEvent(cluster="sim", sequence=1, at_ms=at_ms + 120_000, kind="job_restarted", job=JOB)
    return Aftermath((waited, sent), (command,), (applied,), (event,))


def screen(explained: Explanation | OwnActExplanation, *, attention: bool = False) -> str:
    """Return the screen as text."""
    console = Console(file=io.StringIO(), width=160, highlight=False)
    show(explained, console, attention=attention)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
