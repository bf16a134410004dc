"""`surescale init` on a real Kafka with a real group, and `surescale up` from the file that it writes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from surescale.contracts.topics import TOPICS
from surescale.runtime.http import fetch_json
from surescale.runtime.ports import free_ports
from surescale.services.local_stack.roles import surescale
from tests.conftest import KafkaForTests
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration
PARTITIONS, RECORDS = 3, 60


@pytest.fixture
def group(kafka: KafkaForTests) -> Iterator[str]:
    """A group with one member that has read and committed all records of its topic but ten."""
    topic = f"{kafka.topic_prefix()}orders"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    with member(kafka, topic, f"{topic}-parse"):
        yield f"{topic}-parse"


@contextmanager
def member(kafka: KafkaForTests, topic: str, name: str) -> Iterator[None]:
    """Keep one member in a group."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 45_000,
            "max.poll.interval.ms": 600_000,
        }
    )
    consumer.subscribe([topic])
    read = []

    def has_read() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            read.append(message)
            if len(read) <= RECORDS - 10:
                consumer.commit(message, asynchronous=False)
        return len(read) == RECORDS

    wait_until(has_read, timeout_s=60, what="the records")
    try:
        yield
    finally:
        consumer.close()


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without a terminal and without settings of anybody else."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SURESCALE_")} | variables
    command = surescale(*words)
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENT_S, check=False)


def test_a_group_becomes_a_file_that_doctor_finds_nothing_wrong_with(kafka: KafkaForTests, group: str, tmp_path: Path) -> None:
    """What is there is said, what comes is said, and the file is what every other command reads."""
    asked = ("init", "--bootstrap", kafka.bootstrap, "--group", group, "--cluster", "shop")
    done = run(tmp_path, *asked, SURESCALE_TOPIC_PREFIX=kafka.topic_prefix())
    assert (done.returncode, done.stderr) == (0, "")
    topic = group.removesuffix("-parse")
    found, *rest = [line for line in done.stdout.splitlines() if group in line]
    assert found.startswith(f"ok       {group}: 1 member reads {topic} ({PARTITIONS} partitions), ")
    assert rest == [
        f"jobs: shop/{group} in mode advise: surescale only says what it would change; to let it act, say in the file how "
        "workers start (docs/consumers.md)"
    ]
    assert "first decision: 3 to 5 minutes after the roles are ready, then every minute" in done.stdout
    assert done.stdout.endswith("next: surescale up\n")
    assert (tmp_path / "surescale.toml").stat().st_mode & 0o777 == 0o600
    document = tomllib.loads((tmp_path / "surescale.toml").read_text())
    assert document["chains"][group]["limits"]["max"] == PARTITIONS
    looked = run(tmp_path, "doctor", "--before-start", "--json")
    subjects = {each["subject"]: each for each in json.loads(looked.stdout)}
    assert subjects["engine"]["detail"] == f"consumer groups: jobs {group} of {tmp_path / 'surescale.toml'}#chains"
    assert (subjects["kafka"]["verdict"], subjects["groups"]["verdict"]) == ("ok", "ok")
    again = run(tmp_path, *asked)
    assert (again.returncode, again.stderr) == (
        1,
        "surescale: --out: surescale.toml already exists; give --yes to overwrite it, or name another file\n",
    )


def test_what_is_not_there_is_one_line_and_no_file(kafka: KafkaForTests, group: str, tmp_path: Path) -> None:
    """A wrong group, a topic without data, a program or a script that is missing, a Redis and a Flink that do not answer."""
    (nobody,) = free_ports(1)
    given = ("init", "--yes", "--bootstrap", kafka.bootstrap)
    slips = {
        ("--group", group[:-1]): f"has no group {group[:-1]}; with members: {group}",
        ("--group", group, "--command", "pyton worker.py"): "--command: there is no program 'pyton'",
        ("--group", group, "--command", f"{sys.executable} worke.py"): "--command: there is no file 'worke.py' in",
        ("--group", group, "--mode", "act"): "--mode: act needs something that starts workers; add --command",
        ("--group", group, "--redis", f"redis://127.0.0.1:{nobody}/0"): f"--redis: redis://127.0.0.1:{nobody}/0 does not answer",
        ("--flink", f"http://127.0.0.1:{nobody}"): "--flink: GET ",
    }
    for words, said in slips.items():
        done = run(tmp_path, *given, *words)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), words
        assert said in done.stderr
        assert not (tmp_path / "surescale.toml").exists()
    done = run(tmp_path, "init", "--bootstrap", f"127.0.0.1:{nobody}")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert f"--bootstrap: 127.0.0.1:{nobody} does not answer" in done.stderr


def test_up_starts_everything_from_the_file(kafka: KafkaForTests, group: str, tmp_path: Path) -> None:
    """It makes the topics, starts Redis and the roles, and the job is there; SIGTERM ends all of it."""
    prefix = kafka.topic_prefix()
    done = run(tmp_path, "init", "--bootstrap", kafka.bootstrap, "--group", group, SURESCALE_TOPIC_PREFIX=prefix)
    assert done.returncode == 0, done.stderr
    (http,) = free_ports(1)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SURESCALE_")}
    with (tmp_path / "up.log").open("wb") as log:
        process = subprocess.Popen(
            surescale("up", "--http-port", str(http)), cwd=tmp_path, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    said = tmp_path / "up.log"
    try:
        wait_until(lambda: b"Ctrl-C stops" in said.read_bytes() or process.poll() is not None, 240.0, "the roles")
        assert process.poll() is None, said.read_text()[-3000:]
        assert f"{len(TOPICS)} of {len(TOPICS)} topics created at {kafka.bootstrap}" in said.read_text()
        (job,) = wait_until(lambda: fetch_json(f"http://127.0.0.1:{http}/jobs"), 120.0, "the job")
        assert (job["job"], job["mode"]) == (f"kafka/{group}", "advise")
        assert f"kafka/{group}" in run(tmp_path, "job", "list").stdout
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENT_S) == 0


