"""Settings of every engine: its kind and address, which jobs are watched, which Kafka they read. Its own are in its folder."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import ClassVar, TypeVar

from surescale.contracts.addresses import addresses_in, is_http, without_password
from surescale.contracts.errors import SettingsError
from surescale.contracts.modes import LABEL_PREFIX
from surescale.contracts.settings import PipelineSettings, Settings, from_environment, like, settings_in
from surescale.engines.registry import Engine, Part, engines, users_of_settings
from surescale.runtime.access import Access

P = TypeVar("P", bound=Settings)


@dataclass(frozen=True, slots=True)
class ClusterSettings(PipelineSettings):
    """Settings of the engine of one cluster: the monitor, the rescaler, and `surescale doctor`."""

    engine: str = "simulated"
    """Kind of engine that runs the jobs: simulated, flink, kafka (jobs are consumer groups), or one that was installed."""
    source: str = ""
    """Where the jobs' metrics come from: simulated, flink, consumer-group or prometheus; empty: the engine itself, which for
    kafka is the broker (consumer-group)."""
    actuator: str = ""
    """What carries out commands: simulated, flink, processes, compose, kubernetes, or none (jobs are only watched); empty: the
    engine itself, and for kafka none."""
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
    READS: ClassVar[tuple[str, ...]] = ("ACTUATOR",)
    """What the role makes of the engine's parts, and reads the settings of."""
    parts: tuple[Settings, ...] = ()
    """Settings that the engine, its source and its actuator have of their own."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            SettingsError: an unknown engine, a source or actuator that does not fit it, or an invalid address or file; names the
                setting and the fix.
        """
        PipelineSettings.__post_init__(self)
        if self.engine not in engines():
            raise SettingsError(f"SURESCALE_ENGINE: {self.engine!r} is not one of {', '.join(engines())}")
        self._check_source_and_actuator()
        self._check_api()

    @property
    def chosen(self) -> Engine:
        """The kind of engine."""
        return engines()[self.engine]

    @property
    def source_kind(self) -> str:
        """Where the figures come from."""
        return self.source or next(iter(self.chosen.sources))

    @property
    def actuator_kind(self) -> str:
        """What carries out commands."""
        return self.actuator or next(iter(self.chosen.actuators))

    @property
    def access(self) -> Access:
        """What proves to the engine's API who we are, and to us what it is."""
        return Access(self.engine_token_file, self.engine_ca_file, self.engine_certificate_file, self.engine_key_file)

    def part(self, kind: type[P]) -> P:
        """Return settings that an engine, source or actuator has of its own; with their defaults, if none are given."""
        return next((part for part in self.parts if isinstance(part, kind)), None) or kind()

    def completed(self, variables: Mapping[str, str]) -> "ClusterSettings":
        """Return them with the parts of what they name.

        Raises:
            SettingsError: a part is invalid, lacks what is needed, or a variable is set that only another engine, source or
                actuator reads.
        """
        now = {"ENGINE": self.engine, "SOURCE": self.source_kind, "ACTUATOR": self.actuator_kind}
        used = {role: self.chosen.part_of(role, now[role]) for role in self.READS}
        kinds = dict.fromkeys([*self.chosen.settings, *(kind for part in used.values() for kind in part.settings)])
        parts = tuple(from_environment(kind, variables) for kind in kinds)
        values = {item.name: getattr(part, item.name) for part in parts for item in settings_in(part)}
        for role, part in used.items():
            for name in part.needs:
                if not values[name]:
                    raise SettingsError(f"SURESCALE_{name.upper()}: not set; SURESCALE_{role}={now[role]} needs it")
        for settings, users in users_of_settings().items():
            read = [user for user in users if user.keys() <= {"ENGINE", *self.READS}]
            lacking = [[each for each in user.items() if each not in now.items()] for user in read]
            for item in settings_in(settings):
                variable = f"SURESCALE_{item.name.upper()}"
                if lacking and item.name not in values and item.default == "" and variables.get(variable):
                    needed = " with ".join(f"SURESCALE_{name}={value}" for name, value in min(lacking, key=len))
                    raise SettingsError(f"{variable}: only {needed} uses it; set that, or unset this")
        return replace(self, parts=parts)

    def _check_source_and_actuator(self) -> None:
        for name, chosen in (("SOURCE", self.source), ("ACTUATOR", self.actuator)):
            known: dict[str, Mapping[str, Part]] = {
                each: engine.sources if name == "SOURCE" else engine.actuators for each, engine in engines().items()
            }
            if chosen and chosen not in known[self.engine]:
                fitting = [engine for engine, kinds in known.items() if chosen in kinds]
                instead = f", or SURESCALE_ENGINE={fitting[0]}" if fitting else ""
                raise SettingsError(
                    f"SURESCALE_{name}: {chosen!r} does not fit SURESCALE_ENGINE={self.engine}; "
                    f"set {' or '.join(known[self.engine])}{instead}"
                )
        source, actuators = self.chosen.sources[self.source_kind], self.chosen.actuators
        if source.asks_actuator and not actuators[self.actuator_kind].requirements:
            usable = " or ".join(kind for kind, actuator in actuators.items() if actuator.requirements)
            raise SettingsError(
                f"SURESCALE_ACTUATOR: {self.actuator_kind!r} needs to know what the job was asked for, which "
                f"SURESCALE_SOURCE={self.source_kind} cannot tell; set {usable}, "
                f"or SURESCALE_SOURCE={next(iter(self.chosen.sources))}"
            )
        if self.pipeline_clock and not source.follows_clock:
            raise SettingsError(
                f"SURESCALE_PIPELINE_CLOCK: SURESCALE_SOURCE={self.source_kind} keeps the wall's time; "
                "unset it (or use --wall-clock)"
            )

    def _check_api(self) -> None:
        urls = addresses_in(self.engine_url)
        for url in urls:
            if not is_http(url):
                raise SettingsError(
                    f"SURESCALE_ENGINE_URL: {without_password(url)!r} is not the address of an engine; "
                    "set one like http://127.0.0.1:8090, without user and password (there or with --engine-url)"
                )
        others = f"SURESCALE_ENGINE={' or '.join(name for name, engine in engines().items() if engine.is_secured)}"
        if len(urls) > 1 and not self.chosen.is_secured:
            raise SettingsError(f"SURESCALE_ENGINE_URL: the {self.engine} engine has one address; set a single one, or {others}")
        for name in ("engine_token_file", "engine_ca_file", "engine_certificate_file", "engine_key_file"):
            if getattr(self, name) and not self.chosen.is_secured:
                raise SettingsError(
                    f"SURESCALE_{name.upper()}: the {self.engine} engine has no use for it; unset it, or set {others}"
                )
            if getattr(self, name) and name != "engine_token_file" and not all(url.lower().startswith("https:") for url in urls):
                raise SettingsError(
                    f"SURESCALE_{name.upper()}: SURESCALE_ENGINE_URL uses no TLS; set an address with https, or unset the file"
                )
        if bool(self.engine_certificate_file) != bool(self.engine_key_file):
            raise SettingsError("SURESCALE_ENGINE_CERTIFICATE_FILE and SURESCALE_ENGINE_KEY_FILE: set both, or neither")


