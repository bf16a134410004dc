"""The faults, each a function that hurts a running pipeline and undoes what a person would have to undo."""

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import redis
from confluent_kafka import Producer

from surescale.contracts.topics import TOPICS
from surescale.runtime.http import fetch_json
from surescale.runtime.kafka import admin_client, create_topics
from tests.support.faults import crowd
from tests.support.faults.pipeline import CLOCKED, CLUSTER, SERVICES, FaultPipeline
from tests.support.faults.recording import LiveTopics, Record
from tests.support.faults.wire import MINUTE_MS, SAMPLE, document

OUTAGE_S = 60.0
CUT_S = 15.0
JUMP_S, DAY_S = 30.0, 86_400.0
IDLE, HALF = 20_000, 1_500
CROWDS = 5  # processes, each with an address of its own
ANSWER_WITHIN_S, ENDED_WITHIN_S = 5.0, 60.0
FLOOD = 20_000
LATE = 500
_NONSENSE = b'{"events": {}, "jobs": [7]}'
_LIE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(_NONSENSE)


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to hurt a pipeline. ``strike`` returns when the fault is over, before the pipeline has recovered."""

    name: str
    strike: Callable[[FaultPipeline, Random], None]


class NotStruck(Exception):
    """The fault did not come about; the text says why."""


def kill(*names: str) -> Fault:
    """Return kill -9 of some processes at once; they are started again at once."""
    shown = "all roles" if len(names) == len(SERVICES) else " + ".join(sorted(names))
    return Fault(f"kill -9 {shown}", partial(_kill, names=names))


def _kill(pipeline: FaultPipeline, _: Random, *, names: tuple[str, ...]) -> None:
    pipeline.kill(*names)
    pipeline.bring_back(*names)


def away(name: str, seconds: float) -> Fault:
    """Return a server that is killed and comes back after a while."""
    return Fault(f"{name} killed, away {seconds:g} s", lambda pipeline, _: _away(pipeline, name, seconds))


def _away(pipeline: FaultPipeline, name: str, seconds: float) -> None:
    pipeline.kill(name)
    pipeline.rest(seconds)
    pipeline.bring_back(name)


def frozen(name: str, seconds: float) -> Fault:
    """Return a process that stands still for a while (SIGSTOP) and goes on."""

    def strike(pipeline: FaultPipeline, _: Random) -> None:
        with pipeline.frozen(name):
            pipeline.rest(seconds)

    return Fault(f"{name} frozen {seconds:g} s", strike)


def cut(link: str, seconds: float = CUT_S) -> Fault:
    """Return a connection that is broken, and refused for a while."""

    def strike(pipeline: FaultPipeline, _: Random) -> None:
        found = pipeline.link(link)
        pipeline.links.cut(found)
        pipeline.rest(seconds)
        found.restore()

    return Fault(f"{link} cut {seconds:g} s", strike)


def slow(link: str, delay_s: float, seconds: float = CUT_S) -> Fault:
    """Return a connection whose every piece is delayed for a while."""

    def strike(pipeline: FaultPipeline, _: Random) -> None:
        found = pipeline.link(link)
        found.delay_s = delay_s
        pipeline.rest(seconds)
        found.restore()

    return Fault(f"{link} slow by {delay_s:g} s for {seconds:g} s", strike)


def hanging(link: str, seconds: float = CUT_S) -> Fault:
    """Return a connection on which nothing arrives any more, without being closed, for a while."""

    def strike(pipeline: FaultPipeline, _: Random) -> None:
        found = pipeline.link(link)
        found.is_hanging = True
        pipeline.rest(seconds)
        found.restore()
        pipeline.links.drop(found)

    return Fault(f"{link} hangs {seconds:g} s", strike)


def lying(link: str, seconds: float = CUT_S) -> Fault:
    """Return a server that answers every request with 200 and nonsense for a while."""

    def strike(pipeline: FaultPipeline, _: Random) -> None:
        found = pipeline.link(link)
        found.answer = _LIE + _NONSENSE
        pipeline.links.drop(found)
        pipeline.rest(seconds)
        found.restore()

    return Fault(f"{link} lies {seconds:g} s", strike)


def broker_restarted(pipeline: FaultPipeline, _: Random) -> None:
    """Stop the broker in its own order and start it again, as an upgrade does."""
    pipeline.end("kafka")
    pipeline.bring_back("kafka")


def broker_torn(pipeline: FaultPipeline, random: Random) -> None:
    """Cut the broker's power in the midst of writing: garbage at the end of each log, and indexes that make no sense."""
    pipeline.kill("kafka")
    torn = 0
    for log in pipeline.brokers[0].folder.glob("data/*/*.log"):
        if log.parent.name.startswith("__cluster_metadata"):
            continue  # the controller's own, whose writes are flushed before they count
        with log.open("ab") as file:
            file.write(random.randbytes(random.randint(1, 200)))
        for index in (log.with_suffix(".index"), log.with_suffix(".timeindex")):
            index.write_bytes(random.randbytes(13))
        torn += 1
    pipeline.bring_back("kafka")
    if not torn:
        raise NotStruck("the broker has no logs")


