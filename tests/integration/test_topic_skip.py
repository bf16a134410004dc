"""The way past a record that stops a role, on a real broker: who skipped what is kept, and nothing is passed over unseen."""

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from surescale.contracts.messages import DeadLetter
from surescale.contracts.settings import to_environment
from surescale.contracts.topics import DEAD_LETTERS, DECISIONS, RESCHEDULE_COMMANDS, TOPICS
from surescale.contracts.wire import decode, encode
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.transactions import partition_of
from surescale.services.tools.topics import command
from tests.conftest import KafkaForTests
from tests.support.controller_world import JOB, START_MS, decision
from tests.support.fake_engine import FakeEngine
from tests.support.rescaler_pipeline import Pipeline, is_active, opened, reader, served
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PARTITION = partition_of("sim", TOPICS[DECISIONS].partitions)


@pytest.fixture
def pipeline(kafka: KafkaForTests) -> Iterator[Pipeline]:
    """A pipeline with an engine and no rescaler yet."""
    engine = FakeEngine(now_ms=START_MS, jobs={JOB})
    with served(engine) as url:
        settings = RescalerSettings(
            bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix(), engine_url=url, pipeline_clock=True
        )
        with opened(settings, engine) as made:
            yield made


def skip(pipeline: Pipeline, *words: str) -> tuple[int, str]:
    """Run the command; return its exit code and what it said."""
    given = ["skip", *words, "--by", "ana", "--why", "it stops the rescaler"]
    done = CliRunner().invoke(command, given, env=to_environment(pipeline.settings))
    return done.exit_code, done.output or str(done.exception)


def test_a_rescaler_goes_on_behind_a_skipped_record(pipeline: Pipeline) -> None:
    """It never answers the record that was skipped; a dead letter says by whom and why."""
    bad, good = decision(START_MS, {"map": 4}), decision(START_MS + 1, {"map": 3})
    pipeline.decide(bad, good)
    code, said = skip(pipeline, DECISIONS, str(PARTITION), "0", "--role", "rescaler")
    assert (code, said.strip()) == (0, f"1 records of decisions[{PARTITION}] skipped; the rescaler continues at 1")
    pipeline.process()
    wait_until(lambda: pipeline.said(good) == [("commanded", "desired")], 60, "the command")
    assert pipeline.said(bad) == []
    letters = reader(pipeline.settings, DEAD_LETTERS)
    (letter,) = [decode(record.value(), DeadLetter) for record in letters.read_to_end()]
    letters.close()
    assert asdict_of(letter) == {
        "topic": f"{pipeline.settings.topic_prefix}{DECISIONS}",
        "partition": PARTITION,
        "offset": 0,
        "reason": "skipped",
        "field": "",
        "message": "skipped by ana: it stops the rescaler",
        "refused_by": "operator",
        "payload": encode(bad).decode(),
    }


def asdict_of(letter: DeadLetter) -> dict[str, object]:
    """Return the fields of a letter."""
    return {name: getattr(letter, name) for name in letter.__struct_fields__}


def test_what_would_lose_records_unseen_is_refused(pipeline: Pipeline) -> None:
    """Another record than the next one, records that do not exist, another topic, a role that runs."""
    pipeline.decide(*(decision(START_MS + at, {"map": 3}) for at in range(3)))
    place = (DECISIONS, str(PARTITION))
    assert (
        "stands at 0, not at 1; to skip all from there on, add --from 0" in skip(pipeline, *place, "1", "--role", "rescaler")[1]
    )
    assert "holds offsets 0 to 2" in skip(pipeline, *place, "7", "--role", "rescaler")[1]
    assert "keeps its position in snapshots" in skip(pipeline, *place, "0", "--role", "agent")[1]
    assert skip(pipeline, *place, "1", "--role", "rescaler", "--from", "0")[0] == 0
    assert "is behind it already" in skip(pipeline, *place, "1", "--role", "rescaler")[1]
    _, port = pipeline.process()
    wait_until(lambda: is_active(port), 60, "the rescaler")
    last = decision(START_MS + 2, {"map": 3})
    wait_until(lambda: pipeline.said(last) == [("commanded", "desired")], 60, "the command")
    for role, topic, offset in (("rescaler", DECISIONS, "2"), ("actuator", RESCHEDULE_COMMANDS, "0")):
        code, said = skip(pipeline, topic, str(PARTITION), offset, "--role", role)
        assert (code, "stop them first" in said) == (1, True)


def test_the_list_of_topics_says_which_exist(kafka: KafkaForTests) -> None:
    """With --check it asks the broker; what is missing is an exit code, and the line says how to create it."""
    environment = {"SURESCALE_BOOTSTRAP": kafka.bootstrap, "SURESCALE_TOPIC_PREFIX": kafka.topic_prefix(), "COLUMNS": "160"}
    missing = CliRunner().invoke(command, ["list", "--check"], env=environment)
    assert missing.exit_code == 1
    assert missing.output.count("missing") == len(TOPICS)
    assert f"topics create --prefix {environment['SURESCALE_TOPIC_PREFIX']}`" in str(missing.exception)
    assert CliRunner().invoke(command, ["create"], env=environment).exit_code == 0
    found = CliRunner().invoke(command, ["list", "--check"], env=environment)
    assert (found.exit_code, found.output.count("missing")) == (0, 0)
    assert CliRunner().invoke(command, ["list"]).output.count("yes") == 0
