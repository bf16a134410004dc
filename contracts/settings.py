"""Settings the roles share; each field has its meaning, unit and default.

Every role reads them from environment variables ``SURESCALE_<FIELD>`` (upper case); command-line options override them.
"""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Self, TypeVar, get_type_hints

from surescale.contracts.addresses import is_http, without_password, wrong_broker
from surescale.contracts.errors import RecordRejected, SettingsError
from surescale.contracts.free_text import checked_text
from surescale.contracts.ids import NAME_LETTERS_MAX, split_job
from surescale.contracts.own_acts import OwnAct

S = TypeVar("S", bound="Settings")

PORT_MAX = 65_535
SPAN_MINUTES = 10
PREFIX_MAX = 200
"""Kafka takes names of 249 letters; the rest is for those of the topics."""
_PREFIX = re.compile(rf"[A-Za-z0-9._-]{{0,{PREFIX_MAX}}}")
SPAN_MINUTES_MAX = 24 * 60
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER", "AWS_MSK_IAM")
BY_TOKEN = SASL_MECHANISMS[3:]
_PASSWORD = ("kafka_username", "kafka_password_file")
_OAUTH_NEEDED = ("kafka_oauth_client_id", "kafka_oauth_client_secret_file", "kafka_oauth_token_url")
_OAUTH = (*_OAUTH_NEEDED, "kafka_oauth_scope", "kafka_oauth_ca_file")
_IAM = ("kafka_aws_region",)
_OF_MSK = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?(?::\d+)?", re.ASCII)
LIKE = "like"
"""Metadata of a setting that is defined elsewhere: the class and the name of the field."""
PARTS = "parts"
"""The field that holds further settings, of what the others choose."""


def like(kind: type, name: str) -> Any:
    """Return a field with the default and the meaning of another class's field, so that both are written once."""
    (defined,) = (each for each in fields(kind) if each.name == name)
    return field(default=defined.default, metadata={LIKE: (kind, name)})


def is_prefix(text: str) -> bool:
    """Say whether names of topics can begin so."""
    return _PREFIX.fullmatch(text) is not None


class Settings:
    """What is read from the environment."""

    __slots__ = ()

    def check_least(self, **least: int) -> None:
        """Check numeric fields, given by name, against their smallest allowed value.

        Raises:
            SettingsError: names the setting and that value.
        """
        for name, number in least.items():
            if getattr(self, name) < number:
                raise SettingsError(f"SURESCALE_{name.upper()}: must be at least {number}, not {getattr(self, name)}")

    def completed(self, variables: Mapping[str, str]) -> Self:
        """Return them with their parts, which are read from the same variables.

        Raises:
            SettingsError: a part is invalid, or does not go with the rest.
        """
        return self


