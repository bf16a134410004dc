"""Which replicas of Prometheus, and what proves who we are: the settings."""

from engines.prometheus.client import PrometheusClient
from engines.source_settings import SourceSettings
from runtime.access import Access

_SETTINGS = "SURESCALE_PROMETHEUS"


def replicas_of(settings: SourceSettings) -> list[PrometheusClient]:
    """Return a client of each replica, in the order in which they are to be asked; nothing is asked yet.

    Raises:
        SettingsError: a certificate cannot be used.
    """
    access = Access(
        settings.prometheus_token_file,
        settings.prometheus_ca_file,
        settings.prometheus_certificate_file,
        settings.prometheus_key_file,
        settings=_SETTINGS,
    )
    return [PrometheusClient(url, access) for url in settings.prometheus_urls()]