def leader_lost(topic: str, seconds: float = CUT_S) -> Fault:
    """Return kill -9 of the broker that leads a topic's first partition; it comes back after a while."""
    return Fault(
        f"leader of {topic} killed, away {seconds:g} s", lambda pipeline, _: _away(pipeline, pipeline.leader(topic), seconds)
    )


def topic_deleted(topic: str) -> Fault:
    """Return a topic that somebody deletes, and makes again a while later."""

    def strike(pipeline: FaultPipeline, _: Random) -> None:
        admin = admin_client(pipeline.settings)
        for future in admin.delete_topics([topic]).values():
            future.result(20)
        pipeline.rest(CUT_S)
        create_topics(pipeline.settings)

    return Fault(f"topic {topic} deleted for {CUT_S:g} s", strike)


def disk_full(whose: str, seconds: float = CUT_S) -> Fault:
    """Return a disk that has no byte left for a while."""

    def strike(pipeline: FaultPipeline, _: Random) -> None:
        folder = pipeline.options.broker_folder if whose == "kafka" else pipeline.options.checkpoint_folder
        assert folder is not None, "a scenario on small disks"
        filler = folder / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        pipeline.rest(seconds)
        filler.unlink()

    return Fault(f"disk of {whose} full {seconds:g} s", strike)


def redis_flushed(pipeline: FaultPipeline, _: Random) -> None:
    """Lose the whole view."""
    with contextlib.closing(redis.Redis.from_url(pipeline.redis.url)) as client:
        client.flushall()


def redis_older(pipeline: FaultPipeline, _: Random) -> None:
    """Lose the newest part of the view: Redis comes back with what a backup held half a minute ago."""
    with contextlib.closing(redis.Redis.from_url(pipeline.redis.url)) as client:
        client.save()
        pipeline.rest(2 * CUT_S)
    backup = pipeline.redis.folder / "dump.rdb"
    if not backup.exists():
        raise NotStruck("Redis wrote no backup")
    pipeline.kill("redis")
    pipeline.bring_back("redis")
    if not pipeline.wait(pipeline.redis.answers, 30.0):
        raise NotStruck("Redis did not come back")
    backup.unlink()  # the next start is an empty one again


def redis_full(pipeline: FaultPipeline, _: Random) -> None:
    """Let Redis refuse every write that needs memory, for a while."""
    with contextlib.closing(redis.Redis.from_url(pipeline.redis.url)) as client:
        client.config_set("maxmemory", "1mb")
        pipeline.rest(CUT_S)
        client.config_set("maxmemory", "0")
        if not client.info("errorstats").get("errorstat_OOM"):
            raise NotStruck("Redis refused no write")


