"""Prometheus as a source: a client of its HTTP API, and how series become the figures of tasks and subtasks."""

from dataclasses import dataclass

from surescale.contracts.addresses import is_http, without_password
from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import Settings
from surescale.engines.registry import SourceKind

_TLS = ("prometheus_ca_file", "prometheus_certificate_file", "prometheus_key_file")


@dataclass(frozen=True, slots=True)
class PrometheusSettings(Settings):
    """Of the source prometheus."""

    prometheus_url: str = "http://127.0.0.1:9090"
    """Address of Prometheus, with the path of a proxy in front of it; several, separated by commas, are replicas, and the next
    one is asked when one does not answer."""
    prometheus_file: str = ""
    """File (TOML or JSON) that names the jobs, their tasks and the expressions of their figures."""
    prometheus_token_file: str = ""
    """File with the bearer token, or the whole value of the header Authorization, that Prometheus asks for; empty: none."""
    prometheus_ca_file: str = ""
    """With https: PEM file of the authorities that sign the certificate of Prometheus; empty: the system's."""
    prometheus_certificate_file: str = ""
    """With https: PEM file of this client's certificate chain, if Prometheus asks for one (mutual TLS)."""
    prometheus_key_file: str = ""
    """With https: PEM file of the certificate's private key, unencrypted."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            SettingsError: an address that is none, or files that do not go with it; names the setting and the fix.
        """
        for url in self.prometheus_urls() or ("",):
            if not is_http(url):
                raise SettingsError(
                    f"SURESCALE_PROMETHEUS_URL: {without_password(url)!r} is not the address of a Prometheus; "
                    "set one like http://127.0.0.1:9090, without user and password"
                )
        for name in _TLS:
            if getattr(self, name) and not all(url.lower().startswith("https:") for url in self.prometheus_urls()):
                raise SettingsError(
                    f"SURESCALE_{name.upper()}: SURESCALE_PROMETHEUS_URL uses no TLS; set addresses with https, or unset the file"
                )
        if bool(self.prometheus_certificate_file) != bool(self.prometheus_key_file):
            raise SettingsError("SURESCALE_PROMETHEUS_CERTIFICATE_FILE and SURESCALE_PROMETHEUS_KEY_FILE: set both, or neither")

    def prometheus_urls(self) -> tuple[str, ...]:
        """Return the addresses of the replicas of Prometheus."""
        return tuple(dict.fromkeys(url.strip() for url in self.prometheus_url.split(",") if url.strip()))


PROMETHEUS = SourceKind(
    make="surescale.engines.prometheus.source:PrometheusSource",
    checks="surescale.engines.prometheus.doctor:figures",
    settings=(PrometheusSettings,),
    needs=("prometheus_file",),
    asks_actuator=True,
)
"""A source for every engine."""
