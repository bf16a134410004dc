"""Checks an answer against the real thing at once. What is wrong is one line that names the fix."""

import json
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from surescale.contracts.addresses import addresses_in
from surescale.contracts.errors import SettingsError
from surescale.contracts.ids import plain_name
from surescale.contracts.job_settings import SETTINGS, Mode
from surescale.contracts.plurals import counted
from surescale.contracts.settings import SPAN_MINUTES, PipelineSettings, from_environment
from surescale.engines.flink.client import FlinkClient
from surescale.engines.flink.directory import JobDirectory
from surescale.engines.flink.doctor import TIMEOUT_S, flink
from surescale.engines.flink.errors import FlinkError
from surescale.engines.groups.broker import GroupReader, GroupsUnavailable
from surescale.engines.kafka.offsets import OffsetsUnavailable, TopicOffsets
from surescale.engines.kafka.positions import waiting
from surescale.engines.ports.findings import Finding
from surescale.engines.settings import SourceSettings
from surescale.runtime.ports import LOOPBACK, free_port, is_free
from surescale.runtime.printable import printable
from surescale.services.doctor import checks
from surescale.services.doctor.kafka_checks import KafkaChecks
from surescale.services.job_settings.files import toml_text
from surescale.services.local_stack.servers import find_redis_server
from surescale.services.state.connection import Credentials, connect
from surescale.services.state.settings import StateSettings

OWN_REDIS_PORT = 6390
"""Of the Redis that `up` starts, if it is free: next to the usual one."""
GROUPS_MAX = 20
_SCRIPTS = (".py", ".sh", ".js", ".jar", ".rb")


@dataclass(frozen=True, slots=True)
class FoundGroup:
    """A consumer group as it is now.

    Attributes:
        members: how many it has.
        topics: that it reads, sorted.
        partitions: of the widest of them; more members than that have nothing to do, but in a share group.
        waiting: records behind its commits, as far as known.
        is_whole: whether that is known of every partition.
        has_data: whether any of its topics holds a record.
    """

    group: str
    members: int
    topics: tuple[str, ...]
    partitions: int
    waiting: int
    is_whole: bool
    has_data: bool

    @property
    def job(self) -> str:
        """Name of the job that it becomes."""
        return plain_name(self.group)

    def in_words(self) -> str:
        """Return the line that says what was found."""
        who = f"{counted(self.members, 'member')} {'reads' if self.members == 1 else 'read'}"
        what = f"{who} {', '.join(self.topics)} ({counted(self.partitions, 'partition')})"
        least = "" if self.is_whole else "at least "
        wait = f"{least}{counted(self.waiting, 'record')} {'waits' if self.waiting == 1 else 'wait'}"
        rest = wait if self.has_data else "none has come yet; figures begin with the first"
        return f"{self.group}: {what}, {rest}"


def check_form(bootstrap: str | None, cluster: str, flink_url: str | None, redis_url: str | None) -> None:
    """Check what can be known wrong of answers that were given before anybody is asked.

    Raises:
        SettingsError: an address or a name is none.
    """
    settings = from_environment(PipelineSettings, bootstrap=bootstrap, cluster=cluster, redis_url=redis_url)
    if flink_url is not None:
        from_environment(SourceSettings, engine="flink", engine_url=flink_url, cluster=cluster)
    connect(settings.redis_url, Credentials.of(settings)).close()


def checked_kafka(bootstrap: str) -> str:
    """Return brokers that answer.

    Raises:
        SettingsError: none does, or they do not let us in.
    """
    _refuse_problems("--bootstrap", KafkaChecks(from_environment(PipelineSettings, bootstrap=bootstrap)).broker())
    return bootstrap


def checked_redis(url: str) -> str:
    """Return the address of a Redis that answers.

    Raises:
        SettingsError: it does not, or drops keys.
    """
    _refuse_problems("--redis", checks.view(from_environment(PipelineSettings, redis_url=url)))
    return url


def own_redis_url() -> str:
    """Return where `up` can start a Redis of its own.

    Raises:
        ServerError: there is no program.
    """
    find_redis_server()
    port = OWN_REDIS_PORT if is_free(OWN_REDIS_PORT) else free_port()
    return f"redis://{LOOPBACK}:{port}/0"