LOOK_SPREAD_MAX_S = 45
"""The rest of the minute is for looks that take long or are repeated."""


@dataclass(frozen=True, slots=True)
class SourceSettings(ClusterSettings):
    """Settings for reading the sources of figures: the monitor, and `surescale doctor`."""

    READS: ClassVar[tuple[str, ...]] = ("SOURCE", "ACTUATOR")
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
    source_kafka_aws_region: str = like(PipelineSettings, "kafka_aws_region")
    source_kafka_ca_file: str = like(PipelineSettings, "kafka_ca_file")
    source_kafka_certificate_file: str = like(PipelineSettings, "kafka_certificate_file")
    source_kafka_key_file: str = like(PipelineSettings, "kafka_key_file")
    jobs: str = ""
    """Names of the jobs to watch, separated by commas; ``*`` and ``?`` stand for other characters. Empty: every job."""
    jobs_label: str = ""
    """surescale.NAME=VALUE: watch jobs whose own parameters say so (Flink: ``pipeline.global-job-parameters``). Empty: all."""
    look_spread_s: int = 0
    """Seconds, at most 45, over which looks at jobs are spread: each job has its own time before the end of the minute. 0: all
    are looked at together, at its end."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            SettingsError: credentials that contradict each other, or a label without a name and a value; names the setting.
        """
        ClusterSettings.__post_init__(self)
        self.source_kafka()
        if not 0 <= self.look_spread_s <= LOOK_SPREAD_MAX_S:
            raise SettingsError(f"SURESCALE_LOOK_SPREAD_S: {self.look_spread_s} is not from 0 to {LOOK_SPREAD_MAX_S}")
        name, _, value = self.jobs_label.partition("=")
        if self.jobs_label and not (name.strip().startswith(LABEL_PREFIX) and value.strip()):
            raise SettingsError(
                f"SURESCALE_JOBS_LABEL: {self.jobs_label!r} is not {LABEL_PREFIX}NAME=VALUE; set one like surescale.watch=true"
            )

    def watches(self, name: str) -> bool:
        """Return whether a job of this name is to be watched."""
        patterns = [pattern.strip() for pattern in self.jobs.split(",") if pattern.strip()]
        return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)

    def watches_labels(self, labels: dict[str, str]) -> bool:
        """Return whether a job with these labels is to be watched."""
        name, _, value = (part.strip() for part in self.jobs_label.partition("="))
        return not name or labels.get(name) == value

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
            said = str(error).replace("SURESCALE_KAFKA_", "SURESCALE_SOURCE_KAFKA_").replace("--bootstrap", "--source-bootstrap")
            raise SettingsError(said.replace("SURESCALE_BOOTSTRAP", "SURESCALE_SOURCE_BOOTSTRAP")) from None


_KAFKA = tuple(item.name.removeprefix("source_") for item in fields(SourceSettings) if item.name.startswith("source_kafka_"))
