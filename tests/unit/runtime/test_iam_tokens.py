"""Tokens of AWS MSK's IAM, signed by AWS' library with a key of nobody; nothing is asked over the network."""

import base64
import importlib.util
import os
import sys
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PipelineSettings
from surescale.runtime.kafka import admin_client
from surescale.runtime.oauth_tokens import NoToken, fetch_token, token_callback
from surescale.services.agent.transport import faust_credentials

IAM = PipelineSettings(kafka_security_protocol="SASL_SSL", kafka_sasl_mechanism="AWS_MSK_IAM", kafka_aws_region="eu-west-1")
KEY_ID, SECRET = "AKIANOBODYSKEY000000", "secret-of-nobody"
needs_library = pytest.mark.skipif(
    importlib.util.find_spec("aws_msk_iam_sasl_signer") is None, reason="AWS' library is not installed"
)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in the environment, and none elsewhere."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    files = {"CONFIG_FILE": os.devnull, "SHARED_CREDENTIALS_FILE": os.devnull, "EC2_METADATA_DISABLED": "true"}
    for name, value in ({"ACCESS_KEY_ID": KEY_ID, "SECRET_ACCESS_KEY": SECRET} | files).items():
        monkeypatch.setenv(f"AWS_{name}", value)


@needs_library
def test_a_token_asks_to_connect_in_the_region_and_is_shown_without_itself() -> None:
    """librdkafka's callback gets the same, with the time at which it expires."""
    token = fetch_token(IAM)
    asked = urlsplit(base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode())
    said = {name: value for name, (value,) in parse_qs(asked.query).items()}
    assert (asked.hostname, said["Action"]) == ("kafka.eu-west-1.amazonaws.com", "kafka-cluster:Connect")
    assert said["X-Amz-Credential"].startswith(f"{KEY_ID}/")
    assert repr(token).startswith(f"Token(AWS access key '{KEY_ID}', valid for ")
    assert SECRET not in asked.query
    value, expires_at_s = token_callback(IAM)("")
    assert value.startswith(token.value[:40])
    assert expires_at_s > time.time() + 600


@needs_library
@pytest.mark.parametrize(
    "changes", [{"AWS_ACCESS_KEY_ID": ""}, {"AWS_SECRET_ACCESS_KEY": ""}, {"AWS_PROFILE": "nobody"}, {"AWS_PROFILE": "a\nb"}]
)
def test_without_credentials_it_is_one_line_with_the_fix(monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]) -> None:
    """Whatever AWS' library says."""
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(
        NoToken, match=r"SURESCALE_KAFKA_SASL_MECHANISM: AWS' library finds no credentials .*AWS_PROFILE"
    ) as refused:
        fetch_token(IAM)
    assert "\n" not in str(refused.value)
    assert SECRET not in str(refused.value)


def test_where_the_library_is_missing_each_client_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything connects."""
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    for made in (admin_client, faust_credentials, fetch_token):
        with pytest.raises(SettingsError, match=r"pip install 'surescale\[msk\]'"):
            made(IAM)
