"""The view when something is killed, away, flushed or overtaken: nothing left out, nothing counted twice."""

import dataclasses
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import redis
from msgspec.structs import replace

from surescale.contracts import topics
from surescale.contracts.messages import DeadLetter, EngineEvent
from surescale.contracts.settings import PipelineSettings
from surescale.runtime.kafka import admin_client, create_topics
from surescale.services.local_stack.servers import LocalRedis
from surescale.services.state.read.queries import Queries
from surescale.services.state.write.operations import Operation
from surescale.services.state.write.projector import Projector, ViewOfOthers
from surescale.services.state.write.view_store import Positions, ViewStore
from tests.conftest import KafkaForTests
from tests.support import view_pipeline
from tests.support.builders import JOB
from tests.support.view_pipeline import LOG, SPANS, a_pipeline, decision, dumped, get, send
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration
settings, store, projector = view_pipeline.settings, view_pipeline.store, view_pipeline.projector
processes, service = view_pipeline.processes, view_pipeline.service


def test_a_new_projector_goes_on_where_the_last_one_was(
    settings: PipelineSettings, store: ViewStore, projector: Projector
) -> None:
    """After a restart only new records are read, because the view holds the offsets it covers."""
    send(settings, *a_pipeline())
    projector.catch_up(30)
    send(settings, (topics.DECISIONS, "sim", decision(SPANS + 1)))
    second = Projector(settings, store, LOG)
    assert second.catch_up(30) == 1
    assert (second.rebuilds, second.records) == (0, 1)
    second.close()


def test_two_projectors_of_one_view_count_nothing_twice(
    settings: PipelineSettings, store: ViewStore, projector: Projector
) -> None:
    """Writers that overtake each other continue from the offsets in the view."""
    other = Projector(settings, store, LOG)
    for writer in (projector, other):
        writer.catch_up(30)
    for start in range(0, 60, 10):
        send(settings, *a_pipeline()[start : start + 10])
        projector.step(0.2)
        other.step(0.2)
    for writer in (projector, other):
        writer.catch_up(30)
    other.close()
    assert Queries(store.client, settings.topic_prefix).counts() == {"windows": 60, "metrics": 240, "late": 60}


class ForgetfulStore(ViewStore):
    """A view whose answers get lost: every other write fails, alternately before and after it was done."""

    writes = 0

    def write(self, operations: Sequence[Operation], positions: Positions, before: Positions) -> bool:
        """Write, and lose the answer; or only lose it."""
        self.writes += 1
        if self.writes % 4 == 1:
            raise redis.ConnectionError("before")
        done = super().write(operations, positions, before)
        if self.writes % 4 == 3:
            raise redis.ConnectionError("after")
        return done


def test_a_write_whose_answer_is_lost_counts_once(settings: PipelineSettings, store: ViewStore) -> None:
    """Whether Redis took a batch before the connection broke is read from the view, not assumed."""
    forgetful = ForgetfulStore(store.client, settings.topic_prefix)
    projector = Projector(settings, forgetful, LOG)
    records = a_pipeline()
    for start in range(0, len(records), 25):
        send(settings, *records[start : start + 25])
        while True:
            try:
                projector.catch_up(30)
                break
            except redis.ConnectionError:
                continue
    projector.close()
    assert forgetful.writes >= 4, "too few to have lost answers of both kinds"
    grown = dumped(store)
    store.flush()
    rebuilt = Projector(settings, store, LOG)
    rebuilt.catch_up(30)
    rebuilt.close()
    assert dumped(store) == grown


class SlowToBegin(ViewStore):
    """A view whose answer to each second beginning gets lost."""

    begun = 0

    def begin(self, positions: Positions, before: Positions | None) -> bool:
        """Begin, and lose the answer or not."""
        self.begun += 1
        done = super().begin(positions, before)
        if self.begun % 2:
            raise redis.TimeoutError("lost")
        return done


def test_a_rebuild_whose_beginning_is_not_answered_is_counted_once(settings: PipelineSettings, store: ViewStore) -> None:
    """Redis took it, and said so too late: a caller that waits for the count would wait for ever."""
    slow = SlowToBegin(store.client, settings.topic_prefix)
    projector = Projector(settings, slow, LOG)
    send(settings, *a_pipeline()[:3])
    for rebuilds in (1, 2):
        if rebuilds == 1:
            with pytest.raises(redis.TimeoutError):
                projector.catch_up(30)
        projector.catch_up(30)
        assert projector.rebuilds == rebuilds
        store.flush()
    projector.close()
    assert slow.begun == 2


