"""Settings the roles share; each field has its meaning, unit and default.

Every role reads them from environment variables ``SURESCALE_<FIELD>`` (upper case); command-line options override them.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, get_type_hints

from contracts.addresses import addresses_in, is_http, without_password
from contracts.errors import RecordRejected, SettingsError
from contracts.ids import split_job
from contracts.own_acts import OwnAct

S = TypeVar("S", bound="PipelineSettings")

PORT_MAX = 65_535
SPAN_MINUTES = 10
SPAN_MINUTES_MAX = 24 * 60
ENGINES = ("simulated", "flink", "kafka")
SOURCES = {"simulated": ("simulated",), "flink": ("flink", "prometheus"), "kafka": ("consumer-group", "prometheus")}
"""Where the figures of each engine's jobs may come from; the first one, unless a setting names another."""
ACTUATORS = {
    "simulated": ("simulated", "none"),
    "flink": ("flink", "kubernetes", "none"),
    "kafka": ("none", "processes", "compose", "kubernetes"),
}
"""What may carry out commands for each engine's jobs; the first one, unless a setting names another."""
ACTUATORS_BY_PROMETHEUS = ("none", "processes", "compose", "kubernetes")
"""What may carry out commands for jobs whose figures come from Prometheus: it does not know what Flink was asked for."""
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
_PASSWORD = ("kafka_username", "kafka_password_file")
_OAUTH_NEEDED = ("kafka_oauth_client_id", "kafka_oauth_client_secret_file", "kafka_oauth_token_url")
_OAUTH = (*_OAUTH_NEEDED, "kafka_oauth_scope", "kafka_oauth_ca_file")
LIKE = "like"
"""Metadata of a setting that is defined elsewhere: the class and the name of the field."""


