"""An explained decision as a value and on the screen, and deciding again, without Kafka."""

import io
import re
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from contracts.commands import Balance, Outcome, Progress, RescheduleCommand, SlotMove, TaskChange
from contracts.decisions import Amendment, Compared, Decision, LookedAt, PolicyUsed
from contracts.errors import SettingsError
from contracts.job_settings import JobSettings
from contracts.messages import EngineEvent
from contracts.own_acts import OwnAct
from contracts.rescaler_state import CommandUnderway, JobSummary, WaitingAct
from contracts.topics import DECISIONS
from contracts.windows import encode_window
from contracts.wire import encode
from policies.registry import SHIPPED
from policies.released_policy import card_hash
from services.agent.answerer import Answerer
from services.recomputation.counterfactual import without
from services.recomputation.question import CannotRecompute, question_of
from services.recomputation.records import NotInKafka, settings_named
from services.tools.explain.explanation import Explanation, OwnActExplanation, explanation, heaviest_minutes, own_act_explanation
from services.tools.explain.gate import about
from services.tools.explain.lookup import Aftermath, FoundOwnAct, find_decision, names_command
from services.tools.explain.recompute import recompute
from services.tools.explain.screen import show
from tests.support.builders import JOB, window_at

WINDOW = window_at(600)
SETTINGS = JobSettings(job=JOB)
NOTHING = Aftermath((), (), (), ())


def decided(policy: str = "target-utilisation") -> Decision:
    """Return a decision on the window of minute 600."""
    decision = Answerer(lambda job: SETTINGS, policy=policy, folder="", seed=3).answer(encode_window(WINDOW))
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


