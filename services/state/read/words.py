"""What the words of programs mean for people: states, phases of the gate, reasons, causes, guardrails, figures of a job.

There is one table, ``services/state/page/words.json``. The web page is built with it; command line and demo read it here.
"""

from pathlib import Path
from typing import Final, Literal

import msgspec


class JobFigure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure that every list of jobs shows: `surescale state`, the page, the metrics; and a job's history.

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


WORDS: Final = msgspec.json.decode((Path(__file__).parent.parent / "page" / "words.json").read_bytes(), type=Words)


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
