"""The file that `surescale init` writes, and when the first decision comes. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from surescale.contracts.job_settings import SETTINGS, Mode
from surescale.contracts.settings import SPAN_MINUTES
from surescale.services.init.answers import FoundGroup

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
    labels: Mapping[str, int] = field(default_factory=lambda: {"minutes-known": RULE_MINUTES_KNOWN})

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
            *(line for job in plan.flink_jobs for line in ("", f"[jobs.{json.dumps(job)}]", f"mode = {json.dumps(plan.mode)}")),
            "",
        ]
    )


def _chain(group: FoundGroup, plan: Plan) -> list[str]:
    """Return the tables of one group as a job."""
    name = _key(group.job)
    limits = {"max": group.partitions, **plan.labels}
    lines = [
        "",
        f"[chains.{name}]  # a job: this group, and with `writes` those that read what it writes",
        f"mode = {json.dumps(plan.mode)}  # observe, advise or act; `surescale job set` wins over it",
        f"limits = {{{', '.join(f'{key} = {value}' for key, value in limits.items())}}}  # options of `surescale job set`",
        "",
        f"[chains.{name}.groups.{name}]",
        f"group = {_text(group.group)}",
        f"reads = [{', '.join(map(_text, group.topics))}]",
        '# metrics = "http://{host}:9400/metrics"   # of one member, and its counter of seconds spent on records: with them',
        '# busy = "worker_busy_seconds_total"        # the group shrinks before it has been idle for ten minutes',
    ]
    if plan.command:
        lines += [
            "",
            f"[chains.{name}.groups.{name}.workers]",
            f"command = [{', '.join(map(_text, plan.command))}]",
            f"start = {max(1, group.members)}",
        ]
    return lines


def _lines(table: Mapping[str, str | int | bool]) -> list[str]:
    return [f"{key} = {_text(value) if isinstance(value, str) else json.dumps(value)}" for key, value in table.items()]


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    """Return a text of TOML: one of JSON, but for the one character that TOML allows only escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
