"""A decision made again: the same bytes, what is missing for it, and without a task or a minute."""

import msgspec
import pytest
from msgspec.structs import replace

from surescale.contracts.decisions import Decision, PolicyUsed
from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.wire import encode
from surescale.policies.registry import SHIPPED
from surescale.policies.released_policy import card_hash
from surescale.services.recomputation.counterfactual import CannotRecompute, question_of, without
from surescale.services.recomputation.records import settings_named
from surescale.services.tools.explain.explanation import explanation, recompute
from tests.support.builders import JOB
from tests.support.explained import NOTHING, SETTINGS, WINDOW, decided, screen


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


def test_of_two_settings_of_one_version_those_count_that_the_decision_could_know() -> None:
    """Two who changed them at the same time chose the same version; the decision fell between their records."""
    said = [(JobSettings(job=JOB, version=2, priority=at), at) for at in (100, 200, 300)]
    decision = replace(decided(), settings_version=2)
    assert [settings_named(said, decision, at) for at in (250, 50)] == [said[1][0], said[0][0]]
    assert settings_named(said, replace(decision, settings_version=3), 250) is None
    assert settings_named([], replace(decision, settings_version=0), 250) == JobSettings(job=JOB)


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
