"""A real broker with a second listener that wants TLS and SASL, or TLS and a client certificate."""

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from surescale.contracts.settings import PipelineSettings
from surescale.runtime.kafka import admin_client
from surescale.runtime.kafka_errors import Refusals, Refused
from surescale.runtime.ports import LOOPBACK, free_port
from surescale.services.local_stack.flink.scaled_job import compiled
from surescale.services.local_stack.servers import LocalBroker
from tests.support.issuer import AUDIENCE, CLIENT, ISSUER, SECRET, Issuer, make_key
from tests.support.waiting import PATIENT_S, wait_until

USER, PASSWORD = "surescale", 'a "quoted" \\ pass=word;'
TELLTALE = "pass=word"  # a part of the password that looks the same however it is quoted
STORE_PASSWORD = "changeit"
BROKER_NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"
_ITERATIONS = 4096
_OPERATIONS = {"Read": "READ", "Write": "WRITE", "Describe": "DESCRIBE", "DescribeConfigs": "DESCRIBE_CONFIGS"}


class SecureBroker(LocalBroker):
    """A local broker whose ``address`` is plaintext, for the tests themselves, and whose ``secure`` address is not.

    Files in ``folder``: ``ca.pem``, ``other-ca.pem`` (signs nothing here), ``client.pem`` and ``client-key.pem``, ``password``.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._secure_port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        make_certificates(folder)
        (folder / "password").write_text(f"{PASSWORD}\n")
        (folder / "wrong-password").write_text("wrong\n")

    @property
    def secure(self) -> str:
        """``host:port`` of the listener with TLS."""
        return f"{LOOPBACK}:{self._secure_port}"

    @property
    def scram(self) -> dict[str, str]:
        """Return settings of a client with TLS and SCRAM."""
        return {
            "bootstrap": self.secure,
            "kafka_security_protocol": "SASL_SSL",
            "kafka_sasl_mechanism": "SCRAM-SHA-512",
            "kafka_username": USER,
            "kafka_password_file": str(self.folder / "password"),
            "kafka_ca_file": str(self.folder / "ca.pem"),
        }

    def add_user(self, *names: str, password: str = PASSWORD) -> None:
        """Create SCRAM users, or change their password; all have the same."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
        wanted = [UserScramCredentialUpsertion(name, info, password.encode()) for name in names or (USER,)]
        made = admin.alter_user_scram_credentials(wanted)
        for future in made.values():
            future.result(20)

    def rotate(self, password: str) -> None:
        """Change the password at the broker, then in the file, whole at once."""
        self.add_user(password=password)
        new = self.folder / "password.new"
        new.write_text(f"{password}\n")
        new.replace(self.folder / "password")

    def _own_settings(self, data: Path) -> Mapping[str, str]:
        plain = super()._own_settings(data)
        own = "listener.name.secure"
        return plain | {
            "listeners": f"{plain['listeners']},SECURE://{self.secure}",
            "advertised.listeners": f"{plain['advertised.listeners']},SECURE://{self.secure}",
            "listener.security.protocol.map": f"{plain['listener.security.protocol.map']},SECURE:{self.protocol}",
            f"{own}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            f"{own}.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
            f"{own}.ssl.keystore.type": "PKCS12",
            f"{own}.ssl.keystore.location": str(self.folder / "broker.p12"),
            f"{own}.ssl.keystore.password": STORE_PASSWORD,
            f"{own}.ssl.truststore.type": "PEM",
            f"{own}.ssl.truststore.location": str(self.folder / "ca.pem"),
            f"{own}.ssl.client.auth": "required" if self.protocol == "SSL" else "none",
        }

    protocol = "SASL_SSL"


class MutualTlsBroker(SecureBroker):
    """A local broker whose second listener wants a client certificate."""

    protocol = "SSL"

    @property
    def mutual(self) -> dict[str, str]:
        """Return settings of a client with a certificate."""
        return {
            "bootstrap": self.secure,
            "kafka_security_protocol": "SSL",
            "kafka_ca_file": str(self.folder / "ca.pem"),
            "kafka_certificate_file": str(self.folder / "client.pem"),
            "kafka_key_file": str(self.folder / "client-key.pem"),
        }


