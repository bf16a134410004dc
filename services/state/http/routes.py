"""The paths of the HTTP API: what each takes, what it answers, and the query behind it. The index and OpenAPI are made of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surescale.contracts.messages import DeadLetter
from surescale.services.state.documents import (
    CounterfactualDocument,
    HistoryDocument,
    JobDocument,
    JobOverview,
    TaskHistoryDocument,
)
from surescale.services.state.fleet_documents import (
    Clocks,
    ClusterDocument,
    ClusterInfo,
    ClusterOverview,
    Counts,
    PipelineDocument,
    PoliciesDocument,
    StoredAnswer,
)
from surescale.services.state.keys import WINDOWS_KEPT
from surescale.services.state.read.queries import Queries, place_of
from surescale.services.state.record_documents import Appended, CommandDocument, DecisionDocument

LIMIT_DEFAULT = 50
LIMIT_MAX = 500
HEALTH = "/health"
EVENTS = "/events"
OPENAPI = "/openapi.json"
ACCESS = "/access"


class BadParameter(Exception):
    """A parameter that the path does not take, or cannot read; one line for people."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter behind the question mark; a number if it has a highest value, else text."""

    name: str
    about: str
    least: int = 1
    most: int = 0
    default: int | None = None

    def read(self, text: str | None) -> int | str | None:
        """Return its value.

        Raises:
            BadParameter: it is not a number of the range.
        """
        if not self.most:
            return text or ""
        if text is None:
            return self.default
        # Not more digits than Python converts.
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else self.least - 1
        if not self.least <= number <= self.most:
            raise BadParameter(f"{self.name}: {text!r} is not a whole number from {self.least} to {self.most}")
        return number


@dataclass(frozen=True, slots=True)
class Request:
    """A request: the names in its path, and its parameters."""

    names: Mapping[str, str]
    values: Mapping[str, Any]

    @property
    def job(self) -> str:
        """Return the id of the job in the path."""
        return f"{self.names['cluster']}/{self.names['name']}"

    @property
    def limit(self) -> int | None:
        """Return one more than was asked for, so that the answer shows whether there is more."""
        limit: int | None = self.values["limit"]
        return None if limit is None else limit + 1

    @property
    def cursor(self) -> str:
        """Return the identity of the last item of the page before; empty for the first page."""
        cursor: str = self.values["cursor"]
        return cursor


@dataclass(frozen=True, slots=True)
class Route:
    """One path. ``cursor_of`` returns the identity of an item of a list that is read in pages.

    ``is_large``: its answers may take a while, and wait for each other (`services.state.http.answers`).
    """

    path: str
    about: str
    answers: Any
    query: Callable[[Queries, Request], object]
    parameters: Sequence[Parameter] = ()
    cursor_of: Callable[[Any], str] | None = None
    is_large: bool = True

    @property
    def pattern(self) -> str:
        """Return the path as the router wants it: an id may have slashes."""
        return self.path.replace("{id}", "{id:.+}")

    @property
    def link(self) -> str:
        """Return the path with the names of its parameters, for people."""
        names = "&".join(f"{each.name}=" for each in self.parameters)
        return f"{self.path}?{names}" if names else self.path

    def read(self, names: Mapping[str, str], given: Mapping[str, str]) -> Request:
        """Return what a request asks for.

        Raises:
            BadParameter: a parameter is unknown, or has no valid value.
        """
        known = {each.name: each for each in self.parameters}
        unknown = sorted(set(given) - set(known))
        if unknown:
            takes = f"this path takes {', '.join(known)}" if known else "this path takes none"
            raise BadParameter(f"{', '.join(unknown)}: no such parameter; {takes}")
        return Request(names, {name: each.read(given.get(name)) for name, each in known.items()})


def _limit(default: int | None = LIMIT_DEFAULT) -> Parameter:
    return Parameter("limit", "Most items in the answer.", most=LIMIT_MAX, default=default)


_CURSOR = Parameter("cursor", "Where the page before ended; the header Link of that page has it.")
_PAGES = (_limit(), _CURSOR)

