"""An explained decision on the screen: what it tells, in which words and in which order."""

import re

import pytest
from msgspec.structs import replace

from surescale.contracts.commands import Balance, SlotMove, TaskChange
from surescale.contracts.decisions import Amendment, Candidates, ChangeScore, SampledMinute
from surescale.contracts.messages import EngineEvent
from surescale.contracts.own_acts import OwnAct
from surescale.contracts.rescaler_state import CommandUnderway, JobSummary, WaitingAct
from surescale.services.tools.explain.explanation import explanation, heaviest_minutes, own_act_explanation
from surescale.services.tools.explain.lookup import Aftermath, FoundOwnAct, about
from tests.support.builders import JOB
from tests.support.explained import NOTHING, course, decided, screen


def test_the_screen_tells_the_whole_way() -> None:
    """Window, ratio, sizes, gate, command with units, progress and events stand on it, in the order of time."""
    decision = decided()
    text = screen(explanation(decision, course(decision)))
    for words in (decision.decision_id, "minutes known", "records/min", "map", "8, 9", "applied, 60 s", "job restarted"):
        assert words in text
    assert text.index("pending: cooling down after a rescale") < text.index("commanded: in full") < text.index("applied, 60 s")


def test_the_screen_is_one_screen() -> None:
    """A decision that was carried out fits on fifty lines."""
    decision = decided()
    assert len(screen(explanation(decision, course(decision))).splitlines()) <= 50


def test_every_step_of_a_rescale_is_told_with_its_learners() -> None:
    """A prepare and the commit behind it stand on the screen, each with its progress; the changes are those of the last."""
    decision = decided()
    way = course(decision)
    (commit,), (applied,) = way.commands, way.progress
    prepare = replace(commit, action="prepare")
    commit = replace(commit, command_id=f"{JOB}#4.1", step=1)
    warm = replace(applied, status="warming", at_ms=applied.at_ms - 60_000, learners=22, lag_bytes=141 * 2**20, duration_ms=9)
    ready = replace(applied, at_ms=applied.at_ms - 30_000, learners=22)
    done = replace(applied, command_id=commit.command_id, duration_ms=1_000)
    text = screen(explanation(decision, Aftermath(way.outcomes, (prepare, commit), (warm, ready, done), ())))
    assert f"{JOB}#4.0 prepare, then {JOB}#4.1 commit: in full; " in text
    told = ("prepare warming, 22 learners, 141 MiB behind", "prepare applied, 22 learners, 60 s", "commit applied, 1 s")
    assert [text.count(words) for words in told] == [1, 1, 1]


def test_tasks_with_equal_figures_share_a_row() -> None:
    """However many tasks change alike, they are one row of the decision and one of the command; others have their own."""
    decision = decided()
    one = next(task for task in decision.tasks if task.task == "map")
    alike = [replace(one, task=f"t{number}", current=1, proposed=2, desired=2, ratio=1.5) for number in range(40)]
    other = replace(alike[0], task="other", desired=3)
    way = course(decision)
    changes = tuple(TaskChange(task=task.task, before=1, after=2) for task in alike)
    way = Aftermath(way.outcomes, (replace(way.commands[0], changes=changes),), way.progress, way.engine_events)
    text = screen(explanation(replace(decision, tasks=(*alike, other)), way))
    assert text.count("t0, t1 and 38 more, each") == 2
    assert "other" in text


def test_a_hold_shows_how_the_job_was_and_what_a_change_would_have_gained() -> None:
    """The busiest tasks with what they need, by the names of people; the best alternative, its gain, the gain that was needed."""
    tasks = tuple(
        replace(task, task=f"{number:032}", utilisation=number / 100, waiting_records=7.0, floor=2)
        for number, task in enumerate([decided("hold").tasks[1]] * 12)
    )
    unit = "0.5 x utilisation - 0.5 x minutes of latency, mean of the next 2 hours"
    compared = ChangeScore(subtasks=60, score=0.287, present_subtasks=48, present_score=0.283, gain_needed=0.01, unit=unit)
    held = replace(decided("hold"), tasks=tasks, compared=compared)
    text = screen(explanation(held, NOTHING, labels={f"{number:032}": f"map-{number}" for number in range(12)}))
    assert "60 subtasks 0.2870, the present 48 subtasks 0.2830: +0.0040, less than the 0.0100 that a change must gain" in text
    assert f"score = {unit}; higher is better" in text
    assert re.search(r"map-11 +2 +11% +7 +2", text)
    assert "0" * 30 not in text
    assert "and 4 more tasks" in text


