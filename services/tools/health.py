"""``surescale run health ROLE``: ask a role on this machine how it is, for container health checks and probes.

Imports nothing heavier than click, because it runs every few seconds beside the role.
"""

import http.client
import json
import os
import urllib.error
from typing import IO

import click

from surescale.contracts.errors import SettingsError, SurescaleError
from surescale.contracts.settings import PORT_MAX
from surescale.runtime.http import open_url
from surescale.runtime.printable import printable

ROLES = ("monitor", "spark", "agent", "rescaler", "state-service", "engine")
PORT_VARIABLE = "SURESCALE_HEALTH_PORT"
TIMEOUT_S = 3.0


class Unhealthy(SurescaleError):
    """The role does not answer, is not ready, or is another one; the message says which."""


@click.command("health")
@click.argument("role", type=click.Choice(ROLES))
@click.option("--port", type=click.IntRange(1, PORT_MAX), help=f"Port of the role's health endpoint (default: {PORT_VARIABLE}).")
@click.option(
    "--alive", is_flag=True, help="Check only that no loop of the role hangs: one that waits for others is alive, but not ready."
)
@click.option("--json", "as_json", is_flag=True, help="Print the role's own document.")
def command(role: str, port: int | None, alive: bool, as_json: bool) -> None:
    """Check that a role is alive and ready.

    A role is ready when it is connected, assigned and caught up. Exit code 1, with the reason, if it is not.
    """
    document = ask(port or port_from_environment(), "/live" if alive else "/health")
    if as_json:
        click.echo(json.dumps(document, sort_keys=True))
    judge(role, document, alive=alive)
    if not as_json:
        click.echo(printable(f"{role}: {'ready' if document.get('ready') else 'alive'}{_figures(document)}"))


def port_from_environment() -> int:
    """Return the port of SURESCALE_HEALTH_PORT.

    Raises:
        SettingsError: it is not set, or is not a port.
    """
    text = os.environ.get(PORT_VARIABLE, "")
    if not text:
        raise SettingsError(f"no port: give --port, or set {PORT_VARIABLE} to the role's health port")
    if not (text.isdecimal() and len(text) < 6 and 1 <= int(text) <= PORT_MAX):
        raise SettingsError(f"{PORT_VARIABLE}: {text!r} is not a port; set it to the role's health port or use --port")
    return int(text)


def ask(port: int, path: str = "/health") -> dict[str, object]:
    """Return the health document, or with ``/live`` that of liveness, whether the role is well or not.

    Raises:
        Unhealthy: nobody answers, or the answer is not a health document.
    """
    url = f"http://127.0.0.1:{port}{path}"
    try:
        try:
            answer: IO[bytes] = open_url(url, timeout_s=TIMEOUT_S)
        except urllib.error.HTTPError as not_well:  # a 503 carries the document too
            answer = not_well
        with answer:
            document = json.load(answer)
    except urllib.error.URLError as problem:
        raise Unhealthy(f"no health document at {url}: {getattr(problem.reason, 'strerror', None) or problem.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as problem:  # the last one: whatever answers does not speak HTTP
        raise Unhealthy(f"no health document at {url}: {problem}") from None
    if not isinstance(document, dict):
        raise Unhealthy(f"no health document at {url}: {document!r}")
    return document


def judge(role: str, document: dict[str, object], *, alive: bool = False) -> None:
    """Return if the document belongs to this role and is good enough.

    Raises:
        Unhealthy: it belongs to another role; or the role is not ready or, with ``alive``, one of its loops hangs.
    """
    if document.get("role") != role:
        raise Unhealthy(f"{role}: the port answers for {document.get('role')!r}")
    if alive and not document.get("alive"):
        raise Unhealthy(f"{role}: {document.get('hangs') or 'not alive'}")
    if not (alive or document.get("ready")):
        raise Unhealthy(f"{role}: not ready{_figures(document)}")


def _figures(document: dict[str, object]) -> str:
    plain = {
        key: value for key, value in document.items() if isinstance(value, str | int) and key not in {"role", "ready", "alive"}
    }
    return f" ({', '.join(f'{key} {value}' for key, value in sorted(plain.items()))})" if plain else ""