ROUTES = (
    Route(
        "/jobs",
        "One short document per job, by id.",
        list[JobOverview],
        lambda queries, asked: queries.jobs(after=asked.cursor, limit=asked.limit),
        (_limit(None), _CURSOR),
        lambda job: job.job,
    ),
    Route(
        "/jobs/{cluster}/{name}",
        "Everything known of a job: topology, settings, gate, newest window, latest decision, newest command, rent.",
        JobDocument,
        lambda queries, asked: queries.job(asked.job),
        is_large=False,
    ),
    Route(
        "/jobs/{cluster}/{name}/history",
        "A job's last minutes as columns, with its decisions as marks.",
        HistoryDocument,
        lambda queries, asked: queries.history(asked.job, asked.values["minutes"]),
        (Parameter("minutes", "Most minutes in the answer.", most=WINDOWS_KEPT, default=WINDOWS_KEPT),),
    ),
    Route(
        "/jobs/{cluster}/{name}/tasks/{id}",
        "One task's last minutes as columns.",
        TaskHistoryDocument,
        lambda queries, asked: queries.task_history(asked.job, asked.names["id"], asked.values["minutes"]),
        (Parameter("minutes", "Most minutes in the answer.", most=WINDOWS_KEPT, default=WINDOWS_KEPT),),
    ),
    Route(
        "/jobs/{cluster}/{name}/decisions",
        "The latest decisions, newest first, with outcome, command and its progress.",
        list[DecisionDocument],
        lambda queries, asked: queries.decisions(asked.job, asked.limit or LIMIT_DEFAULT, after=asked.cursor),
        _PAGES,
        lambda decision: decision.record.decision_id,
    ),
    Route(
        "/jobs/{cluster}/{name}/commands",
        "The latest commands, newest first, with their progress; those too that follow hosts and no decision.",
        list[CommandDocument],
        lambda queries, asked: queries.commands(asked.job, asked.limit or LIMIT_DEFAULT, after=asked.cursor),
        _PAGES,
        lambda command: command.record.command_id,
    ),
    Route(
        "/jobs/{cluster}/{name}/shadows",
        "The latest answers of shadow policies, newest first, each next to the decision that was made.",
        list[Appended[StoredAnswer]],
        lambda queries, asked: queries.shadow_answers(asked.job, asked.limit or LIMIT_DEFAULT, after=asked.cursor),
        _PAGES,
        lambda answer: answer.record.shadow_id,
    ),
    Route(
        "/decisions/{id}",
        "One decision, with the snapshots to which each task gave most weight.",
        DecisionDocument,
        lambda queries, asked: queries.decision(asked.names["id"]),
        is_large=False,
    ),
    Route(
        "/commands/{id}",
        "One command with its progress (write # as %23).",
        CommandDocument,
        lambda queries, asked: queries.command(asked.names["id"]),
        is_large=False,
    ),
    Route("/clusters", "One short document per cluster.", list[ClusterOverview], lambda queries, _: queries.clusters()),
    Route(
        "/clusters/{cluster}",
        "Hosts, placement, the latest looks at the hosts, jobs, rent, latest engine events.",
        ClusterDocument,
        lambda queries, asked: queries.cluster(asked.names["cluster"]),
    ),
    Route(
        "/clusters/{cluster}/info",
        "Generation, vnodes, workers with their units, fragments with theirs.",
        ClusterInfo,
        lambda queries, asked: queries.cluster_info(asked.names["cluster"]),
    ),
    Route(
        "/policies",
        "Which policy serves where, and the shadow policies.",
        PoliciesDocument,
        lambda queries, _: queries.policies(),
    ),
    Route(
        "/pipeline",
        "The pipeline: what each role last wrote, freshness, refused records.",
        PipelineDocument,
        lambda queries, _: queries.pipeline(),
    ),
    Route(
        "/dead-letters",
        "Refused records, newest first.",
        list[Appended[DeadLetter]],
        lambda queries, asked: queries.dead_letters(asked.limit or LIMIT_DEFAULT, after=asked.cursor),
        _PAGES,
        place_of,
    ),
    Route("/counts", "The counts, nested by kind.", Counts, lambda view, _: view.counts(), is_large=False),
    Route(
        "/clocks", "The current segment of each pipeline's clock.", Clocks, lambda queries, _: queries.clocks(), is_large=False
    ),
)

COUNTERFACTUAL = Route(
    "/counterfactuals/{id}",
    "What a decision would have been without the figures of one task or minute; decided again on demand, one at a time.",
    CounterfactualDocument,
    lambda queries, asked: queries.decision(asked.names["id"]),
    (Parameter("without", "A task by name or id, or a minute: its end as 09:45, or -3 for three before the span's end."),),
)
"""Its query finds the decision; `services.state.counterfactuals` answers."""

READ = (*ROUTES, COUNTERFACTUAL)
LINKS = (HEALTH, EVENTS, OPENAPI, ACCESS, *(route.link for route in READ))
