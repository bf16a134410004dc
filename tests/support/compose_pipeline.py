"""The pipeline as `make up` starts it, under a name and on ports of its own, so that nothing that runs already is touched."""

import json
import os
import subprocess
import urllib.parse
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surescale.contracts.settings import PipelineSettings
from surescale.runtime.http import fetch_json
from surescale.runtime.ports import free_port
from tests.support.waiting import PATIENT_S

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "compose/observability/grafana/dashboards/surescale.json"
_SCRIPT = ROOT / "compose/pipeline.sh"
_SCRIPT_TIMEOUT_S = 900.0
_PORTS = ("SURESCALE_HTTP_PORT", "KAFKA_PORT", "PROMETHEUS_PORT")
_KINDS = ("container", "network", "volume")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a script ended, what it said on standard error, and what it printed."""

    code: int
    said: list[str]
    printed: str


@dataclass(frozen=True, slots=True)
class ComposePipeline:
    """A project of the Compose file, with the settings of the example and those given."""

    settings: dict[str, str] = field(default_factory=dict)
    project: str = field(default_factory=lambda: f"surescale-test-{uuid.uuid4().hex[:10]}")
    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in _PORTS})

    def run(self, *arguments: str) -> Ended:
        """Run pipeline.sh."""
        done = subprocess.run(
            ["bash", str(_SCRIPT), *arguments],
            env={**os.environ, **self._environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SCRIPT_TIMEOUT_S,
            check=False,
        )
        return Ended(done.returncode, done.stderr.splitlines(), done.stdout)

    def states(self) -> dict[str, list[str]]:
        """Return what `pipeline.sh status` says of the containers of each service: "STATE HEALTH EXIT-CODE RESTARTS"."""
        done = subprocess.run(
            ["bash", str(_SCRIPT), "status"],
            env={**os.environ, **self._environment()},
            capture_output=True,
            text=True,
            timeout=PATIENT_S,
            check=True,
        )
        found: dict[str, list[str]] = {}
        for line in done.stdout.splitlines():
            name, _, state = line.partition(" ")
            found.setdefault(name, []).append(state)
        return found

    def left(self) -> list[str]:
        """Return what the engine still has of the project: containers, networks, volumes."""
        return [f"{kind} {name}" for kind in _KINDS for name in _listed(kind, self.project)]

    @property
    def pipeline(self) -> PipelineSettings:
        """The pipeline as this machine reaches it."""
        return PipelineSettings(bootstrap=f"127.0.0.1:{self.ports['KAFKA_PORT']}")

    def state(self, path: str) -> Any:
        """Return what the HTTP API of the state service answers."""
        return fetch_json(f"http://127.0.0.1:{self.ports['SURESCALE_HTTP_PORT']}{path}")

    def prometheus(self, path: str, **query: str) -> Any:
        """Return the data of an answer of Prometheus' HTTP API."""
        where = f"http://127.0.0.1:{self.ports['PROMETHEUS_PORT']}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        return fetch_json(where)["data"]

    def _environment(self) -> dict[str, str]:
        ports = {name: str(port) for name, port in self.ports.items()}
        # A settings file that somebody keeps for their own pipeline says nothing here.
        return {"COMPOSE_PROJECT_NAME": self.project, "ENV_FILE": ".env.example", **ports, **self.settings}


def dashboard_queries() -> dict[str, list[str]]:
    """Return the dashboard's queries by panel, asked over one minute."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = {panel["title"]: [target["expr"] for target in panel.get("targets", [])] for panel in panels}
    return {title: [query.replace("$__rate_interval", "1m") for query in found] for title, found in queries.items() if found}


def _listed(kind: str, project: str) -> list[str]:
    everything = ["--all"] if kind == "container" else []
    shown = "{{.Names}}" if kind == "container" else "{{.Name}}"
    command = ["docker", kind, "ls", *everything, "--filter", f"label=com.docker.compose.project={project}", "--format", shown]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENT_S, check=True).stdout.split()