def free_http_port() -> dict[str, int]:
    """Return the setting of a port for the page, if something else listens on the usual one."""
    return {} if is_free(from_environment(StateSettings).http_port) else {"http_port": free_port()}


def live_groups(settings: PipelineSettings) -> tuple[str, ...]:
    """Return the ids of the groups that have members, without surescale's own.

    Raises:
        SettingsError: Kafka does not tell.
    """
    try:
        return GroupReader(settings).names()
    except GroupsUnavailable as error:
        raise SettingsError(f"--group: {error}") from None


def typed(groups: Sequence[str]) -> list[str]:
    r"""Return the groups that a person can name in a list with commas, and that a terminal shows as they are.

    >>> typed(["parse", "a,b", " c", "d\x1b[2J"])
    ['parse']
    """
    return [name for name in groups if name == printable(name).strip() and "," not in name]


def checked_groups(settings: PipelineSettings, names: Sequence[str], live: Sequence[str]) -> tuple[FoundGroup, ...]:
    """Return the groups as they are.

    Raises:
        SettingsError: there is no group of a name, or nobody knows what it reads.
    """
    try:
        seen = GroupReader(settings).look(list(dict.fromkeys(names)))
        offsets = TopicOffsets(settings)
        found = []
        for name, group in seen.items():
            if group.state == "dead":
                near = get_close_matches(name, live, n=1) or live[:3]
                instead = f"; with members: {', '.join(near)}" if near else "; start its consumers"
                raise SettingsError(f"--group: Kafka at {settings.bootstrap} has no group {name}{instead}")
            if not group.topics:
                raise SettingsError(f"--group: {name} has no members and has committed nothing; start its consumers once")
            answer = offsets.look(sorted(group.topics))
            if answer.missing:
                raise offsets.missing(sorted(answer.missing))
            counts = [sum(topic == each for each, _ in answer.extents) for topic in group.topics]
            lags = [waiting(extent, group.committed.get(each)) for each, extent in answer.extents.items()]
            has_data = any(extent.end for extent in answer.extents.values())
            known = sum(each for each in lags if isinstance(each, int))
            is_whole = not answer.unknown and all(isinstance(each, int) for each in lags)
            topics = tuple(sorted(group.topics))
            found.append(FoundGroup(name, len(group.members), topics, max(counts, default=0), known, is_whole, has_data))
    except (GroupsUnavailable, OffsetsUnavailable) as error:
        raise SettingsError(f"--group: {error}") from None
    return tuple(found)


def checked_flink(url: str, cluster: str) -> tuple[list[Finding], list[str]]:
    """Return what a Flink cluster says of itself, and the ids of the jobs that it runs.

    Raises:
        SettingsError: its REST API does not answer, or not as Flink's does.
    """
    settings = from_environment(SourceSettings, engine="flink", engine_url=url, cluster=cluster)
    findings = _refuse_problems("--flink", flink(settings))
    client = FlinkClient(addresses_in(url)[0], settings.access, timeout_s=TIMEOUT_S)
    try:
        return findings, sorted(each.job for each in JobDirectory(client, cluster).live().values())
    except FlinkError as error:
        raise SettingsError(f"--flink: {error.problem}; {error.remedy}") from None
    finally:
        client.close()


