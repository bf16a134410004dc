"""Checks of the simulated engine: it answers, and its clock is right."""

import email.utils
import json
import time
from collections.abc import Iterator

from surescale.engines.ports.findings import Finding, skew
from surescale.engines.settings import SourceSettings
from surescale.runtime.http import open_url

TIMEOUT_S = 5.0
_ADDRESS = "set SURESCALE_ENGINE to the engine's kind and SURESCALE_ENGINE_URL to the address of its API"


def simulated(settings: SourceSettings) -> Iterator[Finding]:
    """Check its health."""
    url = f"{settings.engine_url.rstrip('/')}/health"
    asked_s = time.time()
    try:
        with open_url(url, timeout_s=TIMEOUT_S) as answer:
            document, date = json.load(answer), answer.headers.get("Date")
        if not isinstance(document, dict):
            raise ValueError("the answer is no JSON object")
    except (OSError, ValueError) as error:
        yield Finding("problem", "engine", f"no simulated engine at {url}: {error}", _ADDRESS)
        return
    yield Finding("ok", "engine", f"simulated, at {settings.engine_url}")
    if date and (told := email.utils.parsedate_to_datetime(date)):
        yield from skew("engine", told.timestamp() - asked_s)
