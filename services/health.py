"""``surescale health ROLE``: asks a role on this machine how it is. For container health checks and probes; starts nothing.

Imports only the standard library and click, because it runs every few seconds beside the role.
"""

import http.client
import json
import os
import urllib.error
import urllib.request
from typing import Any

import click

from contracts.errors import SettingsError, SurescaleError
from contracts.settings import PORT_MAX

ROLES = ("monitor", "spark", "agent", "rescaler", "state-service", "engine")
PORT_VARIABLE = "SURESCALE_HEALTH_PORT"
TIMEOUT_S = 3.0


class NotWell(SurescaleError):
    """The role does not answer, is not ready, or is another one; the message says which."""


@click.command("health")
@click.argument("role", type=click.Choice(ROLES))
@click.option("--port", type=click.IntRange(1, PORT_MAX), help=f"Loopback port of the role's health endpoint ({PORT_VARIABLE}).")
@click.option("--alive", is_flag=True, help="Be content with an answer: a role that waits for others is alive, but not ready.")
@click.option("--json", "as_json", is_flag=True, help="Print the role's own document.")
def command(role: str, port: int | None, alive: bool, as_json: bool) -> None:
    """Say whether a role is connected, assigned and caught up: exit code 0 if it is, 1 and the reason if not."""
    document = ask(port or port_from_environment())
    if as_json:
        click.echo(json.dumps(document, sort_keys=True))
    judge(role, document, alive=alive)
    if not as_json:
        click.echo(f"{role}: {'ready' if document.get('ready') else 'alive'}{_figures(document)}")


def port_from_environment() -> int:
    """Return the port of SURESCALE_HEALTH_PORT.

    Raises:
        SettingsError: it is not set, or no port.
    """
    text = os.environ.get(PORT_VARIABLE, "")
    if not text.isdecimal() or not 1 <= int(text) <= PORT_MAX:
        raise SettingsError(f"{PORT_VARIABLE}: {text!r} is not a port; set it to the role's health port or use --port")
    return int(text)


def ask(port: int) -> dict[str, Any]:
    """Return the health document, ready or not; never through a proxy.

    Raises:
        NotWell: nobody answers, or the answer is not a health document.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    url = f"http://127.0.0.1:{port}/health"
    try:
        try:
            answer = opener.open(url, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as not_ready:  # 503 carries the document too
            answer = not_ready
        with answer:
            document = json.load(answer)
    except (OSError, ValueError, http.client.HTTPException) as problem:  # the last: what answers speaks no HTTP
        raise NotWell(f"no health document at {url}: {problem}") from None
    if not isinstance(document, dict):
        raise NotWell(f"no health document at {url}: {document!r}")
    return document


def judge(role: str, document: dict[str, Any], *, alive: bool = False) -> None:
    """Return if the document is that of this role and good enough.

    Raises:
        NotWell: it is another role's, or the role is not ready and ``alive`` is not enough.
    """
    if document.get("role") != role:
        raise NotWell(f"{role}: the port answers for {document.get('role')!r}")
    if not (alive or document.get("ready")):
        raise NotWell(f"{role}: not ready{_figures(document)}")


def _figures(document: dict[str, Any]) -> str:
    plain = {key: value for key, value in document.items() if isinstance(value, str | int) and key not in {"role", "ready"}}
    return f" ({', '.join(f'{key} {value}' for key, value in sorted(plain.items()))})" if plain else ""