class AuthorizingBroker(SecureBroker):
    """A local broker whose second listener lets a user do only what an ACL allows; the tests' own listener may do everything."""

    def grant(self, documents: Iterable[Mapping[str, str]]) -> None:
        """Add ACLs, as ``surescale topics acls --json`` prints them."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        asked = [AclBinding(*_named(each)) for each in documents]
        for future in admin.create_acls(asked).values():
            future.result(20)
        any_resource = (ResourceType.ANY, None, ResourcePatternType.ANY)
        everything = AclBindingFilter(*any_resource, None, None, AclOperation.ANY, AclPermissionType.ANY)

        def in_force() -> bool:
            return {str(each) for each in asked} <= {str(each) for each in admin.describe_acls(everything).result(20)}

        wait_until(in_force, what="the rights granted to be in force")  # the controller answers before the broker has them

    def revoke(self, documents: Iterable[Mapping[str, str]]) -> None:
        """Take ACLs away again."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.delete_acls([AclBindingFilter(*_named(each)) for each in documents]).values():
            assert future.result(20), "no such right was granted"

    def allow_everything(self, user: str) -> None:
        """Let a user read, write and create whatever there is."""
        anything = [(ResourceType.TOPIC, "*"), (ResourceType.GROUP, "*"), (ResourceType.TRANSACTIONAL_ID, "*")]
        everything = [
            AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", AclOperation.ALL, AclPermissionType.ALLOW)
            for kind, name in (*anything, (ResourceType.BROKER, "kafka-cluster"))
        ]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_acls(everything).values():
            future.result(20)

    def _own_settings(self, data: Path) -> Mapping[str, str]:
        return super()._own_settings(data) | {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "false",
        }


class TokenBroker(AuthorizingBroker):
    """An authorizing broker whose second listener also takes an issuer's tokens, and ends a connection when its token expires.

    A user's name is the token's claim ``sub``.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        make_key(folder)
        (folder / "secret").write_text(f"{SECRET}\n")
        (folder / "wrong-secret").write_text("wrong\n")

    def oauth(self, issuer: Issuer, client: str = CLIENT) -> dict[str, str]:
        """Return settings of a client with TLS and tokens."""
        found = {
            "bootstrap": self.secure,
            "kafka_security_protocol": "SASL_SSL",
            "kafka_sasl_mechanism": "OAUTHBEARER",
            "kafka_oauth_client_id": client,
            "kafka_oauth_client_secret_file": str(self.folder / "secret"),
            "kafka_oauth_token_url": issuer.url,
            "kafka_oauth_scope": "kafka",
            "kafka_ca_file": str(self.folder / "ca.pem"),
        }
        return found | ({"kafka_oauth_ca_file": str(self.folder / "ca.pem")} if issuer.has_tls else {})

    def _own_settings(self, data: Path) -> Mapping[str, str]:
        own, package = "listener.name.secure", "org.apache.kafka.common.security.oauthbearer"
        return {**super()._own_settings(data)} | {
            f"{own}.sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
            f"{own}.oauthbearer.sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
            f"{own}.oauthbearer.sasl.server.callback.handler.class": f"{package}.OAuthBearerValidatorCallbackHandler",
            f"{own}.oauthbearer.connections.max.reauth.ms": "3600000",
            # Kafka 4.1.1 does not find these under the listener's name, and takes tokens that nobody signed; 4.2.1 does.
            f"{own}.oauthbearer.sasl.oauthbearer.jwt.validator.class": f"{package}.BrokerJwtValidator",
            f"{own}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self._keys_url,
            f"{own}.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
            f"{own}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{own}.oauthbearer.sasl.oauthbearer.clock.skew.seconds": "1",
        }

    def _java_command(self, main_class: str) -> list[str]:
        java, *rest = super()._java_command(main_class)
        return [java, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._keys_url}", *rest]

    @property
    def _keys_url(self) -> str:
        return (self.folder / "jwks.json").as_uri()


KEY_ID, KEY_SECRET, REGION = "AKIASURESCALETESTS00", "not/a+secret/of/anybody", "eu-test-1"


class IamBroker(AuthorizingBroker):
    """An authorizing broker whose second listener also takes the tokens of AWS MSK's IAM, and verifies their signatures.

    A user's name is the id of the access key. Files in ``folder``: ``keys``, secrets by the ids that may connect, and
    ``accepted``, key and signature of each token that was taken.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "keys").write_text(f"{KEY_ID}={KEY_SECRET}\n")
        (folder / "accepted").touch()
        self._handler = compiled(Path(__file__).parent / "java" / "SignedTokens.java", self._jars, "Kafka")

    @property
    def iam(self) -> dict[str, str]:
        """Return settings of a client with TLS and AWS_MSK_IAM; its key comes from the environment."""
        return {
            "bootstrap": self.secure,
            "kafka_security_protocol": "SASL_SSL",
            "kafka_sasl_mechanism": "AWS_MSK_IAM",
            "kafka_aws_region": REGION,
            "kafka_ca_file": str(self.folder / "ca.pem"),
        }

    @property
    def accepted(self) -> list[str]:
        """Return key and signature of the tokens that were taken, each once."""
        return list(dict.fromkeys((self.folder / "accepted").read_text().splitlines()))

    def _own_settings(self, data: Path) -> Mapping[str, str]:
        own = "listener.name.secure"
        options = {"keys": self.folder / "keys", "accepted": self.folder / "accepted", "region": REGION}
        words = " ".join(f'{name}="{value}"' for name, value in options.items())
        module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        return {**super()._own_settings(data)} | {
            f"{own}.sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
            f"{own}.oauthbearer.sasl.jaas.config": f"{module} required {words};",
            f"{own}.oauthbearer.sasl.server.callback.handler.class": "SignedTokens",
            f"{own}.oauthbearer.sasl.login.callback.handler.class": "SignedTokens",  # the default one knows no such options
            f"{own}.oauthbearer.connections.max.reauth.ms": "3600000",
        }

    def _java_command(self, main_class: str) -> list[str]:
        found = super()._java_command(main_class)
        jars = found.index("-cp") + 1
        found[jars] += f":{self._handler}"
        return found


