"""Documents of the view as tables for people."""

from typing import Any

import pytest

from services.state.tables import print_decisions, print_jobs


def task(name: str, current: int, desired: int, **amendment: Any) -> dict[str, Any]:
    """Return what a decision says of one task."""
    return {"task": name, "current": current, "desired": desired, "amendments": [amendment] if amendment else []}


def test_tasks_that_change_alike_share_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Twelve tasks of one wish are one line; what a guardrail touched is told apart; what stays is left out."""
    tasks = [task(f"t{number}", 3, 4) for number in range(12)]
    tasks += [task("sink", 3, 4, rule="step", before=6, after=4), task("source", 1, 1)]
    decision = {"span_end_ms": 0, "action": "act", "reason": "Busy.", "tasks": tasks, "policy": {"name": "sure"}, "outcome": None}
    print_decisions("sim/a", [decision | {"command": None}])
    shown = capsys.readouterr().out
    assert "t0, t1 and 10 more, each: 3 -> 4" in shown
    assert "sink: 3 -> 4 (step 6 -> 4)" in shown
    assert "source" not in shown


@pytest.mark.parametrize(("minutes", "says"), [(None, False), (0, False), (14, False), (15, True)])
def test_a_job_is_silent_when_it_is_far_behind_its_cluster(
    minutes: int | None, says: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A few minutes are the way that windows take; more is said beside the state that the job's last topology told."""
    job = dict.fromkeys(
        ("load_records_per_minute", "completeness", "window_end_ms", "action", "outcome", "gate_phase", "wake_up_ms")
    )
    job |= {"job": "sim/a", "state": "running", "mode": "act", "tasks": 1, "parallelism": 1, "silent_minutes": minutes}
    print_jobs([job])
    assert ("running, silent for 15 min" in capsys.readouterr().out) is says