def checked_command(text: str) -> tuple[str, ...]:
    """Return the words of a command that starts one worker; empty: none.

    Raises:
        SettingsError: it is no command line, or its program or its script is not there.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise SettingsError(f"--command: {text!r} cannot be read ({str(error).lower()}); quote it as in a shell") from None
    if words and shutil.which(words[0]) is None:
        raise SettingsError(f"--command: there is no program {words[0]!r}; write its path, or install it")
    for word in words[1:]:
        if word.endswith(_SCRIPTS) and not Path(word).is_file():
            raise SettingsError(f"--command: there is no file {word!r} in {Path.cwd()}; write its path")
    return words


def _refuse_problems(option: str, findings: Iterable[Finding]) -> list[Finding]:
    found = list(findings)
    for finding in found:
        if finding.verdict == "problem":
            raise SettingsError(f"{option}: {finding.detail}; {finding.remedy}")
    return found


RULE, RULE_SPAN_MINUTES, RULE_MINUTES_KNOWN = "target-utilisation", 1, 3
"""For consumer groups: their load jumps within minutes, and a change of theirs costs a rebalance."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Plan:
    """What was answered.

    Attributes:
        cluster: the part of each job's id before the slash.
        settings: of `[settings]` beside the cluster, by name.
        own_redis: whether `up` starts Redis.
        mode: of the jobs.
        groups: consumer groups, each a job; empty for Flink.
        command: that starts a worker of the only group; empty: surescale starts none.
        flink_jobs: ids of jobs that a Flink cluster runs.
        asks_flink: whether the jobs are Flink's.
    """

    cluster: str
    settings: Mapping[str, str | int]
    own_redis: bool
    mode: Mode
    groups: Sequence[FoundGroup] = ()
    command: Sequence[str] = ()
    flink_jobs: Sequence[str] = ()
    asks_flink: bool = False

    @property
    def jobs(self) -> list[str]:
        """Ids of the jobs."""
        return [f"{self.cluster}/{each.job}" for each in self.groups] or list(self.flink_jobs)

    @property
    def span_minutes(self) -> int:
        """Minutes between two decisions."""
        return SPAN_MINUTES if self.asks_flink else RULE_SPAN_MINUTES

    def first_decision(self) -> tuple[int, int]:
        """Return after how many minutes of running roles the first decision comes: at the earliest, and at the latest.

        A policy is asked at the end of a span, once enough whole minutes are known; the roles start within a minute.
        """
        known = int(SETTINGS["minutes_known_min"].default) if self.asks_flink else RULE_MINUTES_KNOWN
        return known, known + self.span_minutes + 1


def file_of(plan: Plan) -> str:
    """Return the text of the file."""
    engine: dict[str, str | int] = {"engine": "flink" if plan.asks_flink else "kafka", "cluster": plan.cluster}
    if plan.groups:
        engine |= {"policy": RULE, "span_minutes": RULE_SPAN_MINUTES}
    up = {"create-topics": True, "one-process": True, **({"own-redis": True} if plan.own_redis else {})}
    return "\n".join(
        [
            "# Of `surescale init`. Every surescale command that is run in this folder reads this file.",
            "# A variable SURESCALE_NAME of the environment wins over it, and an option of a command over both.",
            "",
            "[settings]  # the names of docs/reference/settings.md without SURESCALE_, in lower case",
            *_lines({**engine, **plan.settings}),
            "",
            "[up]  # options of `surescale up`",
            *_lines(up),
            *(line for group in plan.groups for line in _chain(group, plan)),
            *(line for job in plan.flink_jobs for line in ("", f"[jobs.{toml_text(job)}]", f"mode = {json.dumps(plan.mode)}")),
            "",
        ]
    )


def _chain(group: FoundGroup, plan: Plan) -> list[str]:
    """Return the tables of one group as a job."""
    name = _key(group.job)
    limits = {"max": group.partitions, "minutes-known": RULE_MINUTES_KNOWN}
    lines = [
        "",
        f"[chains.{name}]  # a job: this group, and with `writes` those that read what it writes",
        f"mode = {json.dumps(plan.mode)}  # observe, advise or act; `surescale job set` wins over it",
        f"limits = {{{', '.join(f'{key} = {value}' for key, value in limits.items())}}}  # options of `surescale job set`",
        "",
        f"[chains.{name}.groups.{name}]",
        f"group = {toml_text(group.group)}",
        f"reads = [{', '.join(map(toml_text, group.topics))}]",
        '# metrics = "http://{host}:9400/metrics"   # of one member; alone for Java clients (poll idle ratio), or',
        '# busy = "worker_busy_seconds_total"        # with a counter of seconds on records: an idle group shrinks sooner',
    ]
    if plan.command:
        lines += [
            "",
            f"[chains.{name}.groups.{name}.workers]",
            f"command = [{', '.join(map(toml_text, plan.command))}]",
            f"start = {max(1, group.members)}",
        ]
    return lines


def _lines(table: Mapping[str, str | int | bool]) -> list[str]:
    return [f"{key} = {toml_text(value) if isinstance(value, str) else json.dumps(value)}" for key, value in table.items()]


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml_text(name)
