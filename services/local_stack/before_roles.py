"""What `surescale up` does before it starts a role, so that what is wrong is said by its name, and at once."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from surescale.contracts import addresses
from surescale.contracts.addresses import NO_MASTER, is_spark_master, without_password
from surescale.contracts.errors import SettingsError
from surescale.contracts.modes import MODE_LABEL
from surescale.contracts.settings import PipelineSettings, from_environment
from surescale.contracts.topics import TOPICS, TopicSettings
from surescale.engines.groups import GroupsSettings
from surescale.engines.groups.chains import SETTING as GROUPS_FILE
from surescale.engines.groups.chains import chains_of
from surescale.engines.processes.reconcile import folder_of_commands, missing_programs
from surescale.engines.settings import ClusterSettings
from surescale.policies.registry import other_span, unknown_policy
from surescale.runtime.kafka import admin_client, create_topics
from surescale.runtime.kafka_errors import Refusals, readable_errors
from surescale.runtime.ports import LOOPBACK
from surescale.services.job_settings.snapshot import NOTHING_ACTS
from surescale.services.local_stack.errors import Say
from surescale.services.local_stack.servers import LocalRedis
from surescale.services.local_stack.supervisor import Role, Supervisor
from surescale.services.state.connection import Credentials, connect, opened
from surescale.services.tools.job_settings.file_commands import checked_entries

CHECKPOINT = "SURESCALE_SPARK_CHECKPOINT"
METADATA_TIMEOUT_S = 3.0
_PAUSE_S = 1.0
_SAY_EVERY_S = 30.0
_LOCAL = (LOOPBACK, "localhost")


def check_chains(settings: ClusterSettings) -> None:
    """Read the groups file, if there is one, and look for the programs of workers on this machine.

    Raises:
        SettingsError: the file cannot be used, or there is no such program; names the field and the fix.
    """
    chains = chains_of(settings)
    if settings.actuator_kind == "processes":
        folder = folder_of_commands(settings)
        for why in (each for chain in chains.values() for each in missing_programs(chain, folder)):
            raise SettingsError(f"{GROUPS_FILE}: {settings.part(GroupsSettings).groups_file}: {why}; install it, or name another")


def check_addresses(settings: PipelineSettings) -> None:
    """Check the address of Redis, before anybody waits for an answer.

    Raises:
        SettingsError: it is none.
    """
    connect(settings.redis_url, Credentials.of(settings)).close()


def check_spark_master(text: str) -> None:
    """Check the address of the Spark master, before Spark is started.

    Raises:
        SettingsError: it is none.
    """
    if not is_spark_master(text):
        raise SettingsError(f"--master: {NO_MASTER.format(text)}")


def checkpoint_place(text: str | None) -> str | None:
    """Return where Spark's checkpoint lies, as another process is told it: an option's value, else the environment's, else None.

    Raises:
        SettingsError: it looks like a URL and names no store.
    """
    name, found = ("--checkpoint", text) if text and text.strip() else (CHECKPOINT, os.environ.get(CHECKPOINT, ""))
    try:
        return addresses.checkpoint_place(found) if found.strip() else None
    except ValueError as error:
        raise SettingsError(f"{name}: {error}") from None


def own_redis(settings: PipelineSettings, folder: Path) -> Role:
    """Return a Redis at the address of the settings, with its log in a folder.

    Raises:
        SettingsError: the address is not one of this machine alone.
        ServerError: there is no program, or the port is taken.
    """
    address = urlsplit(settings.redis_url)
    if address.scheme != "redis" or address.hostname not in _LOCAL or address.port is None or "@" in address.netloc:
        raise SettingsError(
            f"SURESCALE_REDIS_URL: {without_password(settings.redis_url)!r} is not where `up` can start a Redis of its own; "
            f"set redis://{LOOPBACK}:PORT/0, or leave out --own-redis"
        )
    server = LocalRedis(folder / "redis", port=address.port)
    server.prepare()
    return server.role()


def await_servers(settings: PipelineSettings, supervisor: Supervisor, wait_s: float, say: Say) -> None:
    """Wait until Kafka and Redis answer; say at once which does not, and again every half minute.

    Raises:
        ConnectionError: one did not answer in time; names it, the reason and the variable.
        SettingsError: the address of Redis is none.
    """
    deadline_s = time.monotonic() + wait_s
    for attempt in (_ask_kafka, _ask_redis):
        _await(partial(attempt, settings), supervisor, deadline_s, say)


def _await(attempt: Callable[[], None], supervisor: Supervisor, deadline_s: float, say: Say) -> None:
    said_s = -_SAY_EVERY_S
    while True:
        supervisor.check()
        try:
            attempt()
            return
        except ConnectionError as error:
            now_s = time.monotonic()
            if now_s > deadline_s:
                raise
            if now_s - said_s >= _SAY_EVERY_S:
                say(f"waiting {deadline_s - now_s:.0f} s at most: {error}")
                said_s = now_s
        time.sleep(_PAUSE_S)


def _ask_kafka(settings: PipelineSettings) -> None:
    refusals = Refusals(settings)
    with readable_errors(settings):
        admin = admin_client(settings, error_cb=refusals.hear)
        with refusals.explained(admin):
            admin.list_topics(timeout=METADATA_TIMEOUT_S)


def _ask_redis(settings: PipelineSettings) -> None:
    with opened(settings) as client:
        client.ping()


def warn_of_policy(settings: PipelineSettings, say: Say) -> None:
    """Say that no policy has the name of the settings, or that it has a span of its own. A package may still arrive: no error."""
    name, folder = settings.policy, settings.policy_folder
    if said := unknown_policy(name, folder) or other_span(name, folder, settings.span_minutes):
        say(said)


def warn_of_modes(settings: ClusterSettings, path: Path | None, say: Say) -> None:
    """Say which jobs are to be acted on though nothing is there to do it. They are watched and advised all the same: no error.

    ``path``: the pipeline's file, if it has jobs.
    """
    if settings.actuator_kind != "none":
        return
    named = [f"{GROUPS_FILE}: {name}" for name, chain in chains_of(settings).items() if chain.labels.get(MODE_LABEL) == "act"]
    named += [entry.where for entry in (checked_entries(settings, path) if path else ()) if entry.wanted["mode"] == "act"]
    for each in named:
        say(f"{each}: {NOTHING_ACTS}")


def create_missing_topics(settings: PipelineSettings, say: Say) -> None:
    """Create the topics of the pipeline that do not exist yet.

    Raises:
        ConnectionError: Kafka does not answer, or refuses.
    """
    wanted = from_environment(TopicSettings, bootstrap=settings.bootstrap, topic_prefix=settings.topic_prefix)
    with readable_errors(settings):
        created = create_topics(settings, wanted.topics())
    if created:
        say(f"{len(created)} of {len(TOPICS)} topics created at {settings.bootstrap}")