@dataclass(frozen=True, slots=True)
class PipelineSettings(Settings):
    """Settings every role of a pipeline shares."""

    bootstrap: str = "127.0.0.1:9092"
    """Kafka bootstrap servers, host:port separated by commas."""
    kafka_security_protocol: str = "PLAINTEXT"
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, as Kafka's clients call them."""
    kafka_sasl_mechanism: str = "SCRAM-SHA-512"
    """With SASL: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN, OAUTHBEARER or AWS_MSK_IAM."""
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
    kafka_aws_region: str = ""
    """With AWS_MSK_IAM: region of the brokers; empty: the one in their names."""
    kafka_ca_file: str = ""
    """With TLS: PEM file of the authorities that sign the brokers' certificates; empty: the system's."""
    kafka_certificate_file: str = ""
    """With TLS: PEM file of this client's certificate chain, if brokers ask for one (mutual TLS)."""
    kafka_key_file: str = ""
    """With TLS: PEM file of the certificate's private key, unencrypted PKCS#8."""
    topic_prefix: str = ""
    """Prefix of every topic name; a replay has its own."""
    redis_url: str = "redis://127.0.0.1:6379/0"
    """Redis address of the views; rediss:// for TLS; redis+sentinel://one:26379,two:26379/NAME/0 for the master of that name
    that Sentinels know (rediss+sentinel:// for TLS)."""
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
    pipeline: str = "main"
    """Name of the pipeline; key of its clock."""
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
    """Minutes between the decisions of a rule; a package, such as ``sure``, states its own span. Emergencies come between. In
    lockstep the simulated clock stops at the end of each."""
    seed: int = 0
    """Random seed of every decision."""
    health_port: int = 0
    """Port of this role's health endpoint and metrics; 0: none."""
    health_host: str = "127.0.0.1"
    """Address the health port listens on; keep loopback unless another machine reads the metrics."""
    hung_after_s: float = 120.0
    """Seconds that a loop of the role may stand still before its liveness check fails; a quarter later the process ends. A single
    call may take 30 s, so set no less than 60. 0: off."""
    pipeline_clock: bool = False
    """True: follow the topic ``clock`` (and wait for it); false: use the wall clock."""

    def __post_init__(self) -> None:
        """Check the values; settings of a role call this before their own checks.

        Raises:
            SettingsError: an invalid engine address, port, policy or time; names the setting and the fix.
        """
        if not self.bootstrap.strip():
            raise SettingsError("SURESCALE_BOOTSTRAP: empty; set Kafka's address as host:port (there or with --bootstrap)")
        if (wrong := wrong_broker(self.bootstrap)) is not None:
            raise SettingsError(
                f"SURESCALE_BOOTSTRAP: {without_password(wrong)!r} is not a Kafka broker; "
                "set host:port, several with commas between (there or with --bootstrap)"
            )
        if not is_prefix(self.topic_prefix):
            raise SettingsError(
                f"SURESCALE_TOPIC_PREFIX: no topic's name can begin with {self.topic_prefix!r}; use up to {PREFIX_MAX} "
                "letters, digits, dots, dashes and underscores (there or with --prefix)"
            )
        try:
            split_job(f"{self.cluster}/job")
            checked_text("SURESCALE_PIPELINE", self.pipeline)
        except RecordRejected:
            raise SettingsError(
                f"SURESCALE_CLUSTER: {self.cluster!r} is not a name; set one without slashes, which is not '.', '..' or '*'"
            ) from None
        if len(self.cluster) > NAME_LETTERS_MAX:
            raise SettingsError(f"SURESCALE_CLUSTER: has {len(self.cluster)} characters; give at most {NAME_LETTERS_MAX}")
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
        is_sasl, by_token = protocol.startswith("SASL_"), mechanism in BY_TOKEN
        by_oauth, by_iam = mechanism == "OAUTHBEARER", mechanism == "AWS_MSK_IAM"
        if is_sasl:
            for name in _OAUTH_NEEDED if by_oauth else () if by_iam else _PASSWORD:
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
        for names, used, instead in (
            (_OAUTH, is_sasl and by_oauth, "OAUTHBEARER"),
            (_IAM, is_sasl and by_iam, "AWS_MSK_IAM"),
            (_PASSWORD, not by_token, "SCRAM-SHA-512"),
        ):
            for name in names:
                if getattr(self, name) and not used:
                    raise SettingsError(
                        f"SURESCALE_{name.upper()}: {protocol} with {mechanism} has no use for it; unset it, or set "
                        f"SURESCALE_KAFKA_SECURITY_PROTOCOL=SASL_SSL and SURESCALE_KAFKA_SASL_MECHANISM={instead}"
                    )
        if is_sasl and by_iam and not self.aws_region:
            raise SettingsError(
                "SURESCALE_KAFKA_AWS_REGION: not set, and not in the names of SURESCALE_BOOTSTRAP; set the region of the brokers"
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

    @property
    def aws_region(self) -> str:
        """Return the region of the brokers: as set, else as the names that AWS gives them have it; empty: unknown."""
        named = {found[1] for each in self.bootstrap.split(",") if (found := _OF_MSK.search(each.strip().lower()))}
        return self.kafka_aws_region or (named.pop() if len(named) == 1 else "")

    def _check_redis_security(self) -> None:
        if bool(self.redis_certificate_file) != bool(self.redis_key_file):
            raise SettingsError("SURESCALE_REDIS_CERTIFICATE_FILE and SURESCALE_REDIS_KEY_FILE: set both, or neither")
        uses_tls = self.redis_url.startswith(("rediss://", "rediss+sentinel://"))
        if (self.redis_ca_file or self.redis_certificate_file) and not uses_tls:
            raise SettingsError(
                "SURESCALE_REDIS_CA_FILE and _CERTIFICATE_FILE: the address in SURESCALE_REDIS_URL uses no TLS; "
                "write rediss:// there, or unset them"
            )


def from_environment(kind: type[S], environment: Mapping[str, str] | None = None, /, **options: object) -> S:
    """Build settings from defaults, then environment, then options that are not None.

    Raises:
        SettingsError: a variable does not parse; the message names it.
    """
    variables = os.environ if environment is None else environment
    hints = get_type_hints(kind)
    found: dict[str, object] = {}
    for item in settings_in(kind):
        name = f"SURESCALE_{item.name.upper()}"
        if name in variables:
            found[item.name] = parse(name, variables[name], hints[item.name])
    found |= {key: value for key, value in options.items() if value is not None}
    return kind(**found).completed(variables)


def settings_in(kind: type[Settings] | Settings) -> list[Field[Any]]:
    """Return the fields that are settings."""
    return [item for item in fields(kind) if item.name != PARTS]  # type: ignore[arg-type]  # each kind is a dataclass


def to_environment(settings: Settings) -> dict[str, str]:
    """Return environment variables that give a child process the same settings."""
    found = {f"SURESCALE_{item.name.upper()}": _text(getattr(settings, item.name)) for item in settings_in(settings)}
    return {name: value for part in getattr(settings, PARTS, ()) for name, value in to_environment(part).items()} | found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse(name: str, text: str, kind: object) -> object:
    """Return the value of a variable as its type has it; one that is neither bool nor a number stays text.

    Raises:
        SettingsError: it does not parse; the message names the variable.
    """
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
        wanted = "true or false" if kind is bool else "a whole number" if kind is int else "a number"
        raise SettingsError(f"{name}: {text[:40]!r} is not {wanted}; correct or unset it") from None
    return text
