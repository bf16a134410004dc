"""Security settings in the words of each client, and settings that contradict each other."""

from pathlib import Path

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PipelineSettings, from_environment
from surescale.runtime.kafka_security import (
    credentials,
    jvm_options,
    jvm_properties,
    librdkafka_options,
    oauth_client,
    ssl_context,
)


def scram(folder: Path, **changes: str) -> PipelineSettings:
    """Return settings with TLS and SCRAM; the password ends with a line's end, as editors write it."""
    (folder / "password").write_text('p"w\\d\n')
    given = {"kafka_security_protocol": "SASL_SSL", "kafka_username": "me", "kafka_password_file": str(folder / "password")}
    return from_environment(PipelineSettings, {}, **(given | changes))


def test_without_settings_nothing_is_added() -> None:
    """A plaintext broker is asked as before."""
    settings = PipelineSettings()
    assert (librdkafka_options(settings), jvm_options(settings)) == ({}, {})
    assert (credentials(settings), ssl_context(settings)) == (None, None)


def test_a_password_is_read_from_its_file_for_every_client(tmp_path: Path) -> None:
    """Without the line's end; quoted for Java."""
    settings = scram(tmp_path)
    assert librdkafka_options(settings) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": 'p"w\\d',
    }
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="p\\"w\\\\d";'
    assert jvm_options(settings)["sasl.jaas.config"] == login
    assert "plain.PlainLoginModule" in jvm_options(scram(tmp_path, kafka_sasl_mechanism="PLAIN"))["sasl.jaas.config"]


def test_a_rotated_password_is_used_by_the_next_client(tmp_path: Path) -> None:
    """Files are read when a client is made."""
    settings = scram(tmp_path)
    (tmp_path / "password").write_text("new")
    assert librdkafka_options(settings)["sasl.password"] == "new"


def tokens(folder: Path, **changes: str) -> PipelineSettings:
    """Return settings with TLS and OAUTHBEARER."""
    (folder / "secret").write_text('s"e\\c\n')
    given = {
        "kafka_security_protocol": "SASL_SSL",
        "kafka_sasl_mechanism": "OAUTHBEARER",
        "kafka_oauth_client_id": "me",
        "kafka_oauth_client_secret_file": str(folder / "secret"),
        "kafka_oauth_token_url": "https://issuer.test/token",
    }
    return from_environment(PipelineSettings, {}, **(given | changes))


def test_a_clients_secret_is_read_from_its_file_for_every_client(tmp_path: Path) -> None:
    """Each library asks the issuer itself; the scope and the authority of the issuer's certificate are optional."""
    (tmp_path / "ca.pem").write_text("")
    settings = tokens(tmp_path, kafka_oauth_scope="kafka", kafka_oauth_ca_file=str(tmp_path / "ca.pem"))
    assert librdkafka_options(settings) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": 's"e\\c',
        "sasl.oauthbearer.token.endpoint.url": "https://issuer.test/token",
        "sasl.oauthbearer.scope": "kafka",
        "https.ca.location": str(tmp_path / "ca.pem"),
    }
    java = jvm_options(settings)
    assert java["sasl.oauthbearer.token.endpoint.url"] == "https://issuer.test/token"
    assert java["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="me" clientSecret="s\\"e\\\\c" scope="kafka" '
        f'ssl.truststore.type="PEM" ssl.truststore.location="{tmp_path / "ca.pem"}";'
    )
    assert jvm_properties(settings) == {"org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://issuer.test/token"}
    assert credentials(settings) is None
    assert 's"e' not in repr(oauth_client(settings))
    plain = tokens(tmp_path)
    assert {"sasl.oauthbearer.scope", "https.ca.location"}.isdisjoint(librdkafka_options(plain))
    assert "scope" not in jvm_options(plain)["sasl.jaas.config"]


MSK = "b-1.demo.ab12.c2.kafka.eu-central-1.amazonaws.com:9098,b-2.demo.ab12.c2.kafka.eu-central-1.amazonaws.com:9098"
SERVERLESS = "boot-ab12.c3.kafka-serverless.us-east-2.amazonaws.com:9098"
CHINA = "B-1.demo.ab12.c2.kafka.cn-north-1.amazonaws.com.cn:9098"


def iam(bootstrap: str = MSK, **changes: str) -> PipelineSettings:
    """Return settings with TLS and AWS_MSK_IAM."""
    given = {"kafka_security_protocol": "SASL_SSL", "kafka_sasl_mechanism": "AWS_MSK_IAM", "bootstrap": bootstrap}
    return from_environment(PipelineSettings, {}, **(given | changes))


def test_with_iam_brokers_see_tokens_that_aws_libraries_make() -> None:
    """In the words of each client; nothing is secret in them."""
    assert librdkafka_options(iam()) == {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    java = jvm_options(iam())
    assert java["sasl.mechanism"] == "OAUTHBEARER"
    assert java["sasl.jaas.config"] == "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    assert {java[f"sasl.{kind}.callback.handler.class"] for kind in ("login", "client")} == {
        "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
    }
    assert (credentials(iam()), oauth_client(iam())) == (None, None)


