"""Options that several commands share, so that they are called and explained the same everywhere, and what they come to.

Imports no client: `surescale COMMAND --help` stays fast.
"""

import getpass
import logging
import os
import socket

import click

from contracts.errors import SettingsError
from contracts.settings import RoadSettings, from_environment

bootstrap = click.option("--bootstrap", help="Kafka bootstrap servers (default: SURESCALE_BOOTSTRAP).")
prefix = click.option("--prefix", help="Stands before every topic and key of the road (default: SURESCALE_TOPIC_PREFIX).")
redis_url = click.option("--redis", "redis_url", help="Address of Redis (default: SURESCALE_REDIS_URL).")
policy_folder = click.option(
    "--policy-folder",
    type=click.Path(exists=True, file_okay=False),
    help="Folder of policy packages (default: SURESCALE_POLICY_FOLDER, else those shipped).",
)
by = click.option("--by", help="Who changes it (default: user@host).")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def road_settings(*, prefix: str | None = None, **given: object) -> RoadSettings:
    """Return the road's settings for a command: what its options say, else the environment.

    A broker that is away is said once, by the error: librdkafka's own words are silenced.
    """
    logging.getLogger("surescale.librdkafka").setLevel(logging.CRITICAL)
    return from_environment(RoadSettings, topic_prefix=prefix, **given)


def whoever(by: str | None) -> str:
    """Return who changes something, as records tell it: what was given, else user@host.

    Raises:
        SettingsError: what was given cannot be told in a record.
    """
    if not by:
        return f"{_user()}@{socket.gethostname()}"
    try:
        by.encode()
    except UnicodeEncodeError:
        raise SettingsError(f"--by: {by!r} is not UTF-8, as records are") from None
    return by


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as containers run under
        return str(os.getuid())