def test_nothing_is_lost_or_counted_twice_when_a_write_breaks_off(
    settings: PipelineSettings, store: ViewStore, projector: Projector
) -> None:
    """A key of another kind breaks off the write of a batch: the view is built anew, with that batch."""
    send(settings, *a_pipeline()[:5])
    projector.catch_up(30)
    store.client.set(store.key(f"decisions:{JOB}"), "not a timeline")
    send(settings, (topics.DECISIONS, "sim", decision(1)))
    projector.catch_up(30)
    counts = Queries(store.client, settings.topic_prefix).counts()
    assert (counts["windows"], counts["decisions"], projector.rebuilds) == (5, {"hold": 1}, 2)


def test_a_service_that_is_killed_while_it_takes_in_leaves_nothing_out_and_counts_nothing_twice(
    settings: PipelineSettings, store: ViewStore, processes: list[subprocess.Popen[bytes]], service: Callable[..., str]
) -> None:
    """Killed twice in the middle of a backlog, with a batch under way, it continues exactly at the view's offsets."""
    events = 12_000
    event = EngineEvent(cluster="sim", sequence=0, at_ms=1, kind="job_started", job=JOB)
    numbered = (replace(event, sequence=number) for number in range(events))
    send(settings, *[(topics.ENGINE_EVENTS, "sim", each) for each in numbered])

    def taken() -> int:
        return int(store.client.hget(store.key("counts"), "events.job_started") or 0)

    for at_least in (1, events // 2):
        service()
        wait_until(lambda wanted=at_least: taken() >= wanted, 60, "the middle of the backlog")
        processes[-1].kill()
        processes.pop().wait(PATIENT_S)
    assert taken() < events, "it was killed too late to show anything"
    url = service()
    wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "a ready state service")
    assert Queries(store.client, settings.topic_prefix).counts() == {"events": {"job_started": events}}


def test_a_view_of_another_kafka_is_begun_anew(settings: PipelineSettings, store: ViewStore, projector: Projector) -> None:
    """Offsets beyond the end of the log belong to a broker that is gone: its view is replaced."""
    send(settings, *a_pipeline()[:5])
    projector.catch_up(30)
    at = store.positions()
    assert at is not None
    store.write([], {place: offset + 1_000 for place, offset in at.items()}, at)
    projector.catch_up(30)
    assert store.positions() == at
    assert Queries(store.client, settings.topic_prefix).counts()["windows"] == 5


def test_a_view_flushed_under_a_running_service_comes_back(
    settings: PipelineSettings, store: ViewStore, service: Callable[..., str]
) -> None:
    """A loss as by FLUSHALL is noticed, and the view becomes what it was."""
    send(settings, *a_pipeline())
    url = service()
    wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "a ready state service")
    before = dumped(store)
    store.flush()
    wait_until(lambda: get(f"{url}/health")[1].get("rebuilds") == 2, 30, "a rebuild")
    wait_until(lambda: get(f"{url}/health")[0] == 200, 30, "a ready state service")
    assert dumped(store) == before


def test_a_view_that_is_begun_anew_is_read_with_a_new_client(
    settings: PipelineSettings, store: ViewStore, projector: Projector
) -> None:
    """One that has read a topic which was made again may tell nothing of the new one for minutes: it never caught up."""
    send(settings, *a_pipeline()[:3])
    projector.catch_up(30)
    assert projector._topics is not None
    made_again(settings, topics.DEAD_LETTERS)
    old = projector._topics._client
    store.flush()
    projector.catch_up(30)
    assert projector._topics._client is not old
    with pytest.raises(RuntimeError, match="closed"):
        old.poll(0)