@pytest.mark.parametrize(
    ("bootstrap", "region"), [(MSK, "eu-central-1"), (SERVERLESS, "us-east-2"), (CHINA, "cn-north-1")], ids=["msk", "less", "cn"]
)
def test_the_region_is_in_the_names_of_brokers(bootstrap: str, region: str) -> None:
    """Unless a setting names it, as it must for names of one's own."""
    assert jvm_properties(iam(bootstrap)) == {"aws.region": region}
    assert jvm_properties(iam(bootstrap, kafka_aws_region="eu-west-1")) == {"aws.region": "eu-west-1"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"bootstrap": "kafka.example.org:9098"},
            "SURESCALE_KAFKA_AWS_REGION: not set, and not in the names of ",
        ),
        ({"bootstrap": f"{MSK},{SERVERLESS}"}, "SURESCALE_KAFKA_AWS_REGION: not set"),
        ({"kafka_username": "me"}, "SURESCALE_KAFKA_USERNAME: SASL_SSL with AWS_MSK_IAM has no use for it"),
        ({"kafka_oauth_scope": "x"}, "OAUTH_SCOPE: .* no use for it; .*MECHANISM=OAUTHBEARER"),
        (
            {
                "kafka_sasl_mechanism": "PLAIN",
                "kafka_username": "me",
                "kafka_password_file": "/p",
                "kafka_aws_region": "eu-west-1",
            },
            "AWS_REGION: SASL_SSL with PLAIN has no use for it; .*MECHANISM=AWS_MSK_IAM",
        ),
        (
            {"kafka_security_protocol": "PLAINTEXT", "kafka_aws_region": "eu-west-1"},
            "AWS_REGION: PLAINTEXT with AWS_MSK_IAM has no",
        ),
    ],
)
def test_settings_of_iam_that_contradict_each_other_are_refused(changes: dict[str, str], says: str) -> None:
    """Before anything connects; the message names the setting."""
    with pytest.raises(SettingsError, match=says):
        iam(**changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kafka_oauth_client_id": ""}, "_CLIENT_ID: not set; SURESCALE_KAFKA_SASL_MECHANISM=OAUTHBEARER needs it"),
        ({"kafka_oauth_client_secret_file": ""}, "SURESCALE_KAFKA_OAUTH_CLIENT_SECRET_FILE: not set"),
        ({"kafka_oauth_token_url": ""}, "SURESCALE_KAFKA_OAUTH_TOKEN_URL: not set"),
        ({"kafka_oauth_token_url": "https://me:secret@h/token"}, r"TOKEN_URL: 'https://me:\*\*\*@h/token' is not the address"),
        ({"kafka_oauth_token_url": "issuer"}, "SURESCALE_KAFKA_OAUTH_TOKEN_URL: 'issuer' is not the address of an issuer"),
        ({"kafka_oauth_token_url": "http://h/t", "kafka_oauth_ca_file": "/ca"}, "SURESCALE_KAFKA_OAUTH_CA_FILE: .* no TLS"),
        ({"kafka_username": "me"}, "SURESCALE_KAFKA_USERNAME: SASL_SSL with OAUTHBEARER has no use for it"),
        ({"kafka_sasl_mechanism": "PLAIN", "kafka_username": "me", "kafka_password_file": "/p"}, "OAUTH_CLIENT_ID: .* no use"),
        ({"kafka_security_protocol": "SSL"}, "SURESCALE_KAFKA_OAUTH_CLIENT_ID: SSL with OAUTHBEARER has no use for it"),
    ],
)
def test_settings_of_tokens_that_contradict_each_other_are_refused(tmp_path: Path, changes: dict[str, str], says: str) -> None:
    """Before anything connects; the message names the setting."""
    with pytest.raises(SettingsError, match=says):
        tokens(tmp_path, **changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kafka_security_protocol": "TLS"}, "SURESCALE_KAFKA_SECURITY_PROTOCOL: 'TLS' is not one of PLAINTEXT, SSL"),
        ({"kafka_sasl_mechanism": "GSSAPI"}, "SURESCALE_KAFKA_SASL_MECHANISM: 'GSSAPI' is not one of"),
        ({"kafka_username": ""}, "SURESCALE_KAFKA_USERNAME: not set"),
        ({"kafka_password_file": ""}, "SURESCALE_KAFKA_PASSWORD_FILE: not set"),
        ({"kafka_security_protocol": "SSL"}, "SSL sends no user and password"),
        ({"kafka_security_protocol": "SASL_PLAINTEXT", "kafka_ca_file": "/ca.pem"}, "SASL_PLAINTEXT uses no certificates"),
        ({"kafka_certificate_file": "/c.pem"}, "set both, or neither"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(tmp_path: Path, changes: dict[str, str], says: str) -> None:
    """Before anything connects; the message names the setting."""
    with pytest.raises(SettingsError, match=says):
        scram(tmp_path, **changes)


def test_a_file_that_is_not_there_is_named_by_every_client(tmp_path: Path) -> None:
    """With the setting that names it."""
    missing = str(tmp_path / "nothing")
    with pytest.raises(SettingsError, match=r"SURESCALE_KAFKA_PASSWORD_FILE: .*nothing.* cannot be read \(no such file"):
        credentials(scram(tmp_path, kafka_password_file=missing))
    with pytest.raises(SettingsError, match=r"SURESCALE_KAFKA_OAUTH_CLIENT_SECRET_FILE: .* cannot be read"):
        oauth_client(tokens(tmp_path, kafka_oauth_client_secret_file=missing))
    for options in (librdkafka_options, jvm_options, ssl_context):
        with pytest.raises(SettingsError, match="SURESCALE_KAFKA_CA_FILE"):
            options(scram(tmp_path, kafka_ca_file=missing))
