"""Log set-up of a role process: one line an event on standard error."""

import logging
import os
import sys


def set_up_logs(role: str) -> logging.Logger:
    """Send logs to standard error and return the role's logger. ``SURESCALE_LOG_LEVEL`` sets the level (default INFO)."""
    level = os.environ.get("SURESCALE_LOG_LEVEL", "INFO").upper()
    logging.basicConfig(
        stream=sys.stderr,
        level=level,
        format=f"%(asctime)s {role} %(levelname)s %(message)s",
        force=True,
    )
    for noisy in ("aiokafka", "faust", "mode", "kafka", "py4j", "aiohttp.access"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
    # What librdkafka has to say of a broker that is away is said by runtime.backoff, with less noise.
    logging.getLogger("surescale.librdkafka").setLevel(logging.CRITICAL)
    return logging.getLogger(f"surescale.{role}")