def _named(document: Mapping[str, str]) -> tuple[object, ...]:
    """Return what an ACL, or a filter that finds it, is made of."""
    return (
        ResourceType[document["resource"].replace("-", "_").upper()],
        document["name"],
        ResourcePatternType.LITERAL,
        document["principal"],
        "*",
        AclOperation[_OPERATIONS[document["operation"]]],
        AclPermissionType.ALLOW,
    )


def make_certificates(folder: Path) -> None:
    """Write two authorities, a broker's key store for loopback, and a client's certificate, all valid for two days."""
    for name in ("ca", "other-ca"):
        new = ["-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}-key.pem", "-out", f"{name}.pem"]
        # Python 3.13 and later ask for what an authority may do, and for the key identifier of whatever it signs.
        use = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
        _openssl(folder, "req", "-x509", "-days", "2", "-subj", f"/CN={name}", *use, *new)
    for name, extension in (("broker", BROKER_NAMES), ("client", "extendedKeyUsage=clientAuth")):
        made = ["-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}-key.pem", "-out", f"{name}.csr"]
        _openssl(folder, "req", *made)
        _sign(folder, name, extension, days=2)
    _store_brokers(folder)


def certify_broker(folder: Path, extension: str, *, days: int) -> None:
    """Make the broker's certificate again, for other names, or with fewer than no days: one that has expired."""
    _sign(folder, "broker", extension, days=days)
    _store_brokers(folder)


def _sign(folder: Path, name: str, extension: str, *, days: int) -> None:
    (folder / f"{name}.ext").write_text(f"{extension}\nauthorityKeyIdentifier=keyid\n")
    signed = ["-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-extfile", f"{name}.ext"]
    _openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", "-days", str(days), *signed)


def _store_brokers(folder: Path) -> None:
    store = ["-name", "broker", "-passout", f"pass:{STORE_PASSWORD}", "-out", "broker.p12"]
    _openssl(folder, "pkcs12", "-export", "-in", "broker.pem", "-inkey", "broker-key.pem", *store)


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


@contextmanager
def running(broker: LocalBroker) -> Iterator[None]:
    """Run a broker for the length of the block."""
    broker.start()
    try:
        broker.wait_ready()
        yield
    finally:
        broker.stop()


def ask(settings: PipelineSettings) -> None:
    """Ask the broker for its topics.

    Raises:
        Refused: it lets nobody in with these settings.
    """
    refusals = Refusals(settings)
    admin = admin_client(settings, error_cb=refusals.hear)

    def has_answered() -> bool:
        try:
            with refusals.explained(admin):
                admin.list_topics(timeout=2.0)
        except Refused:
            raise
        except KafkaException:  # a busy machine takes longer to refuse
            return False
        return True

    wait_until(has_answered, PATIENT_S, "an answer")
