"""Asks the simulated engine for its report while its process is supervised."""

import contextlib

import msgspec

from runtime.http import fetch_json
from services.engine.documents import Report
from services.local_stack.supervisor import Supervisor

ENDS_WITHIN_S = 3.0


def fetch_engine_report(supervisor: Supervisor, engine_url: str) -> Report:
    """Return the engine's report.

    Raises:
        RoleError: a role has ended. This is preferred to the refused connection that an ending engine causes.
        OSError: the engine does not answer, though no role has ended.
    """
    supervisor.check()
    try:
        return msgspec.convert(fetch_json(f"{engine_url}/report"), Report)
    except OSError:
        # A port closes a moment before the process behind it ends.
        with contextlib.suppress(TimeoutError):
            supervisor.wait(lambda: False, timeout_s=ENDS_WITHIN_S)
        raise
