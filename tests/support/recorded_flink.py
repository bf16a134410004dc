"""Recorded answers of real Flink clusters, served over a real socket: ``tests/recordings``."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tests.support.stub_server import StubRequest, StubResponse, StubServer, answering

FOLDER = Path(__file__).parents[1] / "recordings"
VERSIONS = ("1.20.5", "2.2.1", "2.3.0")

Moment = Literal["fresh", "running", "waiting", "rescaled", "batch", "default-scheduler", "chained"]
Exchanges = dict[str, dict[str, Any]]


def recorded(version: str, moment: Moment) -> Exchanges:
    """Return status and body of each answer of a moment, by method and path."""
    found: Exchanges = json.loads((FOLDER / f"flink-{version}" / f"{moment}.json").read_text())
    return found


def recorded_job(exchanges: Exchanges, name: str) -> str:
    """Return Flink's id of the first job with a name of which a moment knows details."""
    for asked, given in exchanges.items():
        body = given["body"]
        if asked.count("/") == 2 and asked.startswith("GET /jobs/") and isinstance(body, dict) and body.get("name") == name:
            return str(body["jid"])
    raise AssertionError(f"no job {name!r}")


@contextmanager
def replayed(exchanges: Exchanges) -> Iterator[StubServer]:
    """Answer as was recorded; what was not is no path of Flink's."""

    def give(asked: StubRequest) -> StubResponse:
        found = exchanges.get(f"{asked.method} {asked.path}")
        if found is None:
            return StubResponse(404, json.dumps({"errors": [f"Unable to load requested file {asked.path}."]}).encode())
        return StubResponse(found["status"], json.dumps(found["body"]).encode())

    with answering(give) as server:
        yield server
