"""Reads the file that says which consumer groups form a job, what they read and write, and how their workers are started.

[shop]                                    # a job
mode = "act"                              # act, advise or observe; settings of the job win
limits = {max = 12, utilisation = 0.6}    # labels of the job: any option of `surescale job set`, without the dashes

[shop.groups.parse]                       # a task of it: one consumer group
group = "shop-parse"                      # the group's id; the task's name, if left out
reads = ["orders"]                        # topics; what the group has committed or is assigned, if left out
writes = ["parsed"]                       # topics; a group that reads one of them comes after this one
metrics = "http://{host}:9400/metrics"    # of one member; {host}, and {number}: the last number in its client id
busy = "worker_busy_seconds_total"        # the counter there of seconds spent on records; Java's poll idle ratio, if left out

[shop.groups.parse.workers]               # for the actuator `processes`
command = ["python", "parse.py", "--index", "{index}", "--port", "{port}"]
health = "http://127.0.0.1:{port}/health"
start = 1                                 # workers, until a command asks for another number
drain_s = 20.0                            # from SIGTERM to SIGKILL

[shop.groups.parse.kubernetes]            # for the actuator `kubernetes`
namespace = "shop"
name = "shop-parse"
resource = "deployments"                  # or any other with a scale subresource; deployments, if left out
api = "apps/v1"                           # its group and version; apps/v1, if left out

[shop.groups.parse.compose]               # for the actuator `compose`
project = "shop"                          # of Docker Compose
service = "parse"

The broker does not know who writes a topic, so ``writes`` cannot be found out. Without a file each group is a job of its own.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from surescale.contracts.errors import RecordRejected, SettingsError
from surescale.contracts.ids import plain_name
from surescale.contracts.job_labels import written
from surescale.contracts.job_settings import Mode
from surescale.contracts.messages import PlainName, TaskSpec
from surescale.contracts.topology import topological_order
from surescale.engines.compose.target import Service
from surescale.engines.groups import GroupsSettings
from surescale.engines.kubernetes.target import Target
from surescale.engines.settings import ClusterSettings
from surescale.engines.settings_file import SettingsFile

SETTING = "SURESCALE_GROUPS_FILE"
_FILE = SettingsFile(SETTING, "docs/consumers.md")
_MEMBER_FIELDS = ("host", "number")  # not the client id itself: a member could name any host in it
_WORKER_FIELDS = ("index", "port")
Names = tuple[Annotated[str, Meta(min_length=1, max_length=249)], ...]


class Workers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the actuator ``processes`` starts and ends the workers of one group."""

    command: Annotated[tuple[str, ...], Meta(min_length=1)]
    health: str = ""
    start: Annotated[int, Meta(ge=1, le=10_000)] = 1
    drain_s: Annotated[float, Meta(gt=0, le=3_600)] = 20.0


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One consumer group as a task."""

    group: str = ""
    reads: Names = ()
    writes: Names = ()
    metrics: str = ""
    busy: str = ""
    workers: Workers | None = None
    kubernetes: Target | None = None
    compose: Service | None = None


class _Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    groups: Annotated[dict[PlainName, Group], Meta(min_length=1, max_length=1_000)]
    mode: Mode | None = None
    limits: dict[str, str | int | float | bool] = {}


@dataclass(frozen=True, slots=True)
class Chain:
    """One job. ``groups`` by task, in the order of the file; ``labels`` are its mode and limits.

    ``is_named``: a file names it, so it is a job before its group exists; otherwise the broker told of the group.
    """

    name: str
    groups: dict[str, Group]
    labels: Mapping[str, str] = field(default_factory=dict)
    is_named: bool = True

    def group_of(self, task: str) -> str:
        """Return the id of a task's consumer group."""
        return self.groups[task].group or task

    def upstream(self, task: str, reads: frozenset[str]) -> tuple[str, ...]:
        """Return the tasks that write what a task reads, in the order of the file. Topics it writes itself do not count."""
        return tuple(other for other, group in self.groups.items() if other != task and reads.intersection(group.writes))


def single(group: str) -> Chain:
    """Return the job that a group without a file is. Its name, and that of its task, is the group's id, if it can be a name."""
    name = plain_name(group)
    return Chain(name, {name: Group(group)}, is_named=False)


