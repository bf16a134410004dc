"""Settings of the notifications, for the state service, which sends them, and `surescale doctor`, which tries them."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from contracts.addresses import is_http
from contracts.errors import SettingsError
from contracts.settings import PipelineSettings
from services.state.notify.kinds import chosen


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
