"""What the words of programs mean for people: states, phases of the gate, reasons, causes, guardrails, figures of a job.

There is one table, ``services/state/page/words.json``. The web page is built with it; command line and demo read it here.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec

from surescale.contracts.decisions import PolicyUsed, TaskDecision
from surescale.contracts.messages import TaskSpec
from surescale.contracts.wire import decoder


class JobFigure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure that every list of jobs shows: `surescale job list`, the page, the metrics; and a job's history.

    Attributes:
        field: of `JobFigures`.
        form: how it is written; a duration is in milliseconds, a share from 0 to 1.
        column: heading on the command line.
        rank: the higher, the earlier it gives way to a narrow terminal.
        name: heading on the page.
        about: what stands under it there, or beside the figure on a small screen.
        chart: colour of its chart on the job's page; empty: it has none.
        metric: name of its metric; empty: another role has one.
        help: what the metric says.
    """

    field: str
    form: Literal["count", "percent", "duration", "dollars"]
    column: str
    rank: int
    name: str
    about: str
    chart: str
    metric: str
    help: str


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table. Guardrails are in the order in which they come."""

    states: dict[str, str]
    phases: dict[str, str]
    reasons: dict[str, str]
    causes: dict[str, str]
    guardrails: dict[str, str]
    figures: tuple[JobFigure, ...]


WORDS: Final = decoder(Words).decode((Path(__file__).parent.parent / "page" / "words.json").read_bytes())


def phase_words(phase: str | None) -> str:
    """Return what a gate does in a phase.

    >>> phase_words("Idling"), phase_words(None), phase_words("New")
    ('steady', '-', 'new')
    """
    return "-" if phase is None else WORDS.phases.get(phase, phase.lower())


def reason_words(reason: str) -> str:
    """Return a reason as people say it; a word that is not known keeps its form, without underscores.

    >>> reason_words("no_change"), reason_words("out_of_reach")
    ('the job already has these sizes', 'out of reach')
    """
    return WORDS.reasons.get(reason, reason.replace("_", " "))


def cause_words(cause: str) -> str:
    """Return what released a rescale.

    >>> cause_words("checkpoint_completed")
    'a checkpoint was complete'
    """
    return WORDS.causes.get(cause, cause.replace("_", " "))


_LIMITS = ("bounds", "total_limit")


class Answer(Protocol):
    """What the rescaler said to a decision."""

    @property
    def status(self) -> str:
        """What it did."""

    @property
    def reason(self) -> str:
        """Why, in one word."""


def is_at_limit(tasks: Collection[TaskDecision], topology: Collection[TaskSpec]) -> bool:
    """Say whether a limit keeps an overloaded task of a decision from the size that its load needs.

    >>> kept = TaskDecision(task="a", current=10, ratio=1.2, proposed=12, desired=10, overloaded=True, floor=12)
    >>> is_at_limit([kept], [TaskSpec(task="a", parallelism=10)]), is_at_limit([kept], [TaskSpec(task="a", max_parallelism=20)])
    (True, False)
    """
    most = {spec.task: spec.max_parallelism for spec in topology}
    for task in tasks:
        limited = any(each.rule in _LIMITS and each.after < each.before for each in task.amendments)
        if task.overloaded and task.floor > task.desired and (limited or task.desired >= most.get(task.task, task.desired + 1)):
            return True
    return False


def outcome_in_words(action: str, outcome: Answer | None) -> str:
    """Return what came of a decision in the words of people.

    >>> from types import SimpleNamespace as Said
    >>> outcome_in_words("act", Said(status="commanded", reason="advise"))
    'advised'
    >>> outcome_in_words("act", Said(status="refused", reason="observe"))
    'observed'
    >>> outcome_in_words("act", Said(status="refused", reason="no_change"))
    'refused: no change'
    """
    if outcome is None:
        return f"{action}, not answered yet"
    reason, words = outcome.reason, outcome.reason.replace("_", " ")
    match outcome.status:
        case "held":
            return "hold" if reason == "hold" else f"left: {words}"
        case "commanded":
            return "advised" if reason == "advise" else "acted in part" if reason == "sufficient" else "acted"
        case "pending":
            return f"waits ({reason_words(reason)})"
        case "refused":
            return "observed" if reason == "observe" else f"refused: {words}"
    return outcome.status


def policy_in_words(policy: PolicyUsed) -> str:
    """Return what decided, and for which policy if a rule took over.

    >>> policy_in_words(PolicyUsed(name="ds2", asked="sure", fallback_reason="no package"))
    'ds2 for sure'
    """
    return f"{policy.name} for {policy.asked}" if policy.fallback_reason else policy.name