def read_chains(path: Path) -> dict[str, Chain]:
    """Return the jobs of a file by name.

    Raises:
        SettingsError: it cannot be read or is invalid; names the field and the fix in one line.
    """
    jobs = _FILE.read(path, dict[PlainName, _Job], may_be_empty=True)
    where = f"{SETTING}: {path}"
    chains = {
        name: Chain(name, dict(job.groups), written(job.mode, job.limits, f"{where}: {name}.limits"))
        for name, job in jobs.items()
    }
    for chain in chains.values():
        _check(chain, path)
    _check_groups_once(chains.values(), path)
    _check_targets_once(chains.values(), path)
    return chains


def chains_of(settings: ClusterSettings, scaled_by: Literal["", "compose", "kubernetes"] = "") -> dict[str, Chain]:
    """Return the jobs of the file that a role's settings name; none without a file.

    Raises:
        SettingsError: the file cannot be used, or only some groups of a job say what scales them (``scaled_by``): what is asked
            for is compared for the whole job.
    """
    file = settings.part(GroupsSettings).groups_file
    chains = read_chains(Path(file)) if file else {}
    for chain in chains.values():
        missing = [task for task, group in chain.groups.items() if scaled_by and getattr(group, scaled_by) is None]
        if missing and len(missing) < len(chain.groups):
            raise SettingsError(
                f"{SETTING}: {chain.name}.groups.{missing[0]}.{scaled_by}: not set, though other groups of the job have it; "
                "set it, or make that group a job of its own"
            )
    return chains


def _check(chain: Chain, path: Path) -> None:
    writer: dict[str, str] = {}
    for task, group in chain.groups.items():
        where = f"{_FILE.at(path)}: {chain.name}.groups.{task}"
        for topic in group.writes:
            if writer.setdefault(topic, task) != task:
                raise SettingsError(
                    f"{where}.writes: {topic} is also written by {writer[topic]}, and nobody can tell their records apart; "
                    "give each its own topic"
                )
        if group.busy and not group.metrics:
            raise SettingsError(f"{where}: busy is set without metrics, where a member shows it; set both, or neither")
        _check_template(group.metrics, _MEMBER_FIELDS, f"{where}.metrics")
        if group.workers is not None:
            for part in (*group.workers.command, group.workers.health):
                _check_template(part, _WORKER_FIELDS, f"{where}.workers")
    tasks = [TaskSpec(task=task, upstream=chain.upstream(task, frozenset(group.reads))) for task, group in chain.groups.items()]
    try:
        topological_order(tasks)
    except RecordRejected as rejected:
        raise SettingsError(f"{_FILE.at(path)}: {chain.name}: {rejected.message}; a job must not read what it wrote") from None


def _check_template(template: str, known: Collection[str], where: str) -> None:
    try:  # a format of its own, such as a width, could ask for any amount of memory
        filled = {(name, spec, form) for _, name, spec, form in Formatter().parse(template) if name is not None}
    except ValueError:
        filled = {("", "", None)}
    if not filled <= {(name, "", None) for name in known}:
        names = " and ".join(f"{{{name}}}" for name in known)
        raise SettingsError(f"{where}: {template!r}: only {names} can be filled in; write {{{{ for a brace")


def _check_groups_once(chains: Iterable[Chain], path: Path) -> None:
    seen: dict[str, str] = {}
    for chain in chains:
        for task in chain.groups:
            here = f"{chain.name}.groups.{task}"
            before = seen.setdefault(chain.group_of(task), here)
            if before != here:
                group = chain.group_of(task)
                raise SettingsError(f"{_FILE.at(path)}: {here} and {before} are one group, {group}; name it once")


def _check_targets_once(chains: Iterable[Chain], path: Path) -> None:
    seen: dict[Target | Service, str] = {}
    for chain in chains:
        for task, group in chain.groups.items():
            for target in (group.kubernetes, group.compose):
                if target is None:
                    continue
                here = f"{chain.name}.groups.{task}"
                before = seen.setdefault(target, here)
                if before != here:
                    raise SettingsError(
                        f"{_FILE.at(path)}: {here} and {before} are both scaled by {target}; "
                        "give each group a workload of its own"
                    )
