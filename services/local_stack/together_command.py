"""``surescale run together``: several roles in one process, for a cluster with few jobs and little memory to spare.

The roles run as threads that share nothing but the memory for code: they still meet on Kafka.
"""

import logging
import threading
from collections.abc import Mapping
from functools import partial
from importlib.metadata import entry_points

import click

from surescale.contracts.settings import PORT_MAX
from surescale.runtime.threads import background

ROLES = "surescale.roles"


def role_names() -> list[str]:
    """Return the roles that can share a process, sorted."""
    return sorted(point.name for point in entry_points(group=ROLES))


def run_together(health_ports: Mapping[str, int | None], stop: threading.Event, log: logging.Logger) -> None:
    """Run the roles until told to stop, or until one of them fails.

    Raises:
        Exception: the error of the role that failed first. The others have ended in order.
    """
    failures: list[Exception] = []

    def run(role: str, health_port: int | None) -> None:
        try:
            serve = next(iter(entry_points(group=ROLES, name=role))).load()
            serve(stop, logging.getLogger(f"surescale.{role}"), health_port=health_port)
        except Exception as error:
            failures.append(error)
            log.critical("%s failed, so all roles of this process end: %s", role, error)
            stop.set()

    threads = [background(partial(run, *each), each[0]) for each in health_ports.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@click.command("together")
@click.argument("roles", nargs=-1, required=True, metavar="ROLE[:HEALTH_PORT]...")
def command(roles: tuple[str, ...]) -> None:
    """Run several roles in one process, until stopped.

    Roles are monitor, agent, rescaler and state-service, each at most once. Settings come from the environment. Every role
    answers on a health port of its own, so name the ports: `surescale run together monitor:8081 agent:8082`. When one role
    fails, all end. The Spark job stays a process of its own.
    """
    from surescale.runtime.logs import set_up_logs
    from surescale.runtime.signals import stop_event

    ports = _parsed(roles)
    run_together(ports, stop_event(), set_up_logs("together", shared_by=tuple(ports)))


def _parsed(roles: tuple[str, ...]) -> dict[str, int | None]:
    """Return each role's health port, None where none is named.

    Raises:
        click.UsageError: an unknown role, one named twice, or no port number.
    """
    known, ports = role_names(), dict[str, int | None]()
    for given in roles:
        name, colon, port = given.partition(":")
        if name not in known:
            raise click.UsageError(f"{name!r} is not a role that can share a process; choose from {', '.join(known)}")
        if name in ports:
            raise click.UsageError(f"{name} is named twice; name each role once")
        if colon and not (port.isdecimal() and int(port) <= PORT_MAX):
            raise click.UsageError(f"{given!r}: {port!r} is not a port; write {name}:8081, or {name}:0 for no health port")
        ports[name] = int(port) if colon else None
    return ports
