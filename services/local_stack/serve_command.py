"""``surescale serve``: several roles in one process, for a cluster with few jobs and little memory to spare."""

import click

from contracts.settings import PORT_MAX


@click.command("serve")
@click.argument("roles", nargs=-1, required=True, metavar="ROLE[:HEALTH_PORT]...")
def command(roles: tuple[str, ...]) -> None:
    """Run several roles in one process, until stopped.

    Roles are monitor, agent, rescaler and state-service, each at most once. Settings come from the environment. Every role
    answers on a health port of its own, so name the ports: `surescale serve monitor:8081 agent:8082`. When one role fails, all
    end. The Spark job stays a process of its own.
    """
    from runtime.logs import set_up_logs
    from runtime.signals import stop_event
    from services.local_stack.one_process import run_together

    ports = _parsed(roles)
    run_together(ports, stop_event(), set_up_logs("serve", shared_by=tuple(ports)))


def _parsed(roles: tuple[str, ...]) -> dict[str, int | None]:
    """Return each role's health port, None where none is named.

    Raises:
        click.UsageError: an unknown role, one named twice, or no port number.
    """
    from services.local_stack.one_process import role_names

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
