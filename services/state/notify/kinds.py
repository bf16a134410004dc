"""The events that a webhook receives, and which of them a setting picks. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Final

from contracts.errors import SettingsError

KINDS: Final = {
    "job.resized": "A job runs with other sizes than before.",
    "job.advised": "In mode advise, a job would have been changed; the change can be approved.",
    "job.held": "A decided change has waited for half an hour.",
    "job.at_limit": "A limit keeps an overloaded task from the size that its load needs.",
    "job.overloaded": "A task of a job has had no spare capacity for three minutes in a row.",
    "job.down": "A job does not run.",
    "job.recovered": "A job that was down runs again, or one that was overloaded has kept up for three minutes.",
    "job.ended": "A job has finished.",
    "job.fallback": "A rule decides on a job in place of its policy, which failed.",
    "job.fallback_ended": "The job's policy decides again.",
    "job.paused": "Somebody has stopped rescales of a job, or of all jobs of a cluster.",
    "job.resumed": "Somebody has ended a pause. A pause that expires is not reported.",
    "job.approved": "Somebody has approved the advice for a job.",
    "job.settings_changed": "Somebody has changed what is allowed for a job.",
    "job.rescale_failed": "A step of a rescale failed.",
    "job.rescale_partly": "The engine runs fewer subtasks than asked for, and continues by itself when it can.",
    "job.foreign_change": "Somebody else has changed the sizes that a job's engine is asked for.",
    "policy.released": "A policy was released, promoted or rolled back to, or started in shadow.",
    "policy.withdrawn": "A release or a shadow has ended.",
    "cluster.host_lost": "A host of a cluster is lost.",
    "record.refused": "A role refused a record; at most every ten minutes for each reason and topic.",
}
TEST = "test"
PREFIX = "surescale."
"""Of an event's type, before its kind: CloudEvents ask for one."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth notifying people about.

    Attributes:
        subject: the job or, of what concerns a whole cluster, the cluster.
        identity: of the record that says so. Kind and identity together name the event.
        summary: one sentence for people.
        at_ms: when it happened, by the pipeline's clock.
        appended_ms: the broker's time of the record.
    """

    kind: str
    cluster: str
    subject: str
    identity: str
    summary: str
    at_ms: int
    appended_ms: int
    data: dict[str, Any] = field(default_factory=dict)


def chosen(text: str, setting: str) -> frozenset[str]:
    """Return the kinds that a setting names, separated by commas; ``job.*`` names all that begin so, nothing names all.

    Raises:
        SettingsError: it names one that there is not.

    >>> sorted(chosen("policy.*, job.down", "X"))
    ['job.down', 'policy.released', 'policy.withdrawn']
    """
    found: set[str] = set()
    for name in names(text):
        fitting = [kind for kind in KINDS if fnmatchcase(kind, name.removeprefix(PREFIX))]
        if not fitting:
            near = get_close_matches(name, KINDS, 1)
            raise SettingsError(
                f"{setting}: there is no event {name!r}{f'; did you mean {near[0]}?' if near else ''}; "
                "docs/notifications.md lists them"
            )
        found.update(fitting)
    return frozenset(found or KINDS)


def names(text: str) -> list[str]:
    """Return what a list separated by commas names."""
    return [name for each in text.split(",") if (name := each.strip())]


def listed(parts: Iterable[str], most: int = 6) -> str:
    """Return the first few parts in words, and how many there are besides.

    >>> listed("abcd", 2)
    'a, b and 2 more'
    """
    said = list(parts)
    more = len(said) - most
    return ", ".join(said) if more <= 0 else f"{', '.join(said[:most])} and {more} more"
