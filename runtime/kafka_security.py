"""Encryption and authentication towards Kafka: one set of settings, in the words of each client library.

PEM files hold the certificates and keys; passwords come from files, so that no secret stands in the environment or on a command
line. Files are read when a client is made; ``runtime.kafka_rotation`` says what happens when they change. With OAUTHBEARER,
clients ask an issuer for tokens: librdkafka and Java's clients by themselves, Faust's through ``runtime.oauth_tokens``. With
AWS_MSK_IAM tokens are made here: by AWS' libraries for Python (``runtime.oauth_tokens``) and Java. To brokers they are tokens of
OAUTHBEARER too.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from surescale.contracts.errors import SettingsError, reason_of
from surescale.contracts.foreign_files import contents
from surescale.contracts.settings import BY_TOKEN, PipelineSettings

PLAINTEXT = "PLAINTEXT"
OAUTHBEARER = "OAUTHBEARER"
_JAVA = "org.apache.kafka.common.security"
_IAM_HANDLER = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"


@dataclass(frozen=True, slots=True)
class Credentials:
    """User and password of SASL."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """What an issuer of tokens knows a client by, and where it is."""

    client_id: str
    secret: str = field(repr=False)
    token_url: str
    scope: str


def credentials(settings: PipelineSettings) -> Credentials | None:
    """Return the user and password of SASL, None if there are none.

    Raises:
        SettingsError: the password's file cannot be read; names the setting.
    """
    if not settings.kafka_security_protocol.startswith("SASL_") or uses_tokens(settings):
        return None
    password = _text("KAFKA_PASSWORD_FILE", settings.kafka_password_file).rstrip("\r\n")
    return Credentials(settings.kafka_sasl_mechanism, settings.kafka_username, password)


def uses_tokens(settings: PipelineSettings) -> bool:
    """Say whether clients authenticate by a token: an issuer's, or one that AWS' library signs."""
    return settings.kafka_security_protocol.startswith("SASL_") and settings.kafka_sasl_mechanism in BY_TOKEN


def uses_iam(settings: PipelineSettings) -> bool:
    """Say whether AWS' library signs the tokens."""
    return uses_tokens(settings) and settings.kafka_sasl_mechanism != OAUTHBEARER


def oauth_client(settings: PipelineSettings) -> OAuthClient | None:
    """Return the client of an issuer of tokens, None without one.

    Raises:
        SettingsError: the secret's file cannot be read; names the setting.
    """
    if not uses_tokens(settings) or uses_iam(settings):
        return None
    secret = _text("KAFKA_OAUTH_CLIENT_SECRET_FILE", settings.kafka_oauth_client_secret_file).rstrip("\r\n")
    return OAuthClient(settings.kafka_oauth_client_id, secret, settings.kafka_oauth_token_url, settings.kafka_oauth_scope)


def is_encrypted(settings: PipelineSettings) -> bool:
    """Say whether connections use TLS."""
    return settings.kafka_security_protocol.endswith("SSL")


def ssl_context(settings: PipelineSettings) -> ssl.SSLContext | None:
    """Return the TLS context of Python's own clients, None without TLS.

    Raises:
        SettingsError: a certificate or key cannot be used; names the settings.
    """
    if not is_encrypted(settings):
        return None
    return client_context(
        settings.kafka_ca_file, settings.kafka_certificate_file, settings.kafka_key_file, settings="SURESCALE_KAFKA"
    )


def librdkafka_options(settings: PipelineSettings) -> dict[str, str]:
    """Return librdkafka's security options; with AWS_MSK_IAM it also needs a callback for tokens.

    Raises:
        SettingsError: a file cannot be read; names the setting.
    """
    if settings.kafka_security_protocol == PLAINTEXT:
        return {}
    options = {"security.protocol": settings.kafka_security_protocol}
    if is_encrypted(settings):
        options |= _non_empty(
            {
                "ssl.ca.location": _existing("KAFKA_CA_FILE", settings.kafka_ca_file),
                "ssl.certificate.location": _existing("KAFKA_CERTIFICATE_FILE", settings.kafka_certificate_file),
                "ssl.key.location": _existing("KAFKA_KEY_FILE", settings.kafka_key_file),
            }
        )
    found = credentials(settings)
    if found is not None:
        options |= {"sasl.mechanism": found.mechanism, "sasl.username": found.username, "sasl.password": found.password}
    if uses_iam(settings):
        options["sasl.mechanism"] = OAUTHBEARER
    client = oauth_client(settings)
    if client is not None:
        options |= {
            "sasl.mechanism": OAUTHBEARER,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": client.client_id,
            "sasl.oauthbearer.client.secret": client.secret,
            "sasl.oauthbearer.token.endpoint.url": client.token_url,
        }
        options |= _non_empty(
            {
                "sasl.oauthbearer.scope": client.scope,
                "https.ca.location": _existing("KAFKA_OAUTH_CA_FILE", settings.kafka_oauth_ca_file),
            }
        )
    return options