def test_a_topic_that_was_made_again_leaves_nothing_in_the_view(
    settings: PipelineSettings, store: ViewStore, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a flush, too: the view is rebuilt from what is there, even if the new topic has grown past the old one."""
    monkeypatch.setattr("surescale.services.state.write.topic_log.LOOK_FOR_PARTITIONS_EVERY_S", 0.0)
    record = a_letter("old")
    send(settings, *a_pipeline()[:3], record, record)
    projector.catch_up(30)
    made_again(settings, topics.DEAD_LETTERS)
    send(settings, *(a_letter(f"new {number}") for number in range(5)))

    def is_rebuilt() -> bool:
        projector.step(0.2)
        return projector.rebuilds == 2 and projector.caught_up

    wait_until(is_rebuilt, 30, "a rebuild")
    grown = dumped(store)
    assert not any("old" in str(value) for value in grown.values())
    store.flush()
    projector.catch_up(30)
    assert dumped(store) == grown


def test_topics_that_were_made_again_while_nobody_looked_leave_nothing_in_the_view(
    settings: PipelineSettings, store: ViewStore, projector: Projector
) -> None:
    """Though the offsets that the view stands for lie within the new topic, too."""
    send(settings, *a_pipeline()[:3], a_letter("old"))
    projector.catch_up(30)
    projector.close()
    made_again(settings, topics.DEAD_LETTERS)
    send(settings, *(a_letter(f"new {number}") for number in range(5)))
    later = Projector(settings, store, LOG)
    later.catch_up(30)
    later.close()
    assert later.rebuilds == 1
    assert [word in str(dumped(store)) for word in ("old", "new 0")] == [False, True]


def test_two_pipelines_that_write_to_the_same_keys_are_told_and_never_mixed(
    settings: PipelineSettings, store: ViewStore, projector: Projector, kafka: KafkaForTests, caplog: pytest.LogCaptureFixture
) -> None:
    """With as many records each, so that their offsets are the same."""
    other = dataclasses.replace(settings, topic_prefix=kafka.topic_prefix())
    create_topics(other)
    send(settings, a_letter("ours"))
    send(other, a_letter("theirs"))
    with closing(Projector(other, ViewStore(store.client, settings.topic_prefix), LOG)) as second:
        projector.catch_up(30)
        second.catch_up(30)
        assert "theirs" in str(dumped(store))
        assert "ours" not in str(dumped(store))
        assert "each its own database in SURESCALE_REDIS_URL, or its own SURESCALE_TOPIC_PREFIX" in caplog.text

        def is_taken_back() -> bool:
            projector.step(0.2)
            return "ours" in str(dumped(store))

        wait_until(is_taken_back, 30, "the view of the first pipeline")
        assert "theirs" not in str(dumped(store))

        def is_left() -> bool:
            try:
                second.step(0.2)
            except ViewOfOthers:
                return True
            return False

        wait_until(is_left, 30, "the second one to leave it")
        assert not second.is_current
        assert "theirs" not in str(dumped(store))


def a_letter(message: str) -> tuple[str, str, DeadLetter]:
    """Return a dead letter."""
    letter = DeadLetter(
        topic="t", partition=0, offset=len(message), reason="not_json", field="", message=message, refused_by="agent"
    )
    return topics.DEAD_LETTERS, JOB, letter


def made_again(settings: PipelineSettings, topic: str) -> None:
    """Delete a topic and make it again."""
    admin, name = admin_client(settings), f"{settings.topic_prefix}{topic}"
    admin.delete_topics([name])[name].result(20)
    wait_until(lambda: name not in admin.list_topics(timeout=5).topics, 20, "the topic to be gone")
    wait_until(lambda: name in create_topics(settings), 20, "the topic to be made again")


def test_redis_away_is_said_and_waited_for(settings: PipelineSettings, service: Callable[..., str], tmp_path: Path) -> None:
    """Without Redis the API answers 503 and says why; when Redis returns, empty, the view comes back."""
    send(settings, *a_pipeline()[:2])
    server = LocalRedis(tmp_path / "redis")
    url = service(SURESCALE_REDIS_URL=server.url)
    wait_until(lambda: get(url + "/jobs")[0] == 503, 30, "an answer without Redis")
    assert get(f"{url}/health")[0] == 503
    try:
        for _ in range(2):
            server.start()
            server.wait_ready()
            wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "a ready state service")
            assert get(url + "/counts")[1] == {"windows": 2, "metrics": 8, "late": 2}
            server.kill()
            wait_until(lambda: get(url + "/health")[0] == get(url + "/jobs")[0] == 503, 30, "both to say that Redis is away")
    finally:
        server.stop()
    assert "waiting for Redis" in (tmp_path / "state.log").read_text()