def curve(slots: tuple[int, ...], price: float | None) -> str:
    """Return the screen of an act by a policy that compared sizes; it grows by two subtasks, a slot each costs this a second."""
    decision = decided()
    grown = sum(task.desired - task.current for task in decision.tasks)
    sizes = (40, 48, 48 + grown)
    candidates = Candidates(subtasks=sizes, late_minutes=(31.5, 14.26, 0.4), minutes=120, late_seconds=60.0, slots=slots)
    compared = ChangeScore(
        subtasks=sizes[2], score=0.3, present_subtasks=48, present_score=0.2, gain_needed=0.01, unit="u", candidates=candidates
    )
    return screen(explanation(replace(decision, compared=compared), NOTHING, slot_price_per_s=price))


def test_the_sizes_that_were_compared_are_shown_with_their_rent_in_dollars() -> None:
    """At the price of now, of the slots that the engine is paid by; the present one and the chosen one are marked."""
    text = curve((10, 12, 18), 0.5 / 86_400)
    assert re.search(r"40 +-17% +5\.00 +31\.5", text)
    assert re.search(r"48 +6\.00 +14\.3 +present", text)
    assert re.search(r"\+50% +9\.00 +0\.4 +best score, chosen", text)
    assert "late: of the next 120 minutes, with records that wait longer than 60 s, restart included" in text
    assert "rent: of slots, at $0.50 each a day, the price of now" in text


@pytest.mark.parametrize(
    ("slots", "says"),
    [
        ((10, 12, 18), "rent: of slots; dollars are unknown, since hosts or workers have no price (SURESCALE_PRICES)"),
        ((), "rent: of subtasks; dollars depend on the hosts, which are chosen after the decision"),
    ],
)
def test_a_rent_that_nobody_knows_in_dollars_is_said(slots: tuple[int, ...], says: str) -> None:
    """Slots or subtasks stand for it."""
    text = curve(slots, None)
    assert says in text
    assert "$/day" not in text
    assert "present" in text


def test_of_a_rule_it_is_said_that_there_is_no_curve() -> None:
    """Rather than nothing, which might be missing."""
    assert "No sizes were compared, so there is no curve" in screen(explanation(replace(decided(), compared=None), NOTHING))
    assert "No sizes were compared" not in curve((10, 12, 18), 0.5)


@pytest.mark.parametrize(("known", "says"), [(1, "the last minute"), (2, "mean of 2 minutes"), (60, "mean of 5 minutes")])
def test_the_load_is_the_mean_of_the_minutes_that_are_known(known: int, says: str) -> None:
    """Of five at most."""
    assert says in screen(explanation(replace(decided(), minutes_known=known), NOTHING))


def an_own_act() -> tuple[FoundOwnAct, Aftermath]:
    """Return an act that followed the death of a host, and its way to an applied command."""
    way = course(decided())
    outcome = replace(
        way.outcomes[1], decision_id=f"{JOB}@{way.outcomes[1].at_ms}/balance", detail="hosts changed: 2 units go to m2"
    )
    moves = tuple(SlotMove(job=JOB, unit=unit, host="l1", to_unit=unit + 6, to_host="m2") for unit in (2, 3))
    elsewhere = SlotMove(job="sim/other", unit=9, host="l1", to_unit=19, to_host="m9")
    look = Balance(
        cluster="sim",
        generation=2,
        sequence=0,
        status="moving",
        reason="cheaper_hosts",
        at_ms=outcome.at_ms,
        hosts_version=6,
        moves=(*moves, elsewhere),
    )
    lost = EngineEvent(cluster="sim", sequence=1, at_ms=outcome.at_ms - 60_000, kind="host_lost", host="l1")
    failed = [replace(lost, sequence=2 + after, kind="checkpoint_failed", host=None, job=JOB) for after in range(3)]
    aftermath = Aftermath((outcome,), way.commands, way.progress, (lost, *failed))
    return FoundOwnAct(OwnAct.BALANCE, outcome, append_ms=0, look=look), aftermath


