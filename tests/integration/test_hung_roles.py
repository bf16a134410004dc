"""Roles as real processes: one that hangs fails its liveness check, ends and resumes; one that waits does neither."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import psutil
import pytest

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.contracts.topics import SNAPSHOTS
from surescale.contracts.wire import encode
from surescale.runtime.kafka import create_topics, producer
from surescale.runtime.ports import free_port, free_ports
from surescale.runtime.watchdog import HUNG_EXIT_CODE
from surescale.services.local_stack.servers import LocalBroker
from tests.conftest import KafkaForTests
from tests.support.agent_pipeline import AgentPipeline, windows
from tests.support.builders import JOB
from tests.support.spark_pipeline import SparkPipeline
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration

HUNG_AFTER_S = 10.0
"""More than a busy machine takes for one turn."""
WAITS_FOR_S = 30.0
"""How long a loop may be silent where a dependency is away: a single call to a dead broker takes ten seconds to give up."""

# Programs: a role in which something never returns, from the twelfth window on.
_TWELFTH = """
import asyncio, sys, threading
calls = []
def where_it_hangs():
    threading.Event().wait()
def is_time():
    calls.append(1)
    return len(calls) >= 12
"""
BLOCKED_LOOP = f"""{_TWELFTH}
from surescale.services.agent.worker import _WindowHandler
handle = _WindowHandler.handle
async def hangs(self, event):
    if is_time():
        where_it_hangs()
    await handle(self, event)
_WindowHandler.handle = hangs
"""
ENDLESS_ANSWER = f"""{_TWELFTH}
from surescale.services.agent.decider import Decider
answer = Decider.answer
def hangs(self, raw, timed):
    while is_time():
        where_it_hangs()
    return answer(self, raw, timed)
Decider.answer = hangs
"""
NO_MORE_FETCHES = f"""{_TWELFTH}
from surescale.services.agent.transport import _ReadCommittedThread
fetch = _ReadCommittedThread._fetch_records
async def hangs(self, *given, **more):
    if len(calls) >= 12:
        await asyncio.sleep(0.1)
        return {{}}
    return await fetch(self, *given, **more)
_ReadCommittedThread._fetch_records = hangs
from surescale.services.agent.worker import _WindowHandler
handle = _WindowHandler.handle
async def counted(self, event):
    is_time()
    await handle(self, event)
_WindowHandler.handle = counted
"""
_MAIN = "\nfrom surescale.services.cli import main\nmain()\n"


def liveness(port: int) -> tuple[int, str]:
    """Return the status of the liveness check and what hangs; 0 while nobody answers."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/live", timeout=5) as answer:
            return answer.status, json.load(answer).get("hangs", "")
    except HTTPError as error:
        return error.code, json.load(error).get("hangs", "")
    except (URLError, OSError):
        return 0, ""


def readiness(port: int) -> int:
    """Return the status of the readiness check; 0 while nobody answers."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except (URLError, OSError):
        return 0


def stays_alive(ports: Mapping[str, int], seconds: float) -> None:
    """Ask each role for so long whether it is alive, and see that it always is."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        for role, port in ports.items():
            assert liveness(port) == (200, ""), role
        time.sleep(0.5)


def hangs_and_ends(process: "subprocess.Popen[bytes]", port: int, loop: str) -> None:
    """See that liveness fails with this loop, and that the process then ends by itself with the code for it."""
    status, hangs = wait_until(lambda: (seen := liveness(port))[0] == 503 and seen, 120, "a liveness check that fails")
    assert (status, hangs.partition(" has not turned for ")[0]) == (503, loop)
    assert process.wait(PATIENT_S) == HUNG_EXIT_CODE


# The agent


@contextmanager
def agents(kafka: KafkaForTests, folder: Path, **chosen: Any) -> Iterator[AgentPipeline]:
    """A pipeline with agents only, which hang soon."""
    settings = PipelineSettings(
        bootstrap=kafka.bootstrap,
        topic_prefix=kafka.topic_prefix(),
        policy="target-utilisation",
        pipeline_clock=True,  # its windows are of another time; by the wall clock each would be overtaken by the next
        **{"health_port": free_port(), "hung_after_s": HUNG_AFTER_S, **chosen},
    )
    create_topics(settings)
    made = AgentPipeline(settings, folder)
    try:
        yield made
    finally:
        made.stop()


