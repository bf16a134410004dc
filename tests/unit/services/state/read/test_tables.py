"""Documents of the view as tables for people."""

from typing import Any, Literal

import pytest
from msgspec import convert, to_builtins
from msgspec.structs import replace

from surescale.contracts.commands import Progress, RescheduleCommand, SlotStandbys
from surescale.contracts.decisions import Amendment, Decision, PolicyUsed, TaskDecision
from surescale.contracts.messages import ConsumerGroup, GroupMember, GroupPartition, GroupWorker, JobTopology
from surescale.contracts.rescaler_state import CommandUnderway, Condition, JobControl, WaitingAct
from surescale.runtime.terminal import middle_cut
from surescale.services.state.documents import JobDocument
from surescale.services.state.read.decision_lines import print_decisions, progress_line
from surescale.services.state.read.staleness import Stale
from surescale.services.state.read.tables import print_job, print_jobs
from surescale.services.state.record_documents import (
    CommandDocument,
    DecisionDocument,
)
from tests.support.builders import topology
from tests.support.view_documents import PLACE, appended, overview


def task(name: str, current: int, desired: int, *amendments: Amendment) -> TaskDecision:
    """Return a decision on one task."""
    return TaskDecision(
        task=name, current=current, ratio=desired / current, proposed=desired, desired=desired, amendments=amendments
    )


def decided(decision: Decision) -> DecisionDocument:
    """Return a decision as the view has it."""
    return DecisionDocument(record=decision, **PLACE)


def test_tasks_that_change_alike_share_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Tasks with the same change share a line; one that a guardrail touched stands apart; one that stays is left out."""
    tasks = [task(f"t{number}", 3, 4) for number in range(12)]
    tasks += [task("sink", 3, 4, Amendment(rule="step", before=6, after=4)), task("source", 1, 1)]
    decision = decided(
        Decision(
            decision_id="sim/a@0/sure",
            job="sim/a",
            span_end_ms=0,
            window_id="w",
            policy=PolicyUsed(name="sure"),
            seed=0,
            settings_version=0,
            topology_version=0,
            action="act",
            reason="Busy.",
            completeness=1.0,
            minutes_known=60,
            tasks=tuple(tasks),
        )
    )
    print_decisions("sim/a", [decision])
    shown = capsys.readouterr().out
    assert "t0, t1 and 10 more, each: 3 -> 4" in shown
    assert "sink: 3 -> 4 (step 6 -> 4)" in shown
    assert "source" not in shown


SILENT = Stale(role="monitor", minutes=25, words="no figures for 25 min")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_where_a_line_is_too_long_columns_are_left_out_and_nothing_is_cut(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What matters most stays; each figure shown is whole, and no line is longer than the terminal."""
    monkeypatch.setenv("COLUMNS", str(width))
    print_jobs([overview(policy_in_use="ds2 for sure"), overview(job="flink/b", status="down")])
    shown = capsys.readouterr().out
    assert "flink/a-job-with-a-long-name  fine" in shown
    assert "…" not in shown
    assert all(len(line) <= width for line in shown.splitlines())
    assert ("418" in shown) is (width >= 120)
    assert ("LAST DECISION" in shown) is (width >= 80)
    assert ("ds2 for sure" in shown) is (width >= 200)
    assert ("too narrow for" in shown) is (width < 200)
    for title in ("MODE", "LATENCY", "LAST DECISION", "POLICY", "GATE", "COMPLETE"):  # in the head, or named below
        assert " ".join(shown.split()).count(title) == 1, title


def job_with(*labels: str) -> JobDocument:
    """Return a job whose tasks have these labels."""
    specs = [{"task": f"t{at}", "label": label} for at, label in enumerate(labels)]
    known = to_builtins(topology()) | {"tasks": specs}
    condition = Condition(type="T", status=None, reason="R", message="m", last_transition_ms=0, observed_generation=0)
    return replace(a_job(A_DECISION, condition), topology=appended(convert(known, JobTopology)))


