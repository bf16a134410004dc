"""Where the figures of jobs come from, beside the engine itself: the Kafka that the jobs read, and Prometheus."""

from dataclasses import dataclass

from contracts.addresses import is_http, without_password
from contracts.errors import SettingsError
from contracts.settings import PipelineSettings, like


@dataclass(frozen=True, slots=True)
class SourceSettings(PipelineSettings):
    """Settings for reading the sources of figures: the monitor, and `surescale doctor`."""

    source_bootstrap: str = ""
    """Kafka that the jobs' sources read, host:port separated by commas. Empty: the pipeline's own, with its credentials."""
    source_kafka_security_protocol: str = like(PipelineSettings, "kafka_security_protocol")
    source_kafka_sasl_mechanism: str = like(PipelineSettings, "kafka_sasl_mechanism")
    source_kafka_username: str = like(PipelineSettings, "kafka_username")
    source_kafka_password_file: str = like(PipelineSettings, "kafka_password_file")
    source_kafka_oauth_client_id: str = like(PipelineSettings, "kafka_oauth_client_id")
    source_kafka_oauth_client_secret_file: str = like(PipelineSettings, "kafka_oauth_client_secret_file")
    source_kafka_oauth_token_url: str = like(PipelineSettings, "kafka_oauth_token_url")
    source_kafka_oauth_scope: str = like(PipelineSettings, "kafka_oauth_scope")
    source_kafka_oauth_ca_file: str = like(PipelineSettings, "kafka_oauth_ca_file")
    source_kafka_ca_file: str = like(PipelineSettings, "kafka_ca_file")
    source_kafka_certificate_file: str = like(PipelineSettings, "kafka_certificate_file")
    source_kafka_key_file: str = like(PipelineSettings, "kafka_key_file")
    prometheus_url: str = "http://127.0.0.1:9090"
    """Of the source prometheus: address of Prometheus, with the path of a proxy in front of it; several, separated by commas, are
    replicas, and the next one is asked when one does not answer."""
    prometheus_file: str = ""
    """Of the source prometheus: file (TOML or JSON) that names the jobs, their tasks and the expressions of their figures."""
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
            SettingsError: credentials that contradict each other, or settings of Prometheus that are missing or of no use; names
                the setting.
        """
        PipelineSettings.__post_init__(self)
        self.source_kafka()
        self._check_prometheus()

    def prometheus_urls(self) -> tuple[str, ...]:
        """Return the addresses of the replicas of Prometheus."""
        return tuple(dict.fromkeys(url.strip() for url in self.prometheus_url.split(",") if url.strip()))

    def _check_prometheus(self) -> None:
        files = ("prometheus_file", "prometheus_token_file", *_PROMETHEUS_TLS)
        if self.source_kind != "prometheus":
            for name in files:
                if getattr(self, name):
                    raise SettingsError(
                        f"SURESCALE_{name.upper()}: only SURESCALE_SOURCE=prometheus uses it; set that, or unset this"
                    )
            return
        if not self.prometheus_file:
            raise SettingsError("SURESCALE_PROMETHEUS_FILE: not set; SURESCALE_SOURCE=prometheus needs it")
        if self.road_clock:
            raise SettingsError("SURESCALE_ROAD_CLOCK: Prometheus keeps the wall's time; unset it (or use --wall-clock)")
        for url in self.prometheus_urls() or ("",):
            if not is_http(url):
                raise SettingsError(
                    f"SURESCALE_PROMETHEUS_URL: {without_password(url)!r} is not the address of a Prometheus; "
                    "set one like http://127.0.0.1:9090, without user and password"
                )
        for name in _PROMETHEUS_TLS:
            if getattr(self, name) and not all(url.lower().startswith("https:") for url in self.prometheus_urls()):
                raise SettingsError(
                    f"SURESCALE_{name.upper()}: SURESCALE_PROMETHEUS_URL uses no TLS; set addresses with https, or unset the file"
                )
        if bool(self.prometheus_certificate_file) != bool(self.prometheus_key_file):
            raise SettingsError("SURESCALE_PROMETHEUS_CERTIFICATE_FILE and SURESCALE_PROMETHEUS_KEY_FILE: set both, or neither")

    def source_kafka(self) -> PipelineSettings:
        """Return the Kafka that the jobs' sources read, in the form that Kafka clients take.

        Raises:
            SettingsError: the credentials contradict each other; names the setting.
        """
        given = {name: getattr(self, f"source_{name}") for name in _KAFKA}
        if not self.source_bootstrap:
            if given != {name: getattr(PipelineSettings(), name) for name in _KAFKA}:
                raise SettingsError(
                    "SURESCALE_SOURCE_BOOTSTRAP: not set, though credentials are; set the brokers that jobs' sources read"
                )
            return self
        try:
            return PipelineSettings(bootstrap=self.source_bootstrap, **given)
        except SettingsError as error:
            raise SettingsError(str(error).replace("SURESCALE_KAFKA_", "SURESCALE_SOURCE_KAFKA_")) from None


_KAFKA = (
    "kafka_security_protocol",
    "kafka_sasl_mechanism",
    "kafka_username",
    "kafka_password_file",
    "kafka_oauth_client_id",
    "kafka_oauth_client_secret_file",
    "kafka_oauth_token_url",
    "kafka_oauth_scope",
    "kafka_oauth_ca_file",
    "kafka_ca_file",
    "kafka_certificate_file",
    "kafka_key_file",
)
_PROMETHEUS_TLS = ("prometheus_ca_file", "prometheus_certificate_file", "prometheus_key_file")
