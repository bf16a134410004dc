"""Why fewer containers are up than wanted, in words a person can act on. Pure."""

from collections.abc import Sequence

from surescale.engines.compose.answers import Container
from surescale.engines.compose.errors import one_line


def hindrance_of(containers: Sequence[Container], now_ms: int, *, is_full: bool) -> str:
    """Return the most telling hindrance.

    Args:
        containers: that are wanted, of one service.
        now_ms: wall time.
        is_full: no more containers may run on this machine.
    """
    short = [each for each in containers if not each.is_up(now_ms)]
    for look in (_killed, _crashed, _not_started, _unhealthy, _paused):
        for each in short:
            words = look(each)
            if words:
                return f"container {each.plain_name} {words}{_others(len(short) - 1)}"
    if is_full and any(each.waits_to_start for each in short):
        return "no more containers may run on this machine; raise SURESCALE_WORKERS_MAX, or lower the job's maximum"
    return f"container {short[0].plain_name} is starting{_others(len(short) - 1)}" if short else "containers are starting"


def _killed(each: Container) -> str:
    if not each.state.oom_killed:
        return ""
    return f"was killed for lack of memory, {_restarts(each)}; raise mem_limit, or give it less at once"


def _crashed(each: Container) -> str:
    if each.state.status != "restarting" and not each.restart_count:
        return ""
    return f"ends again and again, with exit code {each.state.exit_code}, {_restarts(each)}; see docker logs {each.plain_name}"


def _not_started(each: Container) -> str:
    return f"cannot be started: {one_line(each.state.error)}" if each.state.status == "created" and each.state.error else ""


def _unhealthy(each: Container) -> str:
    health = each.state.health
    if health is None or health.status != "unhealthy":
        return ""
    said = one_line(health.log[-1].output) if health.log else ""
    return f"runs, and its health check fails{f': {said}' if said else ''}; see docker inspect {each.plain_name}"


def _paused(each: Container) -> str:
    return f"is paused; docker unpause {each.plain_name}" if each.state.status == "paused" else ""


def _restarts(each: Container) -> str:
    return f"{each.restart_count} {'restart' if each.restart_count == 1 else 'restarts'} so far"


def _others(count: int) -> str:
    return "" if count <= 0 else f"; and {count} more {'is' if count == 1 else 'are'} not up"
