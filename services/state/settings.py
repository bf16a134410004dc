"""Settings of the state service."""

import re
from dataclasses import dataclass

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PORT_MAX, is_prefix, like
from surescale.engines.kubernetes import KubernetesSettings
from surescale.services.state.notify.settings import NotifySettings

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class StateSettings(NotifySettings):
    """What the state service reads besides the shared settings."""

    http_host: str = "127.0.0.1"
    """Address that the HTTP API listens on; `::` is IPv6 alone, empty both."""
    http_port: int = 8070
    """Port of the HTTP API."""
    http_token_file: str = ""
    """File of bearer tokens, one a line, that the HTTP API asks for, but for /health; empty: none. Read again when it changes."""
    http_operate_token_file: str = ""
    """File of bearer tokens that may also pause, resume and approve, a name and a token a line; empty: the HTTP API changes
    nothing. Read again when it changes."""
    http_hosts: str = ""
    """Names with a dot under which clients reach the HTTP API, separated by commas; addresses and names without a dot hold."""
    http_other_prefixes: str = ""
    """Topic prefixes of other pipelines on the same Kafka and Redis, separated by commas, whose jobs page and API also show."""
    http_certificate_file: str = ""
    """PEM file of the HTTP API's certificate chain; empty: no TLS. Read again when it changes."""
    http_key_file: str = ""
    """PEM file of the certificate's private key, unencrypted."""
    keda_port: int = 0
    """Port of KEDA's external scaler (gRPC), at the address of the HTTP API and with its certificate; 0: none."""
    keda_client_ca_file: str = ""
    """PEM file of the authorities that sign KEDA's client certificates; empty: none is asked for. It is needed where the HTTP
    API asks for tokens: KEDA sends none. Read again when it changes."""
    counterfactual_seconds: float = 20.0
    """Time for one answer to "what if this task or minute had not been seen", which a process of its own gives; then it is
    stopped. 0: nobody is answered."""

    stream_namespaces: str = ""
    """Kubernetes namespaces whose ScaledStreams set jobs, separated by commas; empty: none."""
    kubernetes_url: str = like(KubernetesSettings, "kubernetes_url")
    kubernetes_token_file: str = like(KubernetesSettings, "kubernetes_token_file")
    kubernetes_ca_file: str = like(KubernetesSettings, "kubernetes_ca_file")

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Return the topic prefixes of the pipelines that are shown, this one's first."""
        others = (each.strip() for each in self.http_other_prefixes.split(","))
        return tuple(dict.fromkeys((self.topic_prefix, *filter(None, others))))

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces whose ScaledStreams set jobs."""
        return tuple(dict.fromkeys(each.strip() for each in self.stream_namespaces.split(",") if each.strip()))

    @property
    def kubernetes(self) -> KubernetesSettings:
        """Return how to reach the API server."""
        return KubernetesSettings(self.kubernetes_url, self.kubernetes_token_file, self.kubernetes_ca_file)

    def __post_init__(self) -> None:
        """Refuse an invalid port, one half of a certificate, and a namespace that is none.

        Raises:
            SettingsError: names the setting and the fix.
        """
        NotifySettings.__post_init__(self)
        if not 0 <= self.http_port <= PORT_MAX:
            raise SettingsError(
                f"http_port: {self.http_port} is not a port; set one from 1 to {PORT_MAX} (SURESCALE_HTTP_PORT, --port)"
            )
        self._check_keda()
        for prefix in self.prefixes[1:]:
            if not is_prefix(prefix):
                raise SettingsError(
                    f"SURESCALE_HTTP_OTHER_PREFIXES: no topic's name can begin with {prefix!r}; write prefixes of other "
                    "pipelines with commas between"
                )
        if not 0 <= self.counterfactual_seconds <= 600:
            raise SettingsError(
                f"SURESCALE_COUNTERFACTUAL_SECONDS: must be between 0 and 600, not {self.counterfactual_seconds:g}"
            )
        if bool(self.http_certificate_file) != bool(self.http_key_file):
            raise SettingsError("SURESCALE_HTTP_CERTIFICATE_FILE and SURESCALE_HTTP_KEY_FILE: set both, or neither")
        for name in self.namespaces:
            if not _NAMESPACE.fullmatch(name):
                raise SettingsError(
                    f"SURESCALE_STREAM_NAMESPACES: {name!r} is no name of a namespace; write their names with commas between"
                )
        if self.namespaces:
            _ = self.kubernetes  # says what is wrong with it

    def _check_keda(self) -> None:
        if not 0 <= self.keda_port <= PORT_MAX:
            raise SettingsError(
                f"SURESCALE_KEDA_PORT: {self.keda_port} is not a port; set one from 1 to {PORT_MAX}, or 0 for none"
            )
        if self.keda_client_ca_file and not self.http_certificate_file:
            raise SettingsError("SURESCALE_KEDA_CLIENT_CA_FILE: needs TLS; set SURESCALE_HTTP_CERTIFICATE_FILE and _KEY_FILE too")
        if self.keda_port and self.http_token_file and not self.keda_client_ca_file:
            raise SettingsError(
                "SURESCALE_KEDA_PORT: the HTTP API asks for tokens (SURESCALE_HTTP_TOKEN_FILE), and KEDA sends none; set "
                "SURESCALE_KEDA_CLIENT_CA_FILE, so that KEDA shows a certificate"
            )
