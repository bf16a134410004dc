"""The real Kafka, Redis and Flink of the tests: one of each for the whole session.

Kafka and Redis run in containers where an engine really runs them, else as local processes. SURESCALE_TEST_STACK=local or
=containers forbids the other way (the latter turns a missing engine into a failure).
"""

import contextlib
import functools
import gc
import os
import shlex
import sys
import uuid
import warnings
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from surescale.runtime import threads
from surescale.services.local_stack.servers import LocalBroker, LocalRedis, LocalServer
from tests.support.sharing import WholeFiles, turn

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

    from tests.support.live_flink import LiveFlink

# Processes that tests start run this tree, whichever one is installed.
os.environ["PYTHONPATH"] = str(Path(__file__).parents[1] / "src")

# Compiled files are kept, whatever the shell says: hundreds of processes would each compile all that they import.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What `make live` makes, so that Spark starts sooner; each JVM finds out for itself whether it can be used.
if (_archive := Path(__file__).parents[1] / "build" / "spark.jsa").exists():
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{shlex.quote(f'-XX:SharedArchiveFile={_archive}')} -Xlog:cds*=off")

# Tests that import onnxruntime before our code does, which sets this itself.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# Of a thread that fails in this process pytest tells; only roles in processes of their own end by it.
threads.end_process = lambda code: None

