"""A broker that answers late, again and again: the reader of groups goes on asking.

librdkafka ends the whole process with a failed assertion if an answer about a group meets the end of the request's own time
(confluentinc/librdkafka#4605). In one process with the other roles, that would end all of them.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from surescale.services.local_stack.errors import JavaError
from surescale.services.local_stack.java import find_java
from surescale.services.local_stack.servers import LocalBroker
from surescale.services.local_stack.supervisor import Role, Supervisor
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
try:
    find_java()
except JavaError as problem:
    pytest.skip(f"a broker of its own: {problem}", allow_module_level=True)

PATIENCE_S = 1.0
STANDS_S, ANSWERS_S = 1.05, 0.3
"""How long the broker stands still, a little longer than we wait, and how long it then answers what has piled up."""
TIMES = 6
ASKS = f"""
import sys, threading
from surescale.contracts.settings import PipelineSettings
from confluent_kafka import KafkaException
from surescale.engines.groups.broker import GroupReader, GroupsUnavailable
from surescale.services.tools.group_position import GroupPosition, _running

settings = PipelineSettings(bootstrap=sys.argv[1])
reader = GroupReader(settings, timeout_s={PATIENCE_S})
def ask(number):
    while True:
        try:
            reader.look([f"group{{number}}-{{each}}" for each in range(3)])
        except GroupsUnavailable as unknown:
            print(unknown, flush=True)
def ask_for_position():
    position = GroupPosition(settings, "agent", "snapshots", 0, answer_within_s={PATIENCE_S})
    while True:
        try:
            _running(position._admin, position._members, {PATIENCE_S}), position._committed()
        except (TimeoutError, KafkaException) as late:
            print("position:", late, flush=True)
for number in range(5):
    threading.Thread(target=ask, args=(number,), daemon=True).start()
threading.Thread(target=ask_for_position, daemon=True).start()
threading.Event().wait()
"""


def test_answers_that_come_too_late_end_nothing(tmp_path: Path) -> None:
    """The broker stands still for a little longer than we wait, many times over; each time the groups are unknown, no more."""
    with Supervisor(tmp_path / "broker") as supervisor:
        broker = LocalBroker(supervisor.folder / "kafka")
        broker.prepare()
        supervisor.start(Role("kafka", broker.command(), ready=broker.answers))
        log = tmp_path / "asks.log"
        with log.open("w") as written:
            asks = subprocess.Popen(
                [sys.executable, "-c", ASKS, broker.bootstrap], stdout=written, stderr=subprocess.STDOUT, cwd=Path.cwd()
            )
        servers = [
            each.pid for each in psutil.process_iter(["name", "cmdline"])
            if each.info["name"] == "java" and str(supervisor.folder) in " ".join(each.info["cmdline"] or [])
        ]  # fmt: skip
        assert servers
        try:
            for _ in range(TIMES):
                _send(servers, signal.SIGSTOP)
                time.sleep(STANDS_S)
                _send(servers, signal.SIGCONT)
                time.sleep(ANSWERS_S)
            wait_until(lambda: log.read_text().count("does not answer") >= TIMES or asks.poll() is not None, what="late answers")
            assert asks.poll() is None, log.read_text()[-2_000:]
            assert "position: no answer within 1 s when asked" in log.read_text()
        finally:
            _send(servers, signal.SIGCONT)
            asks.kill()
            asks.wait()


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)