def like(kind: type, name: str) -> Any:
    """Return a field with the default and the meaning of another class's field, so that both are written once."""
    (defined,) = (each for each in fields(kind) if each.name == name)
    return field(default=defined.default, metadata={LIKE: (kind, name)})


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Settings every role of a pipeline shares."""

    bootstrap: str = "127.0.0.1:9092"
    """Kafka bootstrap servers, host:port separated by commas."""
    kafka_security_protocol: str = "PLAINTEXT"
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, as Kafka's clients call them."""
    kafka_sasl_mechanism: str = "SCRAM-SHA-512"
    """With SASL: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN or OAUTHBEARER."""
    kafka_username: str = ""
    """With SCRAM or PLAIN: the user."""
    kafka_password_file: str = ""
    """With SCRAM or PLAIN: file with the password, and nothing else but a line's end."""
    kafka_oauth_client_id: str = ""
    """With OAUTHBEARER: this client's id at the issuer of tokens."""
    kafka_oauth_client_secret_file: str = ""
    """With OAUTHBEARER: file with the client's secret, and nothing else but a line's end."""
    kafka_oauth_token_url: str = ""
    """With OAUTHBEARER: address of the issuer's token endpoint, for the grant client_credentials."""
    kafka_oauth_scope: str = ""
    """With OAUTHBEARER: scope to ask the issuer for; empty: none."""
    kafka_oauth_ca_file: str = ""
    """With OAUTHBEARER and https: PEM file of the authorities that sign the issuer's certificate; empty: the system's."""
    kafka_ca_file: str = ""
    """With TLS: PEM file of the authorities that sign the brokers' certificates; empty: the system's."""
    kafka_certificate_file: str = ""
    """With TLS: PEM file of this client's certificate chain, if brokers ask for one (mutual TLS)."""
    kafka_key_file: str = ""
    """With TLS: PEM file of the certificate's private key, unencrypted PKCS#8."""
    topic_prefix: str = ""
    """Prefix of every topic name; a replay has its own."""
    redis_url: str = "redis://127.0.0.1:6379/0"
    """Redis address of the views; rediss:// for TLS."""
    redis_password_file: str = ""
    """File with the password towards Redis, read for each connection; empty: what the address says. That names the user."""
    redis_ca_file: str = ""
    """With rediss: PEM file of the authorities that sign the server's certificate; empty: the system's."""
    redis_certificate_file: str = ""
    """With rediss: PEM file of this client's certificate chain, if the server asks for one (mutual TLS)."""
    redis_key_file: str = ""
    """With rediss: PEM file of the certificate's private key, unencrypted."""
    cluster: str = "sim"
    """The cluster whose jobs this rescaler and monitor serve."""
    road: str = "main"
    """Name of the pipeline; key of its clock."""
    engine: str = "simulated"
    """Kind of engine that runs the jobs: simulated, flink, or kafka (jobs are consumer groups)."""
    source: str = ""
    """Where the figures of the jobs come from: simulated, flink, consumer-group or prometheus; empty: as is usual for the
    engine."""
    actuator: str = ""
    """What carries out commands: simulated, flink, processes, compose, kubernetes, or none (jobs are only watched); empty: as is
    usual for the engine, which for kafka is none."""
    groups_file: str = ""
    """Of the engine kafka: file (TOML or JSON) that says which consumer groups form a job, and how their workers are started;
    empty: each group is a job."""
    workers_folder: str = ""
    """Of the actuator processes: folder in which it keeps what it asked for, and a file and a log for each worker."""
    workers_max: int = 16
    """Of the actuators processes and compose: workers that this machine can hold, all groups together."""
    compose_url: str = ""
    """Of the actuator compose: socket of the container engine, like unix:///run/user/1000/docker.sock, or the http address of a
    proxy before it; empty: unix:///var/run/docker.sock."""
    flink_resources_file: str = ""
    """Of the engine flink with the actuator kubernetes: file (TOML or JSON) that says which FlinkDeployment or FlinkSessionJob of
    the Flink operator runs each job."""
    kubernetes_url: str = ""
    """Of the actuator kubernetes: address of the API server; empty, in a pod: of its own cluster, with the pod's own account."""
    kubernetes_token_file: str = ""
    """Of the actuator kubernetes: file with the bearer token of an account, read for each request."""
    kubernetes_ca_file: str = ""
    """Of the actuator kubernetes: PEM file of the authorities that sign the API server's certificate; empty: the system's."""
    engine_url: str = "http://127.0.0.1:8090"
    """Address of the engine's API; only the monitor and the rescaler's actuator use it. If Flink is highly available: those of
    all JobManagers, with commas between."""
    engine_token_file: str = ""
    """File with the bearer token, or the whole value of the header Authorization, that the engine's API asks for; empty: none."""
    engine_ca_file: str = ""
    """With https: PEM file of the authorities that sign the engine's certificate; empty: the system's."""
    engine_certificate_file: str = ""
    """With https: PEM file of this client's certificate chain, if the engine asks for one (mutual TLS)."""
    engine_key_file: str = ""
    """With https: PEM file of the certificate's private key, unencrypted."""
    window_minutes: int = 60
    """L: minutes in a window, one snapshot each."""
    allowed_lateness_ms: int = 5_000
    """How long a minute stays open past the job's highest event time when no marker closes it."""
    ahead_of_clock_ms_max: int = 120_000
    """Records further ahead of the pipeline's clock go to dead letters."""
    policy_folder: str = ""
    """Folder with one policy package per name; empty: the packages that ship with surescale."""
    policy: str = "sure"
    """Policy for jobs whose settings name none."""
    span_minutes: int = SPAN_MINUTES
    """Minutes between the decisions of a rule; a learned policy has the span it was trained with. In lockstep the simulated clock
    stops at the end of each."""
    seed: int = 0
    """Random seed of every decision."""
    health_port: int = 0
    """Port of this role's health endpoint and metrics; 0: none."""
    health_host: str = "127.0.0.1"
    """Address the health port listens on; keep loopback unless another machine reads the metrics."""
    hung_after_s: float = 120.0
    """Seconds that a loop of the role may stand still before its liveness check fails; a quarter later the process ends. A single
    call may take 30 s, so set no less than 60. 0: off."""
    road_clock: bool = False
    """True: follow the topic ``clock`` (and wait for it); false: use the wall clock."""

    def __post_init__(self) -> None:
        """Check the values; settings of a role call this before their own checks.

        Raises:
            SettingsError: an invalid engine address, port, policy or time; names the setting and the fix.
        """
        if not self.bootstrap.strip():
            raise SettingsError("SURESCALE_BOOTSTRAP: empty; set Kafka's address as host:port (there or with --bootstrap)")
        self._check_engine()
        try:
            split_job(f"{self.cluster}/job")
        except RecordRejected:
            raise SettingsError(
                f"SURESCALE_CLUSTER: {self.cluster!r} is not a name; set one without slashes, which is not '.', '..' or '*'"
            ) from None
        if not 0 <= self.health_port <= PORT_MAX:
            raise SettingsError(f"SURESCALE_HEALTH_PORT: {self.health_port} is not a port; set 1 to {PORT_MAX}, or 0 for none")
        if not 1 <= self.span_minutes <= SPAN_MINUTES_MAX:
            raise SettingsError(
                f"SURESCALE_SPAN_MINUTES: {self.span_minutes} is not a time between decisions; "
                f"set 1 to {SPAN_MINUTES_MAX} minutes"
            )
        if self.policy in set(OwnAct):
            raise SettingsError(
                f"SURESCALE_POLICY: {self.policy!r} is an act of the rescaler's own; give the policy another name"
            )
        self.check_least(window_minutes=1, allowed_lateness_ms=0, ahead_of_clock_ms_max=0, hung_after_s=0)
        self._check_kafka_security()
        self._check_redis_security()

    def _check_engine(self) -> None:
        if self.engine not in ENGINES:
            raise SettingsError(f"SURESCALE_ENGINE: {self.engine!r} is not one of {', '.join(ENGINES)}")
        self._check_source_and_actuator()
        urls = addresses_in(self.engine_url)
        for url in urls:
            if not is_http(url):
                raise SettingsError(
                    f"SURESCALE_ENGINE_URL: {without_password(url)!r} is not the address of an engine; "
                    "set one like http://127.0.0.1:8090, without user and password (there or with --engine-url)"
                )
        if len(urls) > 1 and self.engine != "flink":
            raise SettingsError(
                f"SURESCALE_ENGINE_URL: the {self.engine} engine has one address; set a single one, or SURESCALE_ENGINE=flink"
            )
        for name in ("engine_token_file", "engine_ca_file", "engine_certificate_file", "engine_key_file"):
            if getattr(self, name) and self.engine != "flink":
                raise SettingsError(
                    f"SURESCALE_{name.upper()}: the {self.engine} engine has no use for it; "
                    "unset it, or set SURESCALE_ENGINE=flink"
                )
            if getattr(self, name) and name != "engine_token_file" and not all(url.lower().startswith("https:") for url in urls):
                raise SettingsError(
                    f"SURESCALE_{name.upper()}: SURESCALE_ENGINE_URL uses no TLS; set an address with https, or unset the file"
                )
        if bool(self.engine_certificate_file) != bool(self.engine_key_file):
            raise SettingsError("SURESCALE_ENGINE_CERTIFICATE_FILE and SURESCALE_ENGINE_KEY_FILE: set both, or neither")
        if self.engine == "flink" and self.road_clock:
            raise SettingsError(
                f"SURESCALE_ROAD_CLOCK: SURESCALE_ENGINE={self.engine} publishes no clock; unset it (or use --wall-clock)"
            )

    def _check_source_and_actuator(self) -> None:
        for name, chosen, known in (("SOURCE", self.source, SOURCES), ("ACTUATOR", self.actuator, ACTUATORS)):
            if chosen and chosen not in known[self.engine]:
                fitting = [engine for engine in ENGINES if chosen in known[engine]]
                instead = f", or SURESCALE_ENGINE={fitting[0]}" if fitting else ""
                raise SettingsError(
                    f"SURESCALE_{name}: {chosen!r} does not fit SURESCALE_ENGINE={self.engine}; "
                    f"set {' or '.join(known[self.engine])}{instead}"
                )
        if self.source_kind == "prometheus" and self.actuator_kind not in ACTUATORS_BY_PROMETHEUS:
            usable = " or ".join(each for each in ACTUATORS_BY_PROMETHEUS if each in ACTUATORS[self.engine])
            raise SettingsError(
                f"SURESCALE_ACTUATOR: {self.actuator_kind!r} needs to know what the job was asked for, which "
                f"SURESCALE_SOURCE=prometheus cannot tell; set {usable}, or SURESCALE_SOURCE={SOURCES[self.engine][0]}"
            )
        if self.actuator_kind == "processes":
            for needed in ("groups_file", "workers_folder"):
                if not getattr(self, needed):
                    raise SettingsError(f"SURESCALE_{needed.upper()}: not set; SURESCALE_ACTUATOR=processes needs it")
        elif self.workers_folder:
            raise SettingsError("SURESCALE_WORKERS_FOLDER: only SURESCALE_ACTUATOR=processes uses it; set that, or unset this")
        self._check_compose()
        self._check_kubernetes()
        if self.groups_file and self.engine != "kafka":
            raise SettingsError("SURESCALE_GROUPS_FILE: only SURESCALE_ENGINE=kafka reads it; set that, or unset this")
        self.check_least(workers_max=1)

    def _check_compose(self) -> None:
        url = self.compose_url
        if self.actuator_kind != "compose":
            if url:
                raise SettingsError("SURESCALE_COMPOSE_URL: only SURESCALE_ACTUATOR=compose uses it; set that, or unset this")
            return
        if not self.groups_file:
            raise SettingsError("SURESCALE_GROUPS_FILE: not set; SURESCALE_ACTUATOR=compose needs it")
        if url and not url.startswith("unix:///") and not is_http(url):
            raise SettingsError(
                f"SURESCALE_COMPOSE_URL: {without_password(url)!r} is not a socket of a container engine; "
                "set one like unix:///var/run/docker.sock"
            )

    def _check_kubernetes(self) -> None:
        for name in ("kubernetes_url", "kubernetes_token_file", "kubernetes_ca_file"):
            if getattr(self, name) and self.actuator_kind != "kubernetes":
                raise SettingsError(
                    f"SURESCALE_{name.upper()}: only SURESCALE_ACTUATOR=kubernetes uses it; set that, or unset this"
                )
            if getattr(self, name) and name != "kubernetes_url" and self.kubernetes_url.lower().startswith("http:"):
                raise SettingsError(
                    f"SURESCALE_{name.upper()}: SURESCALE_KUBERNETES_URL uses no TLS; set one with https, or unset the file"
                )
        if self.kubernetes_url and not is_http(self.kubernetes_url):
            raise SettingsError(
                f"SURESCALE_KUBERNETES_URL: {without_password(self.kubernetes_url)!r} is not the address of an API server; "
                "set one like https://10.0.0.1:6443, without user and password"
            )
        is_operated = self.actuator_kind == "kubernetes" and self.engine == "flink"
        if self.flink_resources_file and not is_operated:
            raise SettingsError(
                "SURESCALE_FLINK_RESOURCES_FILE: only SURESCALE_ENGINE=flink with SURESCALE_ACTUATOR=kubernetes reads it; "
                "set both, or unset this"
            )
        if is_operated and not self.flink_resources_file:
            raise SettingsError(
                "SURESCALE_FLINK_RESOURCES_FILE: not set; SURESCALE_ENGINE=flink with SURESCALE_ACTUATOR=kubernetes needs it"
            )
        if self.actuator_kind == "kubernetes" and not is_operated and not self.groups_file:
            raise SettingsError("SURESCALE_GROUPS_FILE: not set; SURESCALE_ACTUATOR=kubernetes needs it")

    @property
    def source_kind(self) -> str:
        """Where the figures come from."""
        return self.source or SOURCES[self.engine][0]

    @property
    def actuator_kind(self) -> str:
        """What carries out commands."""
        return self.actuator or ACTUATORS[self.engine][0]

    def _check_kafka_security(self) -> None:
        protocol, mechanism = self.kafka_security_protocol, self.kafka_sasl_mechanism
        if protocol not in SECURITY_PROTOCOLS:
            raise SettingsError(f"SURESCALE_KAFKA_SECURITY_PROTOCOL: {protocol!r} is not one of {', '.join(SECURITY_PROTOCOLS)}")
        if mechanism not in SASL_MECHANISMS:
            raise SettingsError(f"SURESCALE_KAFKA_SASL_MECHANISM: {mechanism!r} is not one of {', '.join(SASL_MECHANISMS)}")
        self._check_kafka_client(protocol, mechanism)
        if not protocol.endswith("SSL") and (self.kafka_ca_file or self.kafka_certificate_file or self.kafka_key_file):
            raise SettingsError(
                f"SURESCALE_KAFKA_SECURITY_PROTOCOL: {protocol} uses no certificates; set SSL or SASL_SSL, or unset them"
            )
        if bool(self.kafka_certificate_file) != bool(self.kafka_key_file):
            raise SettingsError("SURESCALE_KAFKA_CERTIFICATE_FILE and SURESCALE_KAFKA_KEY_FILE: set both, or neither")

    def _check_kafka_client(self, protocol: str, mechanism: str) -> None:
        """Check who the client says it is: a user with a password, or a client of an issuer of tokens."""
        is_sasl, by_token = protocol.startswith("SASL_"), mechanism == "OAUTHBEARER"
        if is_sasl:
            for name in _OAUTH_NEEDED if by_token else _PASSWORD:
                if not getattr(self, name):
                    asking = (
                        f"SURESCALE_KAFKA_SASL_MECHANISM={mechanism}"
                        if by_token
                        else f"SURESCALE_KAFKA_SECURITY_PROTOCOL={protocol}"
                    )
                    raise SettingsError(f"SURESCALE_{name.upper()}: not set; {asking} needs it")
        elif self.kafka_username or self.kafka_password_file:
            raise SettingsError(
                f"SURESCALE_KAFKA_SECURITY_PROTOCOL: {protocol} sends no user and password; set SASL_SSL, or unset those"
            )
        for names, used in ((_OAUTH, is_sasl and by_token), (_PASSWORD, not by_token)):
            for name in names:
                if getattr(self, name) and not used:
                    instead = "SCRAM-SHA-512" if by_token else "OAUTHBEARER"
                    raise SettingsError(
                        f"SURESCALE_{name.upper()}: {protocol} with {mechanism} has no use for it; unset it, or set "
                        f"SURESCALE_KAFKA_SECURITY_PROTOCOL=SASL_SSL and SURESCALE_KAFKA_SASL_MECHANISM={instead}"
                    )
        if self.kafka_oauth_token_url and not is_http(self.kafka_oauth_token_url):
            raise SettingsError(
                f"SURESCALE_KAFKA_OAUTH_TOKEN_URL: {without_password(self.kafka_oauth_token_url)!r} is not the address of an "
                "issuer; set its token endpoint, like https://issuer.example.org/token, without user and password"
            )
        if self.kafka_oauth_ca_file and not self.kafka_oauth_token_url.lower().startswith("https:"):
            raise SettingsError(
                "SURESCALE_KAFKA_OAUTH_CA_FILE: SURESCALE_KAFKA_OAUTH_TOKEN_URL uses no TLS; set https there, or unset the file"
            )

    def _check_redis_security(self) -> None:
        if bool(self.redis_certificate_file) != bool(self.redis_key_file):
            raise SettingsError("SURESCALE_REDIS_CERTIFICATE_FILE and SURESCALE_REDIS_KEY_FILE: set both, or neither")
        if (self.redis_ca_file or self.redis_certificate_file) and not self.redis_url.startswith("rediss://"):
            raise SettingsError(
                "SURESCALE_REDIS_CA_FILE and _CERTIFICATE_FILE: the address in SURESCALE_REDIS_URL uses no TLS; "
                "write rediss:// there, or unset them"
            )

    def check_least(self, **least: int) -> None:
        """Check numeric fields, given by name, against their smallest allowed value.

        Raises:
            SettingsError: names the setting and that value.
        """
        for name, number in least.items():
            if getattr(self, name) < number:
                raise SettingsError(f"SURESCALE_{name.upper()}: must be at least {number}, not {getattr(self, name)}")


