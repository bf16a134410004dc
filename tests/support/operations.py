"""What people ask of a pipeline: on the command line, and over HTTP of a state service that lets them."""

import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from surescale.services.tools.explain.command import command as explain
from tests.support.rescaler_pipeline import Pipeline
from tests.support.view_pipeline import get
from tests.support.waiting import wait_until

ANA, READER = "ana-token-of-sixteen-or-more", "reader-token-of-sixteen-or-more"


def run(pipeline: Pipeline, command: click.Command, *arguments: str) -> str:
    """Run one command of `surescale` in the pipeline."""
    options = ["--bootstrap", pipeline.settings.bootstrap, "--prefix", pipeline.settings.topic_prefix]
    options += ["--by", "ana"] if command is not explain else []
    result = CliRunner().invoke(command, [*arguments, *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def started(service: Callable[..., str], folder: Path) -> str:
    """Start a state service that lets ana operate and return its address."""
    (folder / "read").write_text(READER)
    (folder / "operate").write_text(f"ana {ANA}\n")
    files = {"SURESCALE_HTTP_TOKEN_FILE": "read", "SURESCALE_HTTP_OPERATE_TOKEN_FILE": "operate"}
    address = service(**{name: str(folder / file) for name, file in files.items()})
    wait_until(lambda: get(f"{address}/health")[0] == 200, 60, "the service")
    return address


def post(url: str, path: str, key: str, token: str = ANA, **body: object) -> tuple[int, dict[str, Any]]:
    """Return status and document of a POST."""
    client = http.client.HTTPConnection(url.rpartition("/")[2], timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Idempotency-Key": key}
    try:
        client.request("POST", path, json.dumps(body), headers)
        answer = client.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        client.close()