def jvm_options(settings: PipelineSettings) -> dict[str, str]:
    """Return the security options of Kafka's Java clients, such as Spark's connector (there under the prefix ``kafka.``).

    Java reads PEM texts, and keys in PKCS#8 only.

    Raises:
        SettingsError: a file cannot be read; names the setting.
    """
    if settings.kafka_security_protocol == PLAINTEXT:
        return {}
    options = {"security.protocol": settings.kafka_security_protocol}
    if is_encrypted(settings) and settings.kafka_ca_file:
        options |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": _text("KAFKA_CA_FILE", settings.kafka_ca_file),
        }
    if is_encrypted(settings) and settings.kafka_certificate_file:
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _text("KAFKA_CERTIFICATE_FILE", settings.kafka_certificate_file),
            "ssl.keystore.key": _text("KAFKA_KEY_FILE", settings.kafka_key_file),
        }
    found = credentials(settings)
    if found is not None:
        module = "plain.PlainLoginModule" if found.mechanism == "PLAIN" else "scram.ScramLoginModule"
        login = _jaas(module, {"username": found.username, "password": found.password})
        options |= {"sasl.mechanism": found.mechanism, "sasl.jaas.config": login}
    if uses_iam(settings):
        options |= {
            "sasl.mechanism": OAUTHBEARER,
            "sasl.login.callback.handler.class": _IAM_HANDLER,
            "sasl.client.callback.handler.class": _IAM_HANDLER,
            "sasl.jaas.config": _jaas("oauthbearer.OAuthBearerLoginModule", {}),
        }
    client = oauth_client(settings)
    if client is not None:
        who = {"clientId": client.client_id, "clientSecret": client.secret} | _non_empty({"scope": client.scope})
        if settings.kafka_oauth_ca_file:
            ca_file = _existing("KAFKA_OAUTH_CA_FILE", settings.kafka_oauth_ca_file)
            who |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": ca_file}
        options |= {
            "sasl.mechanism": OAUTHBEARER,
            "sasl.login.callback.handler.class": f"{_JAVA}.oauthbearer.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": client.token_url,
            "sasl.jaas.config": _jaas("oauthbearer.OAuthBearerLoginModule", who),
        }
    return options


def jvm_properties(settings: PipelineSettings) -> dict[str, str]:
    """Return the system properties that Kafka's Java clients need beside their options: of what makes or gives tokens."""
    if not uses_tokens(settings):
        return {}
    if uses_iam(settings):
        return {"aws.region": settings.aws_region}
    return {"org.apache.kafka.sasl.oauthbearer.allowed.urls": settings.kafka_oauth_token_url}


def _jaas(module: str, options: Mapping[str, str]) -> str:
    quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in options.items()}
    words = "".join(f' {name}="{value}"' for name, value in quoted.items())
    return f"{_JAVA}.{module} required{words};"


def _non_empty(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if value}


def _existing(name: str, path: str) -> str:
    if path and not Path(path).is_file():
        raise SettingsError(f"SURESCALE_{name}: there is no file {path}; set it to a PEM file, or unset it")
    return path


def _text(name: str, path: str) -> str:
    try:
        found = contents(path).decode()
        if "\0" in found:  # as in a file that is being written; C's strings end there
            raise ValueError
        return found
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "it is not text"
        raise SettingsError(f"SURESCALE_{name}: {path!r} cannot be read ({reason}); set it to a readable file") from None


def client_context(ca_file: str, certificate_file: str, key_file: str, *, settings: str) -> ssl.SSLContext:
    """Return the context of a client; an empty file is not used.

    Args:
        ca_file: authorities that sign the server's certificate; empty: the system's.
        certificate_file: certificate chain of this client, for mutual TLS.
        key_file: the certificate's private key; empty: it is in the certificate's file.
        settings: what the names of the three settings begin with.

    Raises:
        SettingsError: a certificate or key cannot be used; names the settings.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
        # Python 3.13 asks authorities for extensions that those of many clusters of Kubernetes lack.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if certificate_file:
            context.load_cert_chain(certificate_file, key_file or None)
    except OSError as error:
        raise SettingsError(
            f"{settings}_CA_FILE, _CERTIFICATE_FILE, _KEY_FILE: cannot be used ({error}); set them to PEM files"
        ) from None
    return context
