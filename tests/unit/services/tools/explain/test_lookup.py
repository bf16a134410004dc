"""What is named on the command line is found on the topics, or the line says how to name it."""

from typing import Any

import pytest
from msgspec.structs import replace

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import JobTopology
from surescale.contracts.topics import DECISIONS
from surescale.contracts.wire import encode
from surescale.runtime.instants import to_the_minute
from surescale.services.recomputation.records import NotInKafka
from surescale.services.tools.explain.explanation import explanation
from surescale.services.tools.explain.lookup import Surroundings, find_decision, names_command
from tests.support.builders import JOB
from tests.support.explained import NOTHING, decided, screen


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

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return 1, self._at


def test_a_job_whose_name_ends_like_a_commands_is_found_all_the_same() -> None:
    """No command is of that name, so it is the job's; a name of neither is said to be no command."""
    decision = replace(decided(), job="sim/etl #1.2", decision_id="sim/etl #1.2@36000000/target-utilisation")
    log: Any = _Records({DECISIONS: [[encode(decision)]]})
    assert find_decision(log, "sim/etl #1.2").decision == decision
    with pytest.raises(NotInKafka, match=r"no command 'sim/etl #1\.3' is in Kafka"):
        find_decision(log, "sim/etl #1.3")


def test_what_became_of_a_decision_is_looked_for_from_its_first_record_on() -> None:
    """Delivered again it may stand in a newer piece than the first time; the outcome lies between the two."""
    decision = decided()
    older = replace(decision, decision_id=f"{JOB}@0/target-utilisation", span_end_ms=0, figures_until_ms=None)
    log: Any = _Records({DECISIONS: [[encode(decision)], [encode(older), encode(decision)]]})
    assert find_decision(log, JOB).append_ms == 1
    assert find_decision(log, older.decision_id).append_ms == 0


def test_the_newest_decision_says_when_the_next_one_is_due() -> None:
    """By the distance of the job's decisions, as long as the job's figures are not past that; an older one does not."""
    decision = decided()
    end_ms = decision.span_end_ms
    spans = [end_ms - 40 * MINUTE_MS, end_ms - 20 * MINUTE_MS, end_ms]
    made = [
        replace(decision, decision_id=f"{JOB}@{at}/{decision.policy.name}", span_end_ms=at, figures_until_ms=None) for at in spans
    ]
    log: Any = _Records({DECISIONS: [[encode(each) for each in made]]})
    topology = JobTopology(job=JOB, version=1, at_ms=end_ms, tasks=())
    newest = find_decision(log, JOB)
    words = Surroundings({}, None, topology).next_in_words(newest, 10)
    assert words == f"due at {to_the_minute(end_ms + 20 * MINUTE_MS)} UTC, after 20 more minutes of figures"
    past = replace(topology, at_ms=end_ms + 23 * MINUTE_MS)
    late = Surroundings({}, None, past).next_in_words(newest, 10)
    assert late == f"was {words}, and has not come; `surescale job show {JOB}` says what is missing"
    stopped = Surroundings({}, None, replace(topology, state="suspended")).next_in_words(newest, 10)
    assert stopped == "none while the job does not run (suspended)"
    assert Surroundings({}, None, topology).next_in_words(find_decision(log, made[1].decision_id), 10) == ""
    assert "next decision: due at" in screen(explanation(decision, NOTHING, next_in_words=words))


def test_a_command_without_its_step_is_answered_with_how_to_name_it() -> None:
    """A job may be called so, which is why it is not taken for a command."""
    log: Any = _Records({DECISIONS: [[encode(decided())]]})
    with pytest.raises(NotInKafka, match=r"a command is named with its step, such as 'sim/clicks#3\.0'$"):
        find_decision(log, "sim/clicks#3")
    with pytest.raises(NotInKafka, match=r"`surescale job list` lists the jobs$"):
        find_decision(log, "sim/orders")


def test_a_jobs_name_that_is_nearly_right_is_answered_with_the_right_one() -> None:
    """With the rest of a decision's id; a job that is known is never corrected."""
    log: Any = _Records({DECISIONS: [[encode(decided())]]})
    for slip, meant in {"clicks": JOB, "sim/clikcs": JOB, "sim/clikcs@60000/sure": f"{JOB}@60000/sure"}.items():
        with pytest.raises(NotInKafka, match=rf"did you mean {meant}\?$"):
            find_decision(log, slip)
    with pytest.raises(NotInKafka, match=r"`surescale job decisions JOB` lists them$"):
        find_decision(log, f"{JOB}@7/sure")
