"""Events from a real Kafka through the state service to a real HTTP receiver."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import KafkaException, TopicPartition
from redis.client import Pipeline

from surescale.contracts import topics
from surescale.contracts.job_settings import JobSettings, Pause
from surescale.contracts.messages import DeadLetter, JobTopology
from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.contracts.topics import notify_group
from surescale.runtime.kafka import consumer
from surescale.runtime.metrics import READY
from surescale.runtime.ports import free_port
from surescale.services.doctor import checks
from surescale.services.state import metrics
from surescale.services.state.connection import connect
from surescale.services.state.notify.lease import HELD_FOR_S, NAME, Lease
from surescale.services.state.read.queries import Queries
from surescale.services.state.write.view_store import ViewStore
from tests.support import view_pipeline, webhook_receiver
from tests.support.builders import JOB, topology
from tests.support.command_line import SURESCALE
from tests.support.metrics import scraped
from tests.support.view_pipeline import a_pipeline, get, send
from tests.support.waiting import PATIENT_S, wait_until
from tests.support.webhook_receiver import KEY, TAKE, Receiver, a_receiver, answer, drip, flood, hang_up, listening

pytestmark = pytest.mark.integration
settings, store, processes = view_pipeline.settings, view_pipeline.store, view_pipeline.processes
service, surescale = view_pipeline.service, view_pipeline.surescale


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver on this machine."""
    with a_receiver() as made:
        yield made


@pytest.fixture
def notifying(service: Callable[..., str], receiver: Receiver, tmp_path: Path) -> Callable[..., str]:
    """Start the state service so that it tells the receiver, with a signature."""
    (tmp_path / "key").write_text(KEY)
    base = {
        "SURESCALE_NOTIFY_URL": receiver.url,
        "SURESCALE_NOTIFY_PRIVATE": "true",
        "SURESCALE_NOTIFY_KEY_FILE": str(tmp_path / "key"),
    }
    return lambda **more: service(**(base | {"SURESCALE_NOTIFY_TIMEOUT_SECONDS": "1"} | more))


def size(version: int, parallelism: int, *, job: str = JOB) -> tuple[str, str, JobTopology]:
    """A topology of the job with this size."""
    base = topology(version)
    source, task, sink = base.tasks
    changed = msgspec.structs.replace(task, parallelism=parallelism, units=())
    return topics.JOB_TOPOLOGY, job, msgspec.structs.replace(base, job=job, tasks=(source, changed, sink))


def marks(settings: PipelineSettings) -> int:
    """How far the webhook was told, over the partitions of the topologies; -1 before the first start is over."""
    client = consumer(settings, notify_group(settings.topic_prefix))
    try:
        name = f"{settings.topic_prefix}{topics.JOB_TOPOLOGY}"
        asked = [TopicPartition(name, number) for number in range(topics.JOB_PARTITIONS)]
        found = [each.offset for each in client.committed(asked, timeout=10)]
        return -1 if min(found) < 0 else sum(found)
    except KafkaException:  # the group is looked after by nobody yet
        return -1
    finally:
        client.close()


def begun(settings: PipelineSettings) -> None:
    """Wait until the first start has set its marks: what comes now is told."""
    wait_until(lambda: marks(settings) >= 0, what="the first marks")


def sizes_told(receiver: Receiver) -> list[int]:
    """Sizes of the job in the order in which they were told."""
    return [event["data"]["subtasks"] for event in list(receiver.taken) if event["type"] == "surescale.job.resized"]


def test_what_happens_is_told_signed_and_in_order(
    settings: PipelineSettings, notifying: Callable[..., str], receiver: Receiver
) -> None:
    """Nothing of what lies before the first start; what was chosen only; the pipeline's own API answers all the while."""
    send(settings, *a_pipeline())
    api = notifying(SURESCALE_NOTIFY_EVENTS="job.resized,job.paused,job.resumed,record.*")
    begun(settings)
    wait_until(lambda: get(f"{api}/health")[0] == 200, what="a view that is caught up")  # on its own: nobody waits for it
    pause = Pause(why="release", by="ana", at_ms=1)
    letter = DeadLetter(topic="t", partition=0, offset=77, reason="not_json", field="", message="no", refused_by="spark")
    send(settings, size(3, 4))
    wait_until(lambda: receiver.taken, what="the size")
    send(settings, (topics.JOB_SETTINGS, JOB, JobSettings(job=JOB, version=9, pause=pause, set_by="ana")))
    wait_until(lambda: len(receiver.taken) == 2, what="the pause")
    send(settings, (topics.JOB_SETTINGS, JOB, JobSettings(job=JOB, version=10, mode="act", set_by="bo")))
    send(settings, (topics.DEAD_LETTERS, JOB, letter))
    wait_until(lambda: len(receiver.taken) == 4, what="the resumption and the refusal")
    assert sorted(receiver.kinds()) == ["job.paused", "job.resized", "job.resumed", "record.refused"]
    assert receiver.taken[0]["data"]["summary"] == (
        "sim/clicks went from 2 to 4 subtasks, not by a command of surescale: map 2 -> 4"
    )
    assert receiver.taken[1]["data"]["summary"] == "rescaling of sim/clicks is paused by ana until further notice: release"
    assert all("webhook-signature" in headers for headers, _ in receiver.requests)
    assert get(f"{api}/health")[0] == 200