def screen(explained: Explanation | OwnActExplanation) -> str:
    """Return the screen as text."""
    console = Console(file=io.StringIO(), width=160, highlight=False)
    show(explained, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_screen_tells_the_whole_way() -> None:
    """Window, ratio, sizes, gate, command with units, progress and events stand on it, in the order of time."""
    decision = decided()
    text = screen(explanation(decision, course(decision)))
    for words in (decision.decision_id, "minutes known", "records/min", "map", "8, 9", "applied, 60 s", "job restarted"):
        assert words in text
    assert text.index("pending: resting after a rescale") < text.index("commanded: in full") < text.index("applied, 60 s")


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
    way = Aftermath(way.outcomes, (replace(way.commands[0], changes=changes),), way.progress, way.events)
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
    compared = Compared(subtasks=60, score=0.287, present_subtasks=48, present_score=0.283, gain_needed=0.01, unit=unit)
    held = replace(decided("hold"), tasks=tasks, compared=compared)
    text = screen(explanation(held, NOTHING, labels={f"{number:032}": f"map-{number}" for number in range(12)}))
    assert "60 subtasks 0.2870, the present 48 subtasks 0.2830: +0.0040, less than the 0.0100 that a change must gain" in text
    assert f"score = {unit}; higher is better" in text
    assert re.search(r"map-11 +2 +11% +7 +2", text)
    assert "0" * 30 not in text
    assert "and 4 more tasks" in text


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
    anchors = tuple(LookedAt(minute_end_ms=60_000 * minute, weight=minute / 10) for minute in range(5))
    task = replace(decided().tasks[0], looked_at=anchors)
    assert heaviest_minutes(task, 60_000 * 5) == "-1 min 40%; -2 min 30%; -3 min 20%"


@pytest.mark.parametrize("policy", ["target-utilisation", "hold", "sure", "no-such-model"])
def test_deciding_again_gives_the_same_bytes(policy: str) -> None:
    """Rule, model and fallback alike: the same window, settings and seed give the same record."""
    decision = decided(policy)
    again = recompute(encode(decision), decision, WINDOW, SETTINGS, "")
    assert again.same, again.differences


def test_other_settings_are_found_out() -> None:
    """Decided again under other bounds the answer differs, and the fields that differ are named."""
    decision = decided()
    again = recompute(encode(decision), decision, WINDOW, JobSettings(job=JOB, parallelism_max=2), "")
    assert not again.same
    assert any(line.startswith("map: ") for line in again.differences)
    assert "NOT the same" in screen(explanation(decision, NOTHING, recomputed=again))


def test_the_document_has_an_answer_of_today_only_after_deciding_again() -> None:
    """Programs find the key ``recomputed`` exactly when it was asked for."""
    decision = decided()
    again = recompute(encode(decision), decision, WINDOW, SETTINGS, "")
    assert "recomputed" not in msgspec.to_builtins(explanation(decision, NOTHING))
    answer = msgspec.to_builtins(explanation(decision, NOTHING, recomputed=again))["recomputed"]
    assert answer == {"same": True, "differences": (), "desired": {task.task: task.desired for task in decision.tasks}}


def test_a_window_that_is_gone_is_said() -> None:
    """Without the window nothing can be decided again; the message names it."""
    decision = decided()
    with pytest.raises(CannotRecompute, match="no longer in Kafka"):
        recompute(encode(decision), decision, None, SETTINGS, "")


def test_settings_that_are_gone_are_said() -> None:
    """Without the settings of that version nothing can be decided again."""
    decision = decided()
    with pytest.raises(CannotRecompute, match="settings version 0"):
        recompute(encode(decision), decision, WINDOW, None, "")


def test_a_model_that_is_gone_is_said() -> None:
    """A model of another hash than the one that decided is not taken for it."""
    decision = decided("sure")
    other = Decision(**{name: getattr(decision, name) for name in Decision.__struct_fields__} | {"policy": _used("e" * 64)})
    assert decision.policy.sha256 == card_hash(SHIPPED / "sure")
    with pytest.raises(CannotRecompute, match="the model is not available: sure of hash eeeeeeeeeeee"):
        recompute(encode(other), other, WINDOW, SETTINGS, "")


def _used(sha256: str) -> PolicyUsed:
    return PolicyUsed(name="sure", sha256=sha256, asked="sure")


def test_the_gate_is_told_only_while_it_is_about_the_decision() -> None:
    """The rescaler's memory of a job belongs to one decision at a time."""
    summary = JobSummary(phase="Cooldown", pending=WaitingAct(decision_id="d", reason="cooldown", until_ms=5))
    told = about(summary, "d")
    assert told is not None
    assert (told.phase, told.wakes_up_ms) == ("Cooldown", 5)
    assert about(summary, "other") is None


@pytest.mark.parametrize(
    ("wanted", "is_one"),
    [("sim/clicks#4.1", True), ("sim/Job #3", False), ("sim/Job #3@600000/sure", False), ("sim/Job #3#4.1", True)],
)
def test_a_command_is_known_by_its_end(wanted: str, is_one: bool) -> None:
    """A number sign within a job's name makes no command of the job."""
    assert names_command(wanted) is is_one


class _Records:
    """Topics in pieces, the newest first, as ``Log`` gives them; append times are places within all pieces."""

    def __init__(self, topics: dict[str, list[list[bytes]]]) -> None:
        self._topics = topics

    def newest_first(self, topic: str) -> list[list["_Record"]]:
        pieces = self._topics.get(topic, [])
        begins = [sum(map(len, pieces[at + 1 :])) for at in range(len(pieces))]
        return [
            [_Record(value, begin + at) for at, value in enumerate(piece)] for begin, piece in zip(begins, pieces, strict=True)
        ]


class _Record:
    def __init__(self, value: bytes, at: int) -> None:
        self._value, self._at = value, at

    def value(self) -> bytes:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return 1, self._at


def test_a_job_whose_name_ends_like_a_commands_is_found_all_the_same() -> None:
    """No command is of that name, so it is the job's; a name of neither is said to be no command."""
    decision = replace(decided(), job="sim/etl #1.2", decision_id="sim/etl #1.2@36000000/hold")
    log: Any = _Records({DECISIONS: [[encode(decision)]]})
    assert find_decision(log, "sim/etl #1.2").decision == decision
    with pytest.raises(NotInKafka, match=r"no command 'sim/etl #1\.3' is in Kafka"):
        find_decision(log, "sim/etl #1.3")


def test_what_became_of_a_decision_is_looked_for_from_its_first_record_on() -> None:
    """Delivered again it may stand in a newer piece than the first time; the outcome lies between the two."""
    older, decision = replace(decided(), decision_id="older"), decided()
    log: Any = _Records({DECISIONS: [[encode(decision)], [encode(older), encode(decision)]]})
    assert find_decision(log, JOB).append_ms == 1
    assert find_decision(log, "older").append_ms == 0


def test_of_two_settings_of_one_version_those_count_that_the_decision_could_know() -> None:
    """Two who changed them at the same time chose the same version; the decision fell between their records."""
    said = [(JobSettings(job=JOB, version=2, priority=at), at) for at in (100, 200, 300)]
    decision = replace(decided(), settings_version=2)
    assert [settings_named(said, decision, at) for at in (250, 50)] == [said[1][0], said[0][0]]
    assert settings_named(said, replace(decision, settings_version=3), 250) is None
    assert settings_named([], replace(decision, settings_version=0), 250) == JobSettings(job=JOB)


def test_amendments_are_told_in_words() -> None:
    """Each guardrail that changed something is explained once, below the table; the others are not."""
    decision = decided()
    one = next(task for task in decision.tasks if task.task == "map")
    cut = replace(one, proposed=9, desired=4, amendments=(Amendment(rule="max_step", before=9, after=4),))
    text = " ".join(screen(explanation(replace(decision, tasks=(cut, replace(cut, task="other"))), NOTHING)).split())
    assert "max_step 9 -> 4" in text
    assert text.count("max_step: one decision changes a task only by so much") == 1
    assert "bounds:" not in text


def test_what_a_rescale_cost_is_told() -> None:
    """The wait and the standstill that the actuator measured."""
    decision = decided()
    way = course(decision)
    applied = replace(way.progress[0], waited_ms=3_400, still_ms=700)
    text = screen(explanation(decision, Aftermath(way.outcomes, way.commands, (applied,), ())))
    assert "waited 3.4 s, stood still 0.7 s" in " ".join(text.split())


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


def test_a_command_without_its_step_is_answered_with_how_to_name_it() -> None:
    """A job may be called so, which is why it is not taken for a command."""
    log: Any = _Records({DECISIONS: [[encode(decided())]]})
    with pytest.raises(NotInKafka, match=r"a command is named with its step, such as 'sim/clicks#3\.0'$"):
        find_decision(log, "sim/clicks#3")
    with pytest.raises(NotInKafka, match=r"`surescale state` lists the jobs$"):
        find_decision(log, "sim/clack")


def test_where_the_gate_stands_is_told_in_words() -> None:
    """No name of a phase, no code: what it does, until when, by which command."""
    decision = decided()
    for summary, words in (
        (
            JobSummary(phase="Cooldown", pending=WaitingAct(decision_id=decision.decision_id, reason="backoff", until_ms=60_000)),
            "now: resting after a failed rescale, until 1970-01-01 00:01:00",
        ),
        (
            JobSummary(phase="Transitioning", underway=CommandUnderway(decision_id=decision.decision_id, command_id="c#1")),
            "now: rescaling, by c#1",
        ),
    ):
        assert words in screen(explanation(decision, NOTHING, gate=about(summary, decision.decision_id)))


def test_a_decision_is_made_again_without_a_task_or_a_minute() -> None:
    """What was not reported cannot weigh: without the last minutes' load the answer differs, and only what differs is shown."""
    decision = decided("sure")
    asked = question_of(decision, WINDOW, SETTINGS, "")
    assert encode(asked.answer(WINDOW)) == encode(decision)
    names = ("map", "0", "-59", "10:00")
    answers = without(asked, names)
    assert [each.without for each in answers] == list(names)
    assert replace(answers[1], without="10:00") == answers[3]
    text = screen(explanation(decision, NOTHING, without=answers))
    for each in answers:
        line = next(line for line in text.splitlines() if line.startswith(f"{each.without} "))
        assert ("the same sizes" in line) is (not each.sizes)
        assert all(before != after for before, after in each.sizes.values())


def test_without_what_is_not_there_is_refused() -> None:
    """The line names the tasks and the minutes that there are."""
    asked = question_of(decided(), WINDOW, SETTINGS, "")
    for name in ("mup", "-60", "11:00", "1"):
        with pytest.raises(
            SettingsError, match=f"no task or minute '{name}'; tasks: .*map.*; minutes: 09:01 to 10:00, or -59 to 0"
        ):
            without(asked, (name,))


def test_without_a_task_its_neighbours_still_answer() -> None:
    """A task whose figures are gone keeps its size: nothing says that it needs another."""
    decision = decided()
    assert {task.task: task.desired for task in decision.tasks}["map"] == 4
    (answer,) = without(question_of(decision, WINDOW, SETTINGS, ""), ("map",))
    assert answer.sizes["map"] == (4, 2)
    assert "map      hold: map 2 instead of 4" in screen(explanation(decision, NOTHING, without=(answer,)))
