"""The events that a webhook receives, and the settings that pick them: for the state service and for `surescale doctor`."""

from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import urlsplit

from surescale.contracts.addresses import is_http
from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PipelineSettings


@dataclass(frozen=True, slots=True)
class NotifySettings(PipelineSettings):
    """Where events go, which ones, and what they are authorised and signed with."""

    notify_url: str = ""
    """Webhook that receives events, as CloudEvents over HTTP; empty: notifications are off."""
    notify_events: str = ""
    """Events to tell, separated by commas, like job.down,policy.*; empty: all."""
    notify_clusters: str = ""
    """Clusters whose events to tell, separated by commas; empty: all."""
    notify_token_file: str = ""
    """File with the bearer token, or the whole value of the header Authorization, that the webhook asks for; empty: none."""
    notify_key_file: str = ""
    """File with the key that events are signed with, as Standard Webhooks have it: whsec_ and base64; empty: not signed."""
    notify_ca_file: str = ""
    """With https: PEM file of the authorities that sign the webhook's certificate; empty: the system's."""
    notify_private: bool = False
    """The webhook may be on this machine or in a private network; false refuses loopback, link-local and private addresses."""
    notify_timeout_seconds: float = 10.0
    """Time for one attempt, from the connection to the whole answer."""
    notify_keep_hours: float = 4.0
    """An event older than that is no longer told, whether the webhook or the state service was away."""

    def __post_init__(self) -> None:
        """Refuse what contradicts itself.

        Raises:
            SettingsError: names the setting and the fix.
        """
        PipelineSettings.__post_init__(self)
        chosen(self.notify_events, "SURESCALE_NOTIFY_EVENTS")
        if self.notify_url and not is_http(self.notify_url):
            raise SettingsError(
                "SURESCALE_NOTIFY_URL: this is not the address of a webhook; set one like https://hooks.example.org/surescale, "
                "without user and password"
            )
        for name in ("notify_events", "notify_clusters", "notify_token_file", "notify_key_file", "notify_ca_file"):
            if getattr(self, name) and not self.notify_url:
                raise SettingsError(f"SURESCALE_{name.upper()}: notifications are off; set SURESCALE_NOTIFY_URL, or unset this")
        if self.notify_ca_file and urlsplit(self.notify_url).scheme != "https":
            raise SettingsError(
                "SURESCALE_NOTIFY_CA_FILE: SURESCALE_NOTIFY_URL uses no TLS; set one with https, or unset the file"
            )
        if not 0.1 <= self.notify_timeout_seconds <= 120:
            raise SettingsError(
                f"SURESCALE_NOTIFY_TIMEOUT_SECONDS: must be between 0.1 and 120, not {self.notify_timeout_seconds:g}"
            )
        if not 0 < self.notify_keep_hours <= 168:
            raise SettingsError(f"SURESCALE_NOTIFY_KEEP_HOURS: must be above 0 and at most 168, not {self.notify_keep_hours:g}")


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
