"""The real Kafka and the real Redis of the tests: one of each for the whole session.

They run in containers where an engine really runs them, else as local processes. SURESCALE_TEST_STACK=local or
=containers forbids the other way (the latter turns a missing engine into a failure).
"""

import contextlib
import functools
import os
import uuid
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from services.stack.broker import LocalBroker
from services.stack.redis_server import LocalRedis
from services.stack.server import LocalServer
from tests.support.sharing import WholeFiles

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

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