def test_a_receiver_that_was_away_is_told_everything_in_order(
    settings: PipelineSettings, store: ViewStore, notifying: Callable[..., str], receiver: Receiver
) -> None:
    """Meanwhile the view goes on and the service is ready; the failure has a metric, which ends with it."""
    send(settings, size(1, 2))
    receiver.answers = [answer(503)]
    notifying()
    begun(settings)
    send(settings, *(size(version, version) for version in range(3, 9)))
    wait_until(lambda: len(receiver.requests) >= 3, what="a third attempt, so that two have been counted")
    queries = Queries(store.client, settings.topic_prefix)
    wait_until(lambda: (shown := queries.job(JOB).topology) is not None and shown.record.version == 8, what="the view")
    page = scraped(settings.health_port)
    assert page[metrics.NOTIFY_FAILING] > 0
    assert page.of(metrics.NOTIFY_ATTEMPTS, answer="5xx") >= 2
    wait_until(lambda: scraped(settings.health_port)[READY] == 1.0, what="the service to be ready, though nobody takes events")
    receiver.answers = [TAKE]
    wait_until(lambda: sizes_told(receiver) == [3, 4, 5, 6, 7, 8], 60, "all sizes")
    wait_until(lambda: scraped(settings.health_port)[metrics.NOTIFY_FAILING] == 0, what="the end of the failure")


def test_a_restart_tells_what_happened_meanwhile_and_no_history(
    settings: PipelineSettings,
    notifying: Callable[..., str],
    receiver: Receiver,
    processes: list["subprocess.Popen[bytes]"],
) -> None:
    """However it ended: killed with an event on its way, that one may come again, under the same id."""
    send(settings, size(1, 2))
    notifying()
    begun(settings)
    send(settings, size(3, 3))
    wait_until(lambda: sizes_told(receiver) == [3], what="the first size")
    processes[-1].terminate()
    assert processes.pop().wait(PATIENT_S) == 0
    send(settings, size(4, 4))
    receiver.answers = [answer(503)]
    asked = len(receiver.requests)
    notifying()
    wait_until(lambda: len(receiver.requests) > asked, what="an attempt")
    processes[-1].send_signal(signal.SIGKILL)
    processes.pop().wait(PATIENT_S)
    send(settings, size(5, 5))
    receiver.answers = [TAKE]
    notifying()
    wait_until(lambda: sizes_told(receiver) == [3, 4, 5], what="the sizes since")
    ids = {
        event["data"]["subtasks"]: {each["id"] for _, each in receiver.requests if each["data"] == event["data"]}
        for event in receiver.taken
    }
    assert all(len(same) == 1 for same in ids.values())


def test_of_two_services_one_tells_and_the_other_goes_on(
    settings: PipelineSettings,
    store: ViewStore,
    notifying: Callable[..., str],
    receiver: Receiver,
    processes: list["subprocess.Popen[bytes]"],
) -> None:
    """Each size once, also after the one that told was killed, and after the next one was stopped."""
    send(settings, size(1, 2))
    for _ in range(2):
        api = notifying(SURESCALE_HEALTH_PORT=str(free_port()))
        wait_until(lambda api=api: get(f"{api}/health")[0] == 200, what="a view that is caught up")  # type: ignore[misc]
    begun(settings)
    send(settings, size(3, 3), size(4, 4))
    wait_until(lambda: sizes_told(receiver) == [3, 4], what="the sizes")
    holder = next(each for each in processes if each.pid == teller(store))
    holder.send_signal(signal.SIGKILL)
    processes.remove(holder)
    holder.wait(PATIENT_S)
    send(settings, size(5, 5))
    wait_until(lambda: sizes_told(receiver) == [3, 4, 5], what="the next size")
    (other,) = processes
    assert teller(store) == other.pid
    notifying(SURESCALE_HEALTH_PORT=str(free_port()))
    processes.remove(other)
    other.terminate()
    assert other.wait(PATIENT_S) == 0
    send(settings, size(6, 6))
    wait_until(lambda: sizes_told(receiver) == [3, 4, 5, 6], what="the last size")
    assert teller(store) == processes[-1].pid
    assert len({event["id"] for event in receiver.taken}) == len(receiver.taken)