def redis_keys_dropped(pipeline: FaultPipeline, random: Random) -> None:
    """Lose every other key of the view, as an evicting Redis does: somebody must notice, with no record about them."""
    with contextlib.closing(redis.Redis.from_url(pipeline.redis.url)) as client:
        found = sorted(key for key in client.keys("surescale:*") if key != b"surescale:positions")
        before = _rebuilds(pipeline)
        client.delete(*random.sample(found, len(found) // 2))
    if not pipeline.wait(lambda: _rebuilds(pipeline) > before, 60.0):
        raise NotStruck("nobody noticed that keys were gone")


def _rebuilds(pipeline: FaultPipeline) -> int:
    """Return how often the view was rebuilt; 0 while nobody answers, as after a restart."""
    with contextlib.suppress(OSError):
        return int(dict(fetch_json(f"{pipeline.http}health"))["rebuilds"])
    return 0


GARBAGE = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"{",
    b"null",
    b"[]",
    b'{"type":' + b"9" * 4_301 + b"}",
    b'{"type":"\\ud800"}',
    b"[" * 100_000,
    b"SS",
    b"junk" * 50_000,
)
"""What no role wrote, and no reader of the checker takes for a record."""


def garbage_everywhere(pipeline: FaultPipeline, _: Random) -> None:
    """Send to every topic what is no record of it, under keys that are none."""
    client = Producer({"bootstrap.servers": pipeline.settings.bootstrap, "message.max.bytes": 2**24})
    for topic in TOPICS:
        for value in GARBAGE:
            for key in (None, b"\xff\xfe", b"sim/", b"sim/job/", b"x" * 30_000):
                client.produce(topic, value, key)
        client.poll(0)
    if client.flush(60):
        raise NotStruck("the broker did not take the records within a minute")
    ended = len(pipeline.ended)
    pipeline.rest(CUT_S)
    if len(pipeline.ended) > ended:
        raise NotStruck(f"a role ended by them: {pipeline.ended[-1]}")


def memory_poisoned(pipeline: FaultPipeline, _: Random) -> None:
    """Overwrite what the rescaler remembers of one job: it must hold that job, say why, and go on once the record is back."""
    job = f"{CLUSTER}/{pipeline.options.jobs[0]}"
    key = f"{CLUSTER}/job/{job}".encode()
    pipeline.kill("rescaler")
    found = [record for record in LiveTopics(pipeline.settings.bootstrap).records("rescaler-state") if record.key == key]
    if not found or found[-1].value is None:
        pipeline.bring_back("rescaler")
        raise NotStruck("the rescaler remembers nothing of the job yet")
    kept = found[-1]

    def write(value: bytes | None) -> None:
        client = Producer({"bootstrap.servers": pipeline.settings.bootstrap})
        client.produce("rescaler-state", value, key, kept.partition)
        if client.flush(60):
            raise NotStruck("the broker did not take the record within a minute")

    def is_held() -> bool:
        with contextlib.suppress(OSError):
            return any(each["reason"] == "MemoryUnreadable" for each in fetch_json(f"{pipeline.http}jobs/{job}")["conditions"])
        return False

    write(b"\xff no memory")
    pipeline.bring_back("rescaler")
    was_held = pipeline.wait(is_held, 90.0)
    pipeline.kill("rescaler")
    write(kept.value)
    pipeline.bring_back("rescaler")
    if not was_held:
        raise NotStruck("the job was not held")


def spark_inside_a_batch(pipeline: FaultPipeline, _: Random) -> None:
    """Kill the Spark job between the plan of a batch and its commit."""
    of_spark = pipeline.checkpoint / "scratch" / "query"

    def newest(folder: str) -> int:
        with contextlib.suppress(OSError):
            return max((int(each.name) for each in (of_spark / folder).iterdir() if each.name.isdigit()), default=-1)
        return -1

    if not pipeline.wait(lambda: newest("offsets") > newest("commits"), 30.0):
        raise NotStruck("no batch was under way for 30 s")
    pipeline.kill("spark")
    pipeline.bring_back("spark")


def checkpoint_damaged(pipeline: FaultPipeline, _: Random) -> None:
    """Damage the newest state: the job must name it and end; with an empty folder it must go on."""
    pipeline.kill("spark")
    states = sorted((pipeline.checkpoint / "windows").glob("state-*"))
    for state in states:
        raw = bytearray(state.read_bytes())
        raw[len(raw) // 2] ^= 0xFF
        state.write_bytes(raw)
    ended = len(pipeline.ended)
    pipeline.bring_back("spark")
    if not pipeline.wait(lambda: len(pipeline.ended) > ended, 120.0):
        raise NotStruck("the job works on with a damaged state")
    said = pipeline.supervisor.log_path("spark").read_text(errors="replace")
    pipeline.kill("spark")
    if not any(f"{state.name}: the state of batch" in said and "corrupt" in said for state in states):
        raise NotStruck("the job ended and did not name the damaged file")
    del pipeline.ended[ended:]  # it had to end
    _emptied(pipeline.checkpoint)
    pipeline.bring_back("spark")


def machine_lost(pipeline: FaultPipeline, _: Random) -> None:
    """Lose a machine with all that lay on it, and start its roles on another one."""
    pipeline.kill("monitor", "spark")
    _emptied(pipeline.checkpoint)
    pipeline.rest(CUT_S)
    pipeline.bring_back("monitor", "spark")


def clock_off(role: str, seconds: float) -> Fault:
    """Return a role's wall clock that jumps, and jumps back a while later."""

    def strike(pipeline: FaultPipeline, _: Random) -> None:
        with pipeline.clock_off(role, seconds):
            pipeline.rest(CUT_S)

    return Fault(f"clock of {role} jumps {seconds:+g} s for {CUT_S:g} s", strike)


def crowded(pipeline: FaultPipeline, _: Random) -> None:
    """Open connections to the state service that ask nothing, or half: others must be answered, and these be ended."""
    port = pipeline.http.rstrip("/").rpartition(":")[2]
    words = [sys.executable, "-m", crowd.__name__, port]
    counts = [str(each // CROWDS) for each in (IDLE, HALF)]
    crowds = [
        subprocess.Popen([*words, f"127.0.0.{number + 2}", *counts, f"{ENDED_WITHIN_S:g}"], stderr=subprocess.PIPE, text=True)
        for number in range(CROWDS)
    ]
    try:
        while any(each.poll() is None for each in crowds):
            _answered(pipeline)
            pipeline.rest(0.2)
    finally:
        for each in crowds:
            each.kill()
    for each in crowds:
        said = each.communicate()[1]
        if each.returncode:
            raise NotStruck(f"connections were not ended within {ENDED_WITHIN_S:g} s: {said[-200:]}")


def _answered(pipeline: FaultPipeline) -> None:
    try:
        fetch_json(f"{pipeline.http}jobs", timeout_s=ANSWER_WITHIN_S)
    except OSError as error:
        raise NotStruck(f"a whole request was not answered within {ANSWER_WITHIN_S:g} s: {error}") from None


def redis_and_checkpoint(pipeline: FaultPipeline, random: Random) -> None:
    """Lose all state that is not on Kafka, at once."""
    pipeline.kill("redis")
    checkpoint_damaged(pipeline, random)
    pipeline.bring_back("redis")


def _emptied(folder: Path) -> None:
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


def _samples(pipeline: FaultPipeline, limit: int) -> list[tuple[Record, dict[str, Any]]]:
    """Return the pipeline's first samples, as many as ``limit``."""
    found = []
    for record in LiveTopics(pipeline.settings.bootstrap).records("task-metrics"):
        said = document(record.value)
        if said is not None and said["type"] == SAMPLE:
            found.append((record, said))
        if len(found) == limit:
            break
    return found


def _send(pipeline: FaultPipeline, records: list[tuple[bytes | None, bytes | None]]) -> None:
    client = Producer({"bootstrap.servers": pipeline.settings.bootstrap, "partitioner": "murmur2_random", "linger.ms": 20})
    for key, value in records:
        client.produce("task-metrics", value, key)
        client.poll(0)
    if client.flush(60):
        raise NotStruck("the broker did not take the records within a minute")


def flood_of_duplicates(pipeline: FaultPipeline, _: Random) -> None:
    """Send samples of closed minutes again, byte for byte."""
    _send(pipeline, [(record.key, record.value) for record, _ in _samples(pipeline, FLOOD)])


def late_samples(pipeline: FaultPipeline, random: Random) -> None:
    """Send new samples of minutes that closed long ago."""
    _send_at(pipeline, lambda at_ms: at_ms - random.randint(1, 60 * MINUTE_MS))


def clock_ahead(pipeline: FaultPipeline, random: Random) -> None:
    """Send samples of a producer whose clock is hours ahead: they must not close a minute."""
    now_ms = pipeline.progress()["now_ms"]
    _send_at(pipeline, lambda _: now_ms + random.randint(60, 600) * MINUTE_MS)


def _send_at(pipeline: FaultPipeline, when: Callable[[int], int]) -> None:
    changed = [(record, said | {"sampled_at_ms": when(said["sampled_at_ms"])}) for record, said in _samples(pipeline, LATE)]
    _send(pipeline, [(record.key, json.dumps(said).encode()) for record, said in changed])


def random_kill(random: Random) -> Fault:
    """Return kill -9 of one role (seven in ten), two (two in ten) or all."""
    draw = random.random()
    return kill(*random.sample(SERVICES, 1 if draw < 0.7 else 2 if draw < 0.9 else len(SERVICES)))


@dataclass(frozen=True, slots=True)
class Scenario:
    """Faults that one pipeline suffers, one after the other, and the minutes of its trace."""

    name: str
    faults: tuple[Fault, ...]
    seconds: float
    """How long they may take."""
    brokers: int = 1
    on_small_disks: bool = False
    clocks_jump: bool = False
    fleet: int = 0
    speed: float | None = None
    """Event seconds per second, where it is always the same."""
    pause_s_max: float = 3.0
    """Before each fault, at random, so that it meets the pipeline at any moment."""


def scenarios(seed: int, kills: int, minutes: float) -> list[Scenario]:
    """Return what ``make faults`` does, in order; the kills have ``minutes`` of wall time."""
    random = Random(seed)
    to_kafka = [f"{role}-kafka" for role in SERVICES]
    return [
        Scenario("kills", tuple(random_kill(random) for _ in range(kills)), 60 * minutes),
        Scenario(
            "broker",
            (
                Fault("kafka restarted", broker_restarted),
                Fault("kafka killed, garbage at the end of its logs and in indexes", broker_torn),
                frozen("kafka", OUTAGE_S),
                away("kafka", OUTAGE_S),
                topic_deleted("dead-letters"),
            ),
            420,
        ),
        Scenario(
            "redis",
            (
                away("redis", CUT_S),
                Fault("redis flushed", redis_flushed),
                Fault(f"redis full {CUT_S:g} s", redis_full),
                slow("state-service-redis", 0.5),
                hanging("state-service-redis"),
            ),
            180,
        ),
        Scenario(
            "hostile",
            (
                Fault("garbage on every topic", garbage_everywhere),
                Fault("every other key of redis dropped", redis_keys_dropped),
                Fault("memory of one job overwritten", memory_poisoned),
            ),
            180,
        ),
        Scenario(
            "connections", (Fault(f"{IDLE:,} idle connections, {HALF:,} half requests at the state service", crowded),), 120
        ),
        Scenario(
            "clocks",
            tuple(clock_off(role, seconds) for role in CLOCKED for seconds in (JUMP_S, -JUMP_S, DAY_S, -DAY_S)),
            480,
            clocks_jump=True,
        ),
        Scenario("frozen", tuple(frozen(role, CUT_S) for role in SERVICES), 180),
        Scenario("spark", tuple([Fault("kill -9 spark inside a batch", spark_inside_a_batch)] * 3), 240),
        Scenario(
            "lost state",
            (
                Fault("redis lost with its data, spark's checkpoint damaged", redis_and_checkpoint),
                Fault("redis comes back with an older view", redis_older),
                Fault("checkpoint damaged", checkpoint_damaged),
                Fault(f"machine of monitor and spark lost with its checkpoint, another one {CUT_S:g} s later", machine_lost),
            ),
            240,
        ),
        Scenario(
            "producers",
            (
                Fault("flood of 20,000 duplicates", flood_of_duplicates),
                Fault("500 samples up to an hour late", late_samples),
                Fault("500 samples of a clock hours ahead", clock_ahead),
            ),
            90,
        ),
        Scenario(
            "engine",
            (
                *(strike(f"{role}-engine") for role in ("monitor", "rescaler") for strike in (hanging, lying, cut)),
                slow("rescaler-engine", 2.0),
                slow("monitor-engine", 2.0),
            ),
            240,
        ),
        Scenario("three brokers", (leader_lost("task-metrics"), leader_lost("decisions")), 120, brokers=3),
        Scenario("disks", (disk_full("checkpoint"), disk_full("kafka")), 180, on_small_disks=True),
        Scenario("network", (*(cut(link) for link in to_kafka), *(slow(link, 0.2) for link in to_kafka)), 420),
    ]


def soak(minutes: float) -> Scenario:
    """Return a pipeline that nothing happens to."""
    return Scenario("soak", (), 60 * minutes)


def fleet(jobs: int, minutes: float) -> Scenario:
    """Return many jobs at the speed of life, that nothing happens to."""
    return Scenario("fleet", (), 60 * minutes, fleet=jobs, speed=1.0)


SHORT = Scenario(
    "short",
    (kill("agent", "rescaler"), kill("monitor", "state-service"), cut("rescaler-kafka", 3.0)),
    seconds=25,
    pause_s_max=1.0,
)