def test_long_labels_lose_their_middle_unless_they_are_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And unless two would look the same then."""
    monkeypatch.setenv("COLUMNS", "200")
    sql = "Source: KafkaSource-default_catalog.default_database.orders -> Calc[2]"
    alike = [f"Sink: KafkaSink-default_catalog.{middle}.the_output_of_it -> Committer" for middle in "ab"]
    print_job(job_with(sql, "map", *alike))
    shown = capsys.readouterr().out
    assert middle_cut(sql, 40) in shown
    assert sql not in shown
    assert all(label in shown for label in ("map", *alike))
    assert "…" in shown
    print_job(job_with(sql), wide=True)
    assert sql in capsys.readouterr().out


def test_a_decision_is_shown_with_its_load_and_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    """Which may not be the load of the newest minute. A condition of which nobody knows whether it holds says so."""
    print_job(job_with("map"))
    shown = capsys.readouterr().out
    assert "decided at 1970-01-01 00:00 UTC on a load of 53,223 records/min" in shown
    assert "Unknown" in shown


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"status": "restarting", "restarts": 7}, "restarting, 7 in 10 min"),
        ({"status": "unknown", "stale": SILENT}, "no figures for 25 min"),
        ({"status": "unknown", "window_end_ms": None}, "unknown "),
        ({"status": "unmeasured"}, "no figures at 00:01"),
        ({"status": "unmeasured", "window_end_ms": None}, "no figures yet "),
        ({"status": "unmeasured", "window_end_ms": None, "began_ms": 660_000}, "no figures yet, since 00:11"),
    ],
)
def test_what_is_not_known_is_not_fine(given: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The word says since when, or how often."""
    print_jobs([overview(**given)])
    shown = capsys.readouterr().out
    assert words in shown
    assert "fine" not in shown


def test_a_cluster_of_which_nothing_comes_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """One for all its jobs, with the time of the last answer; ended jobs do not count, and other clusters have none."""
    print_jobs([
        overview(job="prod/a", status="unknown", stale=SILENT, seen_ms=82_000),
        overview(job="prod/b", status="unknown", stale=SILENT, seen_ms=62_000),
        overview(job="prod/c", state="finished", status="ended"), overview(job="prod/d", status="scaling", stale=SILENT),
        overview(job="test/a", status="unknown", stale=SILENT), overview(job="test/b"),
    ])  # fmt: skip
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "has not answered" in line]
    assert "prod: no figures for 25 min: the engine has not answered since 00:01:22 UTC" in line


def test_all_jobs_that_are_gone_for_good_stand_in_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever they were when their monitor last told of them, and however many; no line break is in it."""
    gone = Stale(role="monitor", minutes=3 * 24 * 60, words="no figures for 3 days")
    lasting = [overview(job=f"old/job-{number}", status="down", state="suspended", stale=gone) for number in range(30)]
    print_jobs([*lasting, overview(job="new/a b", state="failed", status="down"), overview(job="new/late", stale=SILENT)])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "gone for good?" in line]
    names = " ".join(f"old/job-{number}" for number in range(30))
    assert line == f"gone for good? `surescale job forget {names} 'new/a b'` ends that"


@pytest.mark.parametrize(
    ("status", "code", "line"),
    [
        ("applied", "", "#1.0 commit applied 00:01: no actuator reported"),
        ("failed", "NOT_REPORTED", "#1.0 commit failed 00:01: NOT_REPORTED no actuator reported"),
    ],
)
def test_an_end_that_nobody_reported_says_so(status: Literal["applied", "failed"], code: str, line: str) -> None:
    """Whether the engine showed it or not."""
    about: dict[str, Any] = {
        "cluster": "sim",
        "job": "sim/a",
        "command_id": "sim/a#1.0",
        "desired_generation": 1,
    }
    end = Progress(**about, status=status, at_ms=60_000, code=code, detail="no actuator reported")
    command = RescheduleCommand(
        **about,
        step=0,
        base_placement_generation=0,
        decision_id="sim/a@0/sure",
        gate_reason="desired",
        gate_cause="change",
        issued_at_ms=0,
        changes=(),
    )
    assert progress_line(CommandDocument(record=command, progress=(appended(end),), **PLACE)) == line


def test_text_from_records_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither escape sequences nor line breaks nor rich's markup, in any place of a decision."""
    hostile = "x\x1b[2J\nmade up[/b]"
    decision = decided(
        Decision(
            decision_id="sim/a@0/sure",
            job="sim/a",
            span_end_ms=0,
            window_id="w",
            policy=PolicyUsed(name="sure", fallback_reason=hostile),
            seed=0,
            settings_version=0,
            topology_version=0,
            action="act",
            reason=hostile,
            completeness=1.0,
            minutes_known=60,
            tasks=(task(hostile, 1, 2, Amendment(rule=hostile, before=3, after=2)),),
        )
    )
    print_decisions("sim/a", [decision])
    condition = Condition(type=hostile, status=True, reason=hostile, message=hostile, last_transition_ms=0, observed_generation=0)
    print_job(a_job(decision, condition))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert not [line for line in shown.splitlines() if line.lstrip("│┃ ").startswith("made up")]
    assert "[/b]" in shown


