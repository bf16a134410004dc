"""Reads the file that says which resource of the Flink operator runs which job.

[orders]                                  # a job, as its name in Flink or in the file of Prometheus
namespace = "streaming"
name = "orders"
resource = "flinkdeployments"             # or "flinksessionjobs"; flinkdeployments, if left out

[orders.vertices]                         # only where figures come from Prometheus: Flink's vertex id of each task
parse = "cbc357ccb763df2852fee8c4fc7d55f2"
count = "6d2677a0ecc3fd8df0b72ec675edf8f4"
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import Text
from surescale.engines.kubernetes.target import Namespace, ObjectName, Target
from surescale.engines.settings_file import SettingsFile

SETTING = "SURESCALE_FLINK_RESOURCES_FILE"
_FILE = SettingsFile(SETTING, "docs/kubernetes.md")
API = "flink.apache.org/v1beta1"
DEPLOYMENTS, SESSION_JOBS = "flinkdeployments", "flinksessionjobs"
_VERTEX = r"^[0-9a-f]{32}$(?!\n)"


class _Resource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace: Namespace
    name: ObjectName
    resource: Literal["flinkdeployments", "flinksessionjobs"] = "flinkdeployments"
    vertices: dict[Text, Annotated[str, Meta(pattern=_VERTEX)]] = {}
    rescale: Literal["in-place", "upgrade"] = "in-place"

    @property
    def target(self) -> Target:
        return Target(self.namespace, self.name, self.resource, API)


class OperatedJob(msgspec.Struct, frozen=True):
    """One job that the operator runs.

    Attributes:
        vertices: Flink's id of each task that is not called by it already.
        upgrades: where it cannot be changed in place, the operator may stop it and submit it again with its state.
    """

    target: Target
    vertices: Mapping[str, str] = {}
    upgrades: bool = False

    def vertex_of(self, task: str) -> str | None:
        """Return Flink's vertex id of a task; None: the file does not say it."""
        return self.vertices.get(task) or (task if re.fullmatch(_VERTEX, task) else None)

    def task_of(self, vertex: str) -> str:
        """Return how a vertex is called here."""
        return next((task for task, each in self.vertices.items() if each == vertex), vertex)

    def session(self, deployment: str) -> Target:
        """Return the session cluster in which a FlinkSessionJob runs; it is in the same namespace."""
        return Target(self.target.namespace, deployment, DEPLOYMENTS, API)


def read_operated_jobs(path: Path) -> dict[str, OperatedJob]:
    """Return the jobs of a file by name.

    Raises:
        SettingsError: it cannot be read or is invalid; names the field and the fix in one line.
    """
    named = _FILE.read(path, dict[Text, _Resource])
    jobs = {name: OperatedJob(each.target, each.vertices, each.rescale == "upgrade") for name, each in named.items()}
    _check_apart(jobs, _FILE.at(path))
    return jobs


def check_vertices(jobs: Mapping[str, OperatedJob], name: str, tasks: Iterable[str]) -> None:
    """Refuse a job of Prometheus if a task's vertex id is unknown.

    Raises:
        SettingsError: names the task.
    """
    job = jobs.get(name)
    for task in tasks if job is not None else ():
        if job is not None and job.vertex_of(task) is None:
            raise SettingsError(
                f"{SETTING}: {name}.vertices.{task}: not set, and {task!r} is not a vertex id of Flink; "
                "set the 32 letters that Flink's REST API and web page show for it"
            )


def check_no_vertices(jobs: Mapping[str, OperatedJob]) -> None:
    """Refuse names of tasks where Flink itself gives the figures: there each task is called by its vertex id.

    Raises:
        SettingsError: names the job.
    """
    for name, job in jobs.items():
        if job.vertices:
            raise SettingsError(
                f"{SETTING}: {name}.vertices: only SURESCALE_SOURCE=prometheus uses it; Flink's own figures come by vertex id, "
                "so leave it out"
            )


def _check_apart(jobs: Mapping[str, OperatedJob], where: str) -> None:
    seen: dict[Target, str] = {}
    for name, job in jobs.items():
        if job.upgrades and job.target.resource == SESSION_JOBS:
            raise SettingsError(
                f"{where}: {name}.rescale: upgrade is for flinkdeployments: a FlinkSessionJob gets another id with each upgrade; "
                "leave it out"
            )
        first = seen.setdefault(job.target, name)
        if first != name:
            raise SettingsError(f"{where}: {name}: {job.target} is also {first}; each job needs its own resource")
        if len(set(job.vertices.values())) < len(job.vertices):
            raise SettingsError(f"{where}: {name}.vertices: two tasks have one vertex id; each task needs its own")
