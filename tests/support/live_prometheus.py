"""A real Prometheus that scrapes what a test shows, every second.

with LivePrometheus(tmp_path, ["a", "b"]) as prometheus:
    prometheus.targets["a"].text = 'done_total{task="parse"} 12'
    prometheus.scraped("done_total", 12)
"""

import atexit
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from surescale.engines.prometheus.client import PrometheusClient, PrometheusUnavailable
from surescale.runtime.ports import free_port
from tests.support.containers import PROMETHEUS_IMAGE
from tests.support.stub_server import StubRequest, StubResponse, answering
from tests.support.waiting import wait_until

SCRAPED_AS = "workers"
SCRAPE_INTERVAL = "1s"  # as long as a scrape may take: a busy machine needs it
START_TIMEOUT_S = 90.0
_PULL_TIMEOUT_S = 300.0
_END_TIMEOUT_S = 20.0
_CONTENT = {"Content-Type": "text/plain; version=0.0.4"}
_IN_IMAGE = ("/bin/prometheus", "/usr/bin/prometheus")


@lru_cache(maxsize=1)
def binary() -> tuple[str, str]:
    """Return the path of Prometheus' binary, empty if there is none, and why there is none.

    It is taken out of its image where a container engine answers: the official one is linked statically, and runs anywhere.
    """
    found = shutil.which("prometheus")
    if found is not None:
        return found, ""
    docker = shutil.which("docker")
    if docker is None or os.environ.get("SURESCALE_NO_CONTAINERS") or os.environ.get("SURESCALE_TEST_STACK") == "local":
        return "", "prometheus is not installed (Debian: package prometheus), and its image may not be asked for"
    folder = Path(tempfile.mkdtemp(prefix="surescale-prometheus-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        created = subprocess.run(
            [docker, "create", PROMETHEUS_IMAGE], capture_output=True, text=True, timeout=_PULL_TIMEOUT_S, check=True
        ).stdout.strip()
        try:
            copies = [[docker, "cp", f"{created}:{path}", str(folder / "prometheus")] for path in _IN_IMAGE]
            copied = [
                subprocess.run(copy, capture_output=True, text=True, timeout=_PULL_TIMEOUT_S, check=False) for copy in copies
            ]
            if all(each.returncode for each in copied):
                copied[0].check_returncode()
        finally:
            subprocess.run([docker, "rm", created], capture_output=True, timeout=_PULL_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError) as problem:
        said = str(getattr(problem, "stderr", "") or problem).strip().splitlines()
        return "", f"prometheus is not installed, and its image cannot be had: {said[-1] if said else problem}"
    return str(folder / "prometheus"), ""


@dataclass(slots=True)
class Target:
    """What is scraped. ``text`` is in Prometheus' text format; an answer of status 500 in its place is a target that is down."""

    text: str = ""
    is_up: bool = True
    url: str = ""

    def answer(self, _: StubRequest) -> StubResponse:
        """Return the metrics."""
        return StubResponse(200 if self.is_up else 500, f"{self.text}\n".encode(), _CONTENT)

    @property
    def instance(self) -> str:
        """What Prometheus calls it."""
        return self.url.removeprefix("http://")


class LivePrometheus:
    """The server, and what it scrapes."""

    def __init__(
        self, folder: Path, names: Iterable[str] = (), replica_of: "LivePrometheus | None" = None, discovered: Path | None = None
    ) -> None:
        """Start nothing yet.

        Args:
            folder: for its data.
            names: of the targets.
            replica_of: another one, whose targets are scraped by both.
            discovered: a file of further targets that come and go, as Prometheus' discovery by files has it.
        """
        self._discovered = discovered
        self._others = replica_of.targets if replica_of is not None else {}
        self.targets = {name: self._others.get(name) or Target() for name in names}
        self._folder, self._stack = folder, contextlib.ExitStack()
        self.url = f"http://127.0.0.1:{free_port()}"
        self.client = PrometheusClient(self.url, timeout_s=10)

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for target in [target for name, target in self.targets.items() if name not in self._others]:
                target.url = stack.enter_context(answering(target.answer)).url
            self._start(stack)
            stack.callback(self.client.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *problem: object) -> None:
        self.end()

    def end(self) -> None:
        """End the server and the targets that are its own; a second time does nothing."""
        self._stack.close()

    def scraped(self, query: str, value: float) -> None:
        """Wait until every series of a query has a value."""

        def is_scraped() -> bool:
            found = self.client.vector(query, self.now_ms())
            return bool(found) and all(each == value for _, each in found)

        wait_until(is_scraped, timeout_s=60, what=f"{query} to be {value}")

    @staticmethod
    def now_ms() -> int:
        """Return the wall's time."""
        return time.time_ns() // 1_000_000

    def _start(self, stack: contextlib.ExitStack) -> None:
        scrapes: dict[str, Any] = {
            "job_name": SCRAPED_AS,
            "static_configs": [{"targets": [target.instance for target in self.targets.values()]}],
        }
        if self._discovered is not None:
            scrapes["file_sd_configs"] = [{"files": [str(self._discovered)], "refresh_interval": SCRAPE_INTERVAL}]
        # JSON is YAML.
        config = {"global": {"scrape_interval": SCRAPE_INTERVAL, "scrape_timeout": SCRAPE_INTERVAL}, "scrape_configs": [scrapes]}
        (self._folder / "prometheus.yml").write_text(json.dumps(config))
        command = [binary()[0], f"--config.file={self._folder}/prometheus.yml", f"--storage.tsdb.path={self._folder}/data"]
        # A test's clock may run ahead of the wall's.
        command += [f"--web.listen-address={self.url.removeprefix('http://')}", "--query.lookback-delta=30m"]
        log = stack.enter_context((self._folder / "prometheus.log").open("w"))
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        stack.callback(_end, process)

        def answers() -> bool:
            assert process.poll() is None, (self._folder / "prometheus.log").read_text()[-2_000:]
            try:
                return bool(self.client.now_ms())
            except PrometheusUnavailable:
                return False

        wait_until(answers, timeout_s=START_TIMEOUT_S, what="Prometheus")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_END_TIMEOUT_S)