def teller(store: ViewStore) -> int:
    """The process that holds the lease; 0: none."""
    held = store.client.get(store.key(NAME))
    return int(str(held).split("/")[1]) if held else 0


def test_a_lease_has_one_holder(settings: PipelineSettings, store: ViewStore) -> None:
    """It goes to another one when it is let go or lost, and a late renewal changes nothing; without Redis all stays as it was."""
    away = connect(f"redis://127.0.0.1:{free_port()}/0")
    one, two = Lease(store.client, store.key(NAME)), Lease(store.client, store.key(NAME))
    for first, second in ((one, two), (two, one)):
        for _ in range(2):
            first.renew()
            second.renew()
            assert (first.is_ours, second.is_ours) == (True, False)
        first.release()
    one.renew()
    store.client.delete(store.key(NAME))  # by a flush, or since it was not renewed in time
    two.renew()
    one.renew()
    assert (one.is_ours, two.is_ours) == (False, True)
    for each, tells in ((one, False), (two, True), (Lease(store.client, store.key(NAME)), True)):
        each._client = away
        each.renew()
        assert each.is_ours is tells
    assert 0 < store.client.pttl(store.key(NAME)) <= HELD_FOR_S * 1000
    away.close()


def test_a_lease_that_another_takes_meanwhile_is_not_renewed(store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor let go: it ended between the look at it and the change."""
    key = store.key(NAME)
    lease, multi = Lease(store.client, key), Pipeline.multi

    def late(pipe: Pipeline) -> None:
        store.client.set(key, "another", px=10_000)
        multi(pipe)

    for act in (lease.renew, lease.release):
        store.client.delete(key)
        lease.renew()
        with monkeypatch.context() as patched:
            patched.setattr(Pipeline, "multi", late)
            act()
        assert (lease.is_ours, store.client.get(key)) == (False, "another")
        assert store.client.pttl(key) <= 10_000


def test_a_receiver_that_is_killed_and_comes_back(settings: PipelineSettings, notifying: Callable[..., str]) -> None:
    """Nobody listens at its address for a while."""
    send(settings, size(1, 2))
    gone = Receiver(free_port())
    notifying(SURESCALE_NOTIFY_URL=gone.url, SURESCALE_NOTIFY_PRIVATE="true")
    begun(settings)
    send(settings, size(3, 3))
    wait_until(lambda: scraped(settings.health_port)[metrics.NOTIFY_FAILING] > 0, what="the failure")
    with listening(gone):
        wait_until(lambda: sizes_told(gone) == [3], 60, "the size")
    send(settings, size(4, 4))
    with listening(gone):
        wait_until(lambda: sizes_told(gone) == [3, 4], 60, "the next size")


@pytest.mark.parametrize(
    "hostile", [drip, flood, hang_up, answer(302, Location="http://127.0.0.1:1/"), answer(429, Retry_After="1")]
)
def test_hostile_answers_delay_an_event_and_nothing_else(
    settings: PipelineSettings, notifying: Callable[..., str], receiver: Receiver, hostile: webhook_receiver.Answer
) -> None:
    """It comes with the next attempt; the view is written meanwhile."""
    send(settings, size(1, 2))
    receiver.answers = [hostile, TAKE]
    notifying()
    begun(settings)
    send(settings, size(3, 3))
    wait_until(lambda: sizes_told(receiver) == [3], what="the size")
    assert [event["id"] for _, event in receiver.requests] == [receiver.taken[0]["id"]] * 2
    wait_until(lambda: scraped(settings.health_port)[metrics.NOTIFY_ATTEMPTS] == 2, what="both attempts to be counted")


def test_what_will_never_be_taken_holds_up_nothing(
    settings: PipelineSettings, notifying: Callable[..., str], receiver: Receiver
) -> None:
    """It is counted, and the next event comes."""
    send(settings, size(1, 2))
    receiver.answers = [answer(400), TAKE]
    notifying()
    begun(settings)
    send(settings, size(3, 3), size(4, 4))
    wait_until(lambda: sizes_told(receiver) == [4], what="the second size")
    wait_until(lambda: scraped(settings.health_port)[metrics.NOTIFICATIONS] == 2, what="the counts")
    assert scraped(settings.health_port).of(metrics.NOTIFICATIONS, kind="job.resized", result="refused") == 1


def test_an_event_that_is_too_old_is_left_out(
    settings: PipelineSettings, notifying: Callable[..., str], receiver: Receiver
) -> None:
    """The attempts end then, and newer ones go on."""
    send(settings, size(1, 2))
    receiver.answers = [answer(503)]
    notifying(SURESCALE_NOTIFY_KEEP_HOURS="0.0005")  # 1.8 s
    begun(settings)
    send(settings, size(3, 3))
    wait_until(lambda: receiver.requests, what="an attempt")
    counted = metrics.NOTIFICATIONS
    wait_until(lambda: ("job.resized", "too_old") in scraped(settings.health_port).labels(counted), what="the end of attempts")
    receiver.answers = [TAKE]
    send(settings, size(4, 4))
    wait_until(lambda: sizes_told(receiver) == [4], what="the newer size")


def test_only_the_chosen_clusters_are_told(settings: PipelineSettings, notifying: Callable[..., str], receiver: Receiver) -> None:
    """Of other clusters, nothing."""
    others = "prod/clicks"
    send(settings, size(1, 2), size(1, 2, job=others))
    notifying(SURESCALE_NOTIFY_CLUSTERS="prod")
    begun(settings)
    send(settings, size(3, 3))
    send(settings, size(3, 3, job=others))
    wait_until(lambda: receiver.taken, what="the size")
    assert [event["subject"] for event in receiver.taken] == [others]


def test_a_setting_that_cannot_be_used_ends_the_start_with_one_line(settings: PipelineSettings, tmp_path: Path) -> None:
    """As with every other setting."""
    environment = os.environ | to_environment(settings)
    environment |= {"SURESCALE_NOTIFY_URL": "http://127.0.0.1:9/", "SURESCALE_NOTIFY_KEY_FILE": str(tmp_path / "none")}
    ended = subprocess.run(
        [*SURESCALE, "run", "state-service"], env=environment, capture_output=True, text=True, timeout=PATIENT_S
    )
    assert ended.returncode != 0
    assert ended.stderr.count("\n") == 1
    assert "SURESCALE_NOTIFY_KEY_FILE: " in ended.stderr


def test_doctor_says_how_the_webhook_does_and_sends_it_an_event(
    settings: PipelineSettings,
    notifying: Callable[..., str],
    receiver: Receiver,
    surescale: Callable[..., tuple[int, str, str]],
) -> None:
    """That it was told nothing, that it keeps up, that it takes no events; and what it answers to a test."""
    base = {"SURESCALE_NOTIFY_URL": receiver.url, "SURESCALE_NOTIFY_PRIVATE": "true"}

    def doctor(*options: str) -> list[tuple[str, str]]:
        _, out, _ = surescale("doctor", "--json", *options, **base)
        return [(each["verdict"], each["detail"]) for each in json.loads(out) if each["subject"] == "webhook"]

    shown = f"http://127.0.0.1:{receiver.port}"
    assert doctor() == [("warning", f"{shown} got nothing yet")]
    send(settings, size(1, 2))
    notifying()
    begun(settings)
    (well, tried) = doctor("--test-notification")
    assert (well[0], tried) == ("ok", ("ok", f"{shown} took a test event"))
    assert receiver.kinds() == ["test"]
    receiver.answers = [answer(503)]
    send(settings, size(3, 3))
    (_, tried) = doctor("--test-notification")
    assert tried == ("problem", f"{shown} answers 503 Service Unavailable")


def test_doctor_says_since_when_a_webhook_takes_nothing(
    settings: PipelineSettings,
    notifying: Callable[..., str],
    receiver: Receiver,
    surescale: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the age of the oldest record that it was not told about."""
    monkeypatch.setattr(checks, "WAITING_S_MAX", 0.5)
    send(settings, size(1, 2))
    receiver.answers = [answer(503)]
    notifying()
    begun(settings)
    send(settings, size(3, 3))
    wait_until(lambda: len(receiver.requests) >= 3, what="attempts")
    _, out, _ = surescale("doctor", "--json", SURESCALE_NOTIFY_URL=receiver.url, SURESCALE_NOTIFY_PRIVATE="true")
    (found,) = (each for each in json.loads(out) if each["subject"] == "webhook")
    assert found["verdict"] == "warning"
    assert "has not received 1 record yet; the oldest is" in found["detail"]
