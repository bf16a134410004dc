"""Runs several roles as threads of one process. They share nothing but the memory for code: they still meet on Kafka."""

import logging
import threading
from collections.abc import Mapping
from functools import partial
from importlib.metadata import entry_points

from runtime.threads import background

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