# A machine that others use too is slow now and then; that is no property's fault.
settings.register_profile("any machine", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("night", settings.get_profile("any machine"), max_examples=1_000)
settings.load_profile("any machine")

# The skip of test_objective.py speaks for all tests of what trains.
_TRAINING = [
    "unit/policies/test_onnx_graph.py",
    *(
        f"unit/reproductions/sure/test_{name}.py"
        for name in ("checkpoints", "draws", "export", "forecasters", "methods", "sure", "train")
    ),
]
collect_ignore = [] if find_spec("torch") else _TRAINING


# Tests in these folders run real servers, whose timing a busy machine disturbs.
_LIVE = tuple(Path(__file__).parent / name for name in ("browser", "e2e", "faults", "integration", "kubernetes"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs real servers as integration; if such a test fails, it runs once more. Long files have the first turns.

    The summary names every test that ran again, with its first failure (decision 24). `--fail-on-flaky` makes them failures.
    """
    items.sort(key=lambda item: turn(item.nodeid))
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.integration)
        if any(item.path.is_relative_to(folder) for folder in _LIVE):
            item.add_marker(pytest.mark.integration)
            item.add_marker(pytest.mark.flaky(reruns=1))
        for mark in item.iter_markers("nightly"):
            assert mark.args, f"{item.nodeid}: nightly needs a reason"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among what is imported and collected, which stays to the end: that took a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


Server = TypeVar("Server", bound=LocalServer)
_VARIABLE = "SURESCALE_TEST_STACK"
_RAN_AGAINST = "ran against"
_USED = pytest.StashKey[dict[str, str]]()


@dataclass(frozen=True, slots=True)
class KafkaForTests:
    """The broker of the session."""

    bootstrap: str

    def topic_prefix(self) -> str:
        """Return a prefix for topics and groups that nobody else uses, so that tests do not see each other."""
        return f"t{uuid.uuid4().hex[:10]}-"


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaForTests]:
    """A running broker."""
    with _kafka_in_container() as bootstrap:
        if bootstrap is not None:
            _note(request, "kafka", "in a container")
            yield KafkaForTests(bootstrap)
            return
    with _local(LocalBroker(tmp_path_factory.mktemp("kafka"))) as broker:
        _note(request, "kafka", f"local process ({_why_no_containers() or 'its container did not start'})")
        yield KafkaForTests(broker.bootstrap)


@pytest.fixture(scope="session")
def redis_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running Redis server. Tests share it: use keys of your own."""
    with _redis_in_container() as url:
        if url is not None:
            _note(request, "redis", "in a container")
            yield url
            return
    with _local(LocalRedis(tmp_path_factory.mktemp("redis"))) as server:
        _note(request, "redis", f"local process ({_why_no_containers() or 'its container did not start'})")
        yield server.url


@pytest.fixture(scope="session")
def flink(
    request: pytest.FixtureRequest, kafka: KafkaForTests, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["LiveFlink"]:
    """A running Flink session cluster beside the broker. Tests share it: leave it with all TaskManagers and no job."""
    from surescale.engines.flink.capabilities import COOLDOWN_KEYS
    from surescale.services.local_stack.errors import DownloadError, JavaError
    from surescale.services.local_stack.flink.cluster import FlinkCluster
    from surescale.services.local_stack.flink.scaled_job import job_jar
    from tests.support.live_flink import LiveFlink

    try:
        version = os.environ.get("SURESCALE_TEST_FLINK", "2.3.0")
        # Of its own accord Flink leaves 30 s between two rescales, and after the start: most of these tests' time.
        settings = dict.fromkeys(COOLDOWN_KEYS, "10 s")
        cluster = FlinkCluster(tmp_path_factory.mktemp("flink"), version=version, slots=8, settings=settings)
        jar = job_jar(cluster.flink)
    except (JavaError, DownloadError) as reason:
        pytest.skip(f"live Flink: {reason}")
    try:
        cluster.start()
        cluster.wait_ready()
        _note(request, "flink", f"{cluster.flink.version}, local processes")
        yield LiveFlink(cluster, jar, kafka.bootstrap)
    finally:
        cluster.stop()


@contextlib.contextmanager
def _local(server: Server) -> Iterator[Server]:
    try:
        server.start()
        server.wait_ready()
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def _kafka_in_container() -> Iterator[str | None]:
    if _why_no_containers() is not None:
        yield None
        return
    from tests.support.containers import KafkaInContainer

    container = KafkaInContainer()
    try:
        yield container.bootstrap if _has_started(container) else None
    finally:
        container.stop()


@contextlib.contextmanager
def _redis_in_container() -> Iterator[str | None]:
    if _why_no_containers() is not None:
        yield None
        return
    from tests.support.containers import redis_in_container, redis_url

    container = redis_in_container()
    try:
        yield redis_url(container) if _has_started(container) else None
    finally:
        container.stop()


def _has_started(container: "DockerContainer") -> bool:
    """Start a container; say so on screen and use a local process where the engine cannot, unless that is forbidden."""
    from docker.errors import DockerException

    try:
        container.start()
    except (DockerException, RuntimeError, OSError) as problem:
        if os.environ.get(_VARIABLE) == "containers":
            raise
        warnings.warn(f"no container of {container.image}, a local process instead: {problem}", stacklevel=1)
        return False
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> WholeFiles:
    """Share the tests out by files, whatever `--dist` says."""
    return WholeFiles(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what one of several processes ran against."""
    node.config.stash.setdefault(_USED, {}).update(getattr(node, "workeroutput", {}).get(_RAN_AGAINST, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say honestly what the tests ran against."""
    for name, what in config.stash.get(_USED, {}).items():
        terminalreporter.write_line(f"{name}: {what}")


@functools.cache
def _why_no_containers() -> str | None:
    wanted = os.environ.get(_VARIABLE, "")
    if wanted == "local":
        return f"{_VARIABLE}=local"
    from tests.support.containers import why_not

    reason = why_not()
    if reason is not None and wanted == "containers":
        raise RuntimeError(f"{_VARIABLE}=containers, but containers cannot be used: {reason}")
    return reason


def _note(request: pytest.FixtureRequest, name: str, what: str) -> None:
    """Keep what stands behind a fixture, here or (in one of several processes) for the process that shows it."""
    told = getattr(request.config, "workeroutput", None)
    kept = request.config.stash.setdefault(_USED, {}) if told is None else told.setdefault(_RAN_AGAINST, {})
    kept[name] = what