def from_environment(kind: type[S], environment: Mapping[str, str] | None = None, /, **options: object) -> S:
    """Build settings from defaults, then environment, then options that are not None.

    Raises:
        SettingsError: a variable does not parse; the message names it.
    """
    variables = os.environ if environment is None else environment
    hints = get_type_hints(kind)
    found: dict[str, object] = {}
    for item in fields(kind):
        name = f"SURESCALE_{item.name.upper()}"
        if name in variables:
            found[item.name] = _parse(name, variables[name], hints[item.name])
    found |= {key: value for key, value in options.items() if value is not None}
    return kind(**found)  # type: ignore[arg-type]  # each value was parsed by the field's own type


def to_environment(settings: PipelineSettings) -> dict[str, str]:
    """Return environment variables that give a child process the same settings."""
    return {f"SURESCALE_{item.name.upper()}": _text(getattr(settings, item.name)) for item in fields(settings)}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse(name: str, text: str, kind: object) -> object:
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()]
        if kind is int:
            return int(text)
        if kind is float:
            number = float(text)
            if not math.isfinite(number):
                raise ValueError(text)  # NaN passes every comparison with a limit
            return number
    except (KeyError, ValueError):
        raise SettingsError(f"{name}: {text!r} is not a valid {getattr(kind, '__name__', kind)}; set it or unset it") from None
    return text