def test_an_agent_that_hangs_ends_and_its_successor_loses_and_doubles_nothing(kafka: KafkaForTests, tmp_path: Path) -> None:
    """Liveness fails and names the loop, the log has the stacks, and each span is decided on once.

    Its event loop is blocked, or an answer never comes, or its consumer reads no more: three agents hang at once, each in a
    pipeline of its own, since each test of one would wait as long.
    """

    def hangs(program: str, loop: str, frame: str) -> None:
        folder = tmp_path / loop.replace(" ", "-")
        folder.mkdir()
        with agents(kafka, folder) as pipeline:
            hung = pipeline.start([sys.executable, "-c", program + _MAIN])
            for raw in windows(601, 640):
                pipeline.send(SNAPSHOTS, JOB, raw)
            pipeline.decisions(1)
            hangs_and_ends(hung, pipeline.settings.health_port, loop)
            log = pipeline.log()
            assert f"the process ends with exit code {HUNG_EXIT_CODE}, to be started again" in log
            assert frame in log
            pipeline.start()
            decisions = pipeline.decisions(4)
            assert {decision.span_end_ms // MINUTE_MS for decision in decisions} == {610, 620, 630, 640}
            assert len({encode(decision) for decision in decisions}) == 4
            assert liveness(pipeline.settings.health_port) == (200, "")

    with ThreadPoolExecutor() as together:
        for each in [
            together.submit(hangs, BLOCKED_LOOP, "the event loop of agent", "where_it_hangs"),
            together.submit(hangs, ENDLESS_ANSWER, "the answer to a window of agent", "where_it_hangs"),
            together.submit(hangs, NO_MORE_FETCHES, "the intake of windows of agent", "event loop:"),
        ]:
            each.result()


def test_an_agent_that_waits_is_alive(kafka: KafkaForTests, tmp_path: Path) -> None:
    """One has nothing to read; another one was suspended and goes on. Both are looked at together: each takes its time.

    The first one's topic ends with records that no reader gets to see: those of a transaction that was aborted. After the stop,
    as after a laptop's sleep, the loops of the second one get their full time again.
    """
    with ExitStack() as stack:
        (tmp_path / "idle").mkdir()
        idle, stopped = (stack.enter_context(agents(kafka, folder)) for folder in (tmp_path / "idle", tmp_path))
        idle.start()
        process = stopped.start()
        wait_until(lambda: readiness(stopped.settings.health_port) == 200, 60, "a ready agent")
        idle.send(SNAPSHOTS, JOB, windows(610, 610)[0])
        idle.decisions(1)
        forger = producer(idle.settings, **{"transactional.id": f"{idle.settings.topic_prefix}forger"})
        forger.init_transactions(30)
        forger.begin_transaction()
        forger.produce(f"{idle.settings.topic_prefix}{SNAPSHOTS}", windows(620, 620)[0], key=JOB.encode())
        assert forger.flush(30) == 0
        forger.abort_transaction(30)
        process.send_signal(signal.SIGSTOP)
        stays_alive({"the idle agent": idle.settings.health_port}, 2 * HUNG_AFTER_S)
        process.send_signal(signal.SIGCONT)
        stays_alive({"the agent that was suspended": stopped.settings.health_port}, HUNG_AFTER_S)
        stopped.send(SNAPSHOTS, JOB, windows(610, 610)[0])
        assert len(stopped.decisions(1)) == 1


# The other roles


@dataclass
class Roles:
    """Processes of roles and their logs."""

    folder: Path
    settings: PipelineSettings
    running: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start(self, *words: str, program: str = "", **environment: str) -> "subprocess.Popen[bytes]":
        """Run `surescale run`, after a program that changes it."""
        env = os.environ | to_environment(self.settings) | environment
        with (self.folder / "roles.log").open("ab") as log:
            process = subprocess.Popen([sys.executable, "-c", program + _MAIN, "run", *words], env=env, stdout=log, stderr=log)
        self.running.append(process)
        return process

    def log(self) -> str:
        """Return what they said."""
        return (self.folder / "roles.log").read_text()


@pytest.fixture
def roles(tmp_path: Path) -> Iterator[Roles]:
    """Roles that hang soon; those that still run at the end are killed."""
    made = Roles(tmp_path, PipelineSettings(health_port=free_port(), hung_after_s=HUNG_AFTER_S))
    yield made
    for process in made.running:
        process.kill()
        process.wait()


def never_returns(module: str, method: str) -> str:
    """Return a program in which a method never returns."""
    name, _, function = method.partition(".")
    return f"""
import threading
from {module} import {name}
def where_it_hangs(*given, **more):
    threading.Event().wait()
{name}.{function} = where_it_hangs
"""


def test_a_role_that_hangs_fails_its_liveness_check_and_ends(
    roles: Roles, kafka: KafkaForTests, redis_url: str, tmp_path: Path
) -> None:
    """With the stacks in its log. Three roles hang at once, since each test of one would wait as long."""
    own = {"bootstrap": kafka.bootstrap, "topic_prefix": kafka.topic_prefix(), "redis_url": redis_url}
    roles.settings = replace(roles.settings, **own)
    create_topics(roles.settings)

    def hangs(role: str, module: str, method: str, loop: str) -> None:
        (tmp_path / role).mkdir()
        alone = replace(roles, folder=tmp_path / role, settings=replace(roles.settings, health_port=free_port()))
        process = alone.start(role, program=never_returns(module, method), SURESCALE_HTTP_PORT=str(free_port()))
        hangs_and_ends(process, alone.settings.health_port, loop)
        assert "where_it_hangs" in alone.log()

    with ThreadPoolExecutor() as together:
        for each in [
            together.submit(hangs, "monitor", "surescale.monitor.service", "Monitor._jobs_now", "the main loop of monitor"),
            together.submit(
                hangs, "rescaler", "surescale.rescaler.service.session", "Session._poll", "the main loop of rescaler"
            ),
            together.submit(
                hangs,
                "state-service",
                "surescale.services.state.write.projector",
                "Projector.step",
                "the projector of state-service",
            ),
        ]:
            each.result()


def test_a_simulated_engine_whose_loop_is_blocked_ends(roles: Roles) -> None:
    """Its health is answered by the same loop, so nobody answers before."""
    program = never_returns("surescale.services.engine.clock_driver", "ClockDriver.run")
    process = roles.start("engine", "--job", "orders", "--bootstrap", "none", "--pace", "free", "--port", "0", program=program)
    assert process.wait(PATIENT_S) == HUNG_EXIT_CODE
    assert "the event loop of engine has not turned" in roles.log()


def test_every_port_is_on_loopback_unless_somebody_asks_otherwise(roles: Roles) -> None:
    """Of each role that listens: health, the API with its page, KEDA's scaler, the simulated engine."""
    monitor, agent, rescaler, state, http, keda, engine, away = free_ports(8)
    named = {"monitor": monitor, "agent": agent, "rescaler": rescaler, "state-service": state}
    roles.settings = replace(
        roles.settings, bootstrap=f"127.0.0.1:{away}", redis_url=f"redis://127.0.0.1:{away}/0", hung_after_s=0
    )
    given = {"SURESCALE_HTTP_PORT": str(http), "SURESCALE_KEDA_PORT": str(keda)}
    together = roles.start("together", *(f"{role}:{port}" for role, port in named.items()), **given)
    words = ("--job", "orders", "--bootstrap", "none", "--pace", "free", "--port", str(engine))
    alone = roles.start("engine", *words)
    for process, ports in ((together, {*named.values(), http, keda}), (alone, {engine})):

        def listening(process: "subprocess.Popen[bytes]" = process) -> set[tuple[str, int]]:
            every = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            found = [each for one in every for each in one.net_connections("inet") if each.status == psutil.CONN_LISTEN]
            return {(each.laddr.ip, each.laddr.port) for each in found}

        wait_until(
            lambda ports=ports, listening=listening: ports <= {port for _, port in listening()},
            120,
            f"ports {ports} in {roles.log()}",
        )
        assert {ip for ip, _ in listening()} == {"127.0.0.1"}


WAITS_WITH_A_WINDOW = """
import pathlib, time
from surescale.services.agent.job_settings import JobSettingsView
refresh = JobSettingsView.refresh
def waits(self):
    folder = pathlib.Path(FOLDER)
    (folder / "in-hand").touch()
    while not (folder / "go").exists():
        time.sleep(0.05)
    refresh(self)
JobSettingsView.refresh = waits
"""


def test_roles_whose_dependencies_are_away_are_alive(roles: Roles, tmp_path: Path) -> None:
    """No engine and no Redis from the start, and a broker that is killed: four roles wait for longer than a loop may hang.

    So does an agent that has a window in hand when the broker goes: a dead broker is a matter of readiness. It decides later.
    """
    broker, (monitor, agent, rescaler, state, http, engine, redis, busy) = LocalBroker(tmp_path / "kafka"), free_ports(8)
    ports = {"monitor": monitor, "agent": agent, "rescaler": rescaler, "state-service": state}
    broker.start()
    with ExitStack() as stack:
        stack.callback(broker.stop)
        broker.wait_ready()
        roles.settings = replace(
            roles.settings,
            bootstrap=broker.bootstrap,
            redis_url=f"redis://127.0.0.1:{redis}/0",
            hung_after_s=WAITS_FOR_S,
        )
        create_topics(roles.settings)
        named = [f"{role}:{port}" for role, port in ports.items()]
        addresses = {"SURESCALE_HTTP_PORT": str(http), "SURESCALE_ENGINE_URL": f"http://127.0.0.1:{engine}"}
        process = roles.start("together", *named, **addresses)
        for role in ("agent", "rescaler"):
            wait_until(lambda role=role: readiness(ports[role]) == 200, 90, f"a ready {role}")
        in_hand = stack.enter_context(
            agents(KafkaForTests(broker.bootstrap), tmp_path, health_port=busy, hung_after_s=WAITS_FOR_S)
        )
        decides = in_hand.start([sys.executable, "-c", WAITS_WITH_A_WINDOW.replace("FOLDER", repr(str(tmp_path))) + _MAIN])
        in_hand.send(SNAPSHOTS, JOB, windows(610, 610)[0])
        wait_until((tmp_path / "in-hand").exists, 60, "a window in hand")
        broker.kill()
        (tmp_path / "go").touch()
        stays_alive(ports | {"the agent with a window": busy}, 1.5 * WAITS_FOR_S)
        assert readiness(monitor) == readiness(state) == 503
        broker.start()
        broker.wait_ready()
        for role in ("agent", "rescaler"):
            wait_until(lambda role=role: readiness(ports[role]) == 200, 90, f"a ready {role} again")
        assert len({encode(decision) for decision in in_hand.decisions(1)}) == 1
        stays_alive(ports, 1.0)
        for each in (process, decides):
            each.terminate()
        assert [each.wait(PATIENT_S) for each in (process, decides)] == [0, 0]


# Spark


def test_a_spark_job_whose_jvm_hangs_ends(kafka: KafkaForTests, tmp_path: Path) -> None:
    """Its main loop waits for an answer of the JVM that never comes."""
    pipeline = SparkPipeline(kafka, tmp_path)
    pipeline.start(SURESCALE_HUNG_AFTER_S=str(HUNG_AFTER_S))
    stopped: list[psutil.Process] = []
    try:
        wait_until(lambda: (pipeline.health() or {}).get("ready"), 120, "a ready job")
        port = pipeline._settings.health_port
        assert liveness(port) == (200, "")
        stopped = [each for each in pipeline.processes() if "java" in each.name()]
        for java in stopped:
            java.suspend()
        assert stopped
        hangs_and_ends(pipeline.process, port, "the main loop of spark")
        assert "py4j" in pipeline.log()
    finally:
        for java in stopped:
            java.kill()
        pipeline.close()