@pytest.mark.parametrize("away", ["kafka", "redis"])
def test_up_says_at_once_what_does_not_answer_and_ends_with_the_variable(
    kafka: KafkaForTests, redis_url: str, tmp_path: Path, away: str
) -> None:
    """By its name, not by what a role that needs it says."""
    (nobody,) = free_ports(1)
    bootstrap = f"127.0.0.1:{nobody}" if away == "kafka" else kafka.bootstrap
    redis = f"redis://127.0.0.1:{nobody}/0" if away == "redis" else redis_url
    (tmp_path / "surescale.toml").write_text(
        f'[settings]\nbootstrap = "{bootstrap}"\nredis_url = "{redis}"\nhttp_port = 0\n[up]\nwait = 4\n'
    )
    done = run(tmp_path, "up")
    waits, ends = done.stderr.splitlines()
    variable, name = ("SURESCALE_BOOTSTRAP", "bootstrap") if away == "kafka" else ("SURESCALE_REDIS_URL", "redis_url")
    assert done.returncode == 1
    assert f"{away.capitalize()} at " in waits
    assert waits.startswith("waiting ")
    assert ends.startswith(f"surescale: {away.capitalize()} at ")
    assert ends.endswith(f"{variable} ([settings] {name} of surescale.toml)")


ARRIVALS, WORK_S = 40, 0.05  # records a second, and what one of them takes
WORKER = f"""
import signal, sys, time
from confluent_kafka import Consumer

ending = []
signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
bootstrap, group, topic = sys.argv[1:]
consumer = Consumer({{"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}})
consumer.subscribe([topic])
while not ending:
    record = consumer.poll(0.5)
    if record is not None and record.error() is None:
        time.sleep({WORK_S})
consumer.close()
"""


@contextmanager
def arriving(kafka: KafkaForTests, topic: str) -> Iterator[None]:
    """Send records at a constant rate to all partitions in turn."""
    producer, is_over = Producer({"bootstrap.servers": kafka.bootstrap}), threading.Event()

    def send() -> None:
        began_s, sent = time.monotonic(), 0
        while not is_over.wait(0.1):
            for number in range(sent, int(ARRIVALS * (time.monotonic() - began_s))):
                producer.produce(topic, str(number), partition=number % PARTITIONS)
                sent = number + 1
            producer.poll(0)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        is_over.set()
        sender.join()
        producer.flush(30)


@pytest.mark.nightly("waits for the first action on the wall's clock")
def test_from_a_running_group_to_its_first_action(kafka: KafkaForTests, tmp_path: Path) -> None:
    """One file, one command: a group of one member that gets twice what it can do has more members. Prints how long it took."""
    topic = f"{kafka.topic_prefix()}orders"
    group, (http,) = f"{topic}-parse", free_ports(1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    (tmp_path / "worker.py").write_text(WORKER)
    command = [sys.executable, "worker.py", kafka.bootstrap, group, topic]
    with arriving(kafka, topic):
        own = subprocess.Popen(command, cwd=tmp_path)
        try:
            ready = ("init", "--yes", "--bootstrap", kafka.bootstrap, "--group", group, "--command", " ".join(command))
            given = (*ready, "--mode", "act", "--cluster", "shop")
            wait_until(lambda: run(tmp_path, *given, SURESCALE_TOPIC_PREFIX=kafka.topic_prefix()).returncode == 0, 60.0, "init")
        finally:
            own.terminate()
            own.wait(PATIENT_S)
        began_s = time.monotonic()
        with (tmp_path / "up.log").open("wb") as log:
            up = subprocess.Popen(
                surescale("up", "--http-port", str(http), "--wait", "3600"), cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT
            )
        said = tmp_path / "up.log"

        address = f"http://127.0.0.1:{http}/jobs/shop/{group}/commands?limit=1"

        def first_action() -> str:
            """Return how far the newest command is."""
            assert up.poll() is None, said.read_text()[-3000:]
            with suppress(urllib.error.HTTPError):  # nobody knows the job yet
                for reported in [each["progress"] for each in fetch_json(address)]:
                    return str(reported[-1]["record"]["status"]) if reported else ""
            return ""

        try:
            wait_until(lambda: b"Ctrl-C stops" in said.read_bytes() or up.poll() is not None, 900.0, "the roles")
            roles_s = time.monotonic() - began_s
            wait_until(lambda: first_action() == "applied", 900.0, "the first action")
            print(f"{group}: roles after {roles_s:.0f} s, first action after {time.monotonic() - began_s:.0f} s")
            print(run(tmp_path, "job", "decisions", f"shop/{group}", "--limit", "6").stdout)
        finally:
            run(tmp_path, "workers", "stop", group)
            up.send_signal(signal.SIGTERM)
            up.wait(PATIENT_S)