def test_an_act_that_no_policy_decided_is_explained() -> None:
    """What it is, why, which units go where, the host that was lost before, the steps and their end."""
    text = screen(own_act_explanation(*an_own_act()))
    assert "/balance: balance, not a policy's decision" in text
    assert "hosts changed: 2 units go to m2" in text
    assert "units 2, 3 from l1 to m2" in text
    assert "m9" not in text
    assert text.index("engine: host lost l1") < text.index("commanded: in full") < text.index("applied, 60 s")
    assert text.count("checkpoint failed") == 1
    assert "3 times" in text


def test_a_decision_without_outcome_says_so() -> None:
    """A decision that the rescaler has not answered, on which no task changes, still has a screen."""
    text = screen(explanation(decided("hold"), NOTHING))
    assert "None of 3 tasks" in text
    assert "No outcome yet" in text


def test_a_fallback_is_told_with_its_reason() -> None:
    """When the rule answered for a model, the screen names both."""
    text = screen(explanation(decided("no-such-model"), NOTHING))
    assert "no-such-model was asked" in text


def test_the_heaviest_minutes_come_first() -> None:
    """Three anchors are shown, by weight, each with its heaviest neighbours."""
    anchors = tuple(SampledMinute(minute_end_ms=60_000 * minute, weight=minute / 10) for minute in range(5))
    task = replace(decided().tasks[0], looked_at=anchors)
    assert heaviest_minutes(task, 60_000 * 5) == "-1 min 40%; -2 min 30%; -3 min 20%"


def test_a_decision_without_attention_says_so() -> None:
    """Who asks for attention and gets none is told why."""
    said = "no attention: no network had a say in this decision"
    assert said in screen(explanation(decided(), NOTHING), attention=True)
    assert said not in screen(explanation(decided(), NOTHING))


def test_the_gate_is_told_only_while_it_is_about_the_decision() -> None:
    """The rescaler's memory of a job belongs to one decision at a time."""
    summary = JobSummary(phase="Cooldown", pending=WaitingAct(decision_id="d", reason="cooldown", until_ms=5))
    told = about(summary, "d")
    assert told is not None
    assert (told.phase, told.wakes_up_ms) == ("Cooldown", 5)
    assert about(summary, "other") is None


def test_amendments_are_told_in_words() -> None:
    """Each guardrail that changed something is explained once, below the table; the others are not."""
    decision = decided()
    one = next(task for task in decision.tasks if task.task == "map")
    cut = replace(one, proposed=9, desired=4, amendments=(Amendment(rule="max_step", before=9, after=4),))
    text = " ".join(screen(explanation(replace(decision, tasks=(cut, replace(cut, task="other"))), NOTHING)).split())
    assert "max_step 9 -> 4" in text
    assert text.count("max_step: one decision changes a task only so far") == 1
    assert "bounds:" not in text


def test_what_a_rescale_cost_is_told() -> None:
    """The wait and the standstill that the actuator measured."""
    decision = decided()
    way = course(decision)
    applied = replace(way.progress[0], waited_ms=3_400, still_ms=700)
    text = screen(explanation(decision, Aftermath(way.outcomes, way.commands, (applied,), ())))
    assert "waited 3.4 s, down for 0.7 s" in " ".join(text.split())


def test_an_end_that_nobody_reported_says_so() -> None:
    """Whether the engine showed it or not."""
    decision = decided()
    way = course(decision)
    shown = replace(way.progress[0], status="applied", code="", detail="no actuator reported; the engine shows it")
    failed = replace(way.progress[0], status="failed", code="NOT_REPORTED", detail="no actuator reported")
    for end, words in ((shown, "applied"), (failed, "failed")):
        text = " ".join(screen(explanation(decision, Aftermath(way.outcomes, way.commands, (end,), ()))).split())
        assert words in text
        assert " ".join(filter(None, (end.code, end.detail))) in text


def test_where_the_gate_stands_is_told_in_words() -> None:
    """No name of a phase, no code: what it does, until when, by which command."""
    decision = decided()
    for summary, words in (
        (
            JobSummary(phase="Cooldown", pending=WaitingAct(decision_id=decision.decision_id, reason="backoff", until_ms=60_000)),
            "now: backing off after a failed rescale, until 1970-01-01 00:01:00",
        ),
        (
            JobSummary(phase="Transitioning", underway=CommandUnderway(decision_id=decision.decision_id, command_id="c#1")),
            "now: rescaling, by c#1",
        ),
    ):
        assert words in screen(explanation(decision, NOTHING, gate=about(summary, decision.decision_id)))