A_DECISION = decided(Decision(
    decision_id="sim/a@0/sure", job="sim/a", span_end_ms=0, window_id="w", policy=PolicyUsed(name="sure"), seed=0,
    settings_version=0, topology_version=0, action="hold", reason="r", completeness=1.0, minutes_known=60, tasks=(),
    load_records_per_minute=53_223.0,
))  # fmt: skip


def a_job(decision: DecisionDocument, condition: Condition) -> JobDocument:
    """Return a job with a decision and a condition of its gate, and nothing else."""
    words = decision.record.reason
    gate = JobControl(
        phase=words,
        pending=WaitingAct(decision_id=words, reason=words),
        underway=CommandUnderway(decision_id=words, command_id=words, step="prepare", given_up=words),
        standbys=(SlotStandbys(hosts=(words,), unit=1),),
    )
    return JobDocument(
        job="sim/a",
        topology=None,
        settings=None,
        mode="observe",
        mode_set_by="default",
        window=None,
        age_minutes=None,
        decision=decision,
        gate=appended(gate),
        command=None,
        rent=None,
        status="unknown",
        minute_by_task=(),
        conditions=(condition,),
    )


def test_a_group_is_shown_with_partitions_members_and_workers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is unknown is a dash with its reason, and what is left out is counted."""
    monkeypatch.setenv("COLUMNS", "160")
    job = job_with("parse")
    assert job.topology is not None
    group = ConsumerGroup(
        task="parse",
        group="orders-parse",
        state="stable",
        assignor="range",
        topics=("orders",),
        lag=1_580,
        lag_unknown=1,
        oldest_ms=4_200,
        partitions=(
            a_partition(0, lag=None, problem="nothing was ever committed there"),
            *(a_partition(number, lag=number, stands_since_ms=0 if number == 20 else None) for number in range(1, 21)),
        ),
        partitions_left_out=900,
        members=(GroupMember(subtask=0, client_id="python-1", host="10.0.0.7", partitions=21, lag=None, read_per_minute=None),),
        workers=(
            GroupWorker(
                index=0, pid=None, started_ms=None, failures=3, failure="ended after 1 s with exit code 2", log="/w/0.log"
            ),
        ),
    )
    shown = replace(job, topology=replace(job.topology, record=replace(job.topology.record, groups=(group,))))
    print_job(shown)
    out = capsys.readouterr().out
    lines = out.splitlines()
    waits = "1580 records waiting, the oldest for 4.2 s; what waits in 1 partition is unknown"
    assert f"group orders-parse: stable, orders; {waits}" in " ".join(out.split())
    assert next(line for line in lines if line.startswith("orders[0]")).split()[1:7] == ["0", "100", "-", "-", "-", "-"]
    assert "nothing was ever committed there" in out
    assert "1970-01-01 00:00:00" in next(line for line in lines if line.startswith("orders[20]"))
    assert not any(line.startswith("orders[9]") for line in lines)
    assert "9 more partitions in which less waits; --wide shows them" in out
    assert "900 more partitions" in out
    assert "python-1" in out
    assert "exit code 2" in out
    print_job(shown, wide=True)
    assert any(line.startswith("orders[9]") for line in capsys.readouterr().out.splitlines())


def a_partition(number: int, *, lag: int | None, problem: str = "", stands_since_ms: int | None = None) -> GroupPartition:
    """Return one of member 0."""
    return GroupPartition(
        topic="orders",
        partition=number,
        subtask=0,
        end=100,
        committed=None if lag is None else 100 - lag,
        lag=lag,
        problem=problem,
        arrived_per_minute=None,
        read_per_minute=None,
        stands_since_ms=stands_since_ms,
    )
