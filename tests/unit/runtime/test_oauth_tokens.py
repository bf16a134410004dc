"""Tokens are kept while they last, and answers of an issuer that are none are one line. On a real issuer."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.settings import PipelineSettings
from surescale.runtime import oauth_tokens
from surescale.runtime.http_pool import Answer
from surescale.runtime.kafka_clock import steady_ms
from surescale.runtime.oauth_tokens import NoToken, OAuthClient, Token, Tokens, _refusal, fetch_token
from tests.support.http_server import Handler, serving
from tests.support.issuer import CLIENT, SECRET, SECRET_TELLTALE, Issuer, make_key

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which signs, is not installed")


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    """An issuer of tokens that last five minutes."""
    make_key(tmp_path)
    (tmp_path / "secret").write_text(SECRET)
    with Issuer(tmp_path) as made:
        yield made


def settings(issuer: Issuer) -> PipelineSettings:
    """Return settings of the issuer's client."""
    return PipelineSettings(
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="OAUTHBEARER",
        kafka_oauth_client_id=CLIENT,
        kafka_oauth_client_secret_file=str(issuer.folder / "secret"),
        kafka_oauth_token_url=issuer.url,
    )


def test_a_token_is_asked_for_once_while_it_lasts(issuer: Issuer) -> None:
    """Every connection of a client shares it."""
    tokens = Tokens(settings(issuer))
    assert len({tokens.current() for _ in range(5)}) == 1
    assert issuer.given == 1


def test_the_next_token_comes_before_the_last_one_expires_and_a_rotated_secret_is_used(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one serves while the issuer is away, until it expires; then the error names the setting."""
    tokens, now_ms = Tokens(settings(issuer)), steady_ms()

    def passed(seconds: float) -> None:
        monkeypatch.setattr(oauth_tokens, "steady_ms", lambda: now_ms + 1000 * seconds)

    first = tokens.current()
    passed(270)  # of 300
    issuer.clients[CLIENT] = "another"
    assert tokens.current() == first
    (issuer.folder / "secret").write_text("another\n")
    second = tokens.current()
    assert issuer.given == 2
    issuer.stop()
    passed(560)
    assert tokens.current() == second
    passed(1_000)
    with pytest.raises(NoToken, match=r"SURESCALE_KAFKA_OAUTH_TOKEN_URL: .* does not answer"):
        tokens.current()


def test_a_wall_clock_that_is_set_back_keeps_no_token_beyond_its_life(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one set ahead: the life of a token is that of the issuer."""
    tokens, now_ms, now_s = Tokens(settings(issuer)), steady_ms(), time.time()
    first = tokens.current()
    monkeypatch.setattr(time, "time", lambda: now_s - 86_400)
    monkeypatch.setattr(oauth_tokens, "steady_ms", lambda: now_ms + 290_000)
    assert tokens.current() != first


def test_a_token_is_shown_without_itself(issuer: Issuer) -> None:
    """Whoever logs it by mistake gives nothing away."""
    token = fetch_token(settings(issuer))
    assert token.value not in repr(token)
    assert "client 'surescale', issuer 'https://issuer.test', audience 'kafka.test', valid for" in repr(token)


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (200, b"<html>", "answers without a JWT"),
        (200, b'{"access_token": "opaque"}', "answers without a JWT"),
        (200, b'{"access_token": 7}', "answers without a JWT"),
        (200, b'{"access_token": "a.W10.c"}', "answers without a JWT"),
        (200, b'{"access_token": "a.bnVsbA.c"}', "answers without a JWT"),
        (200, b"[" * 100_000, "answers without a JWT"),
        (404, b"", r"gives no token \(404\); set the address"),
        (503, b"later", r"fails \(503\)"),
        (302, b"", r"gives no token \(302\)"),
        (400, b'{"error": "unauthorized_client"}', "_CLIENT_ID, _CLIENT_SECRET_FILE: .*400 unauthorized_client"),
        (400, b'{"error": "a\\nforged line"}', r"gives no token \(400\)"),
    ],
)
def test_an_answer_that_is_no_token_is_one_line(issuer: Issuer, status: int, body: bytes, says: str) -> None:
    """Whatever stands at the address; the line names the setting and repeats nothing of the secret."""

    class Answers(Handler):
        def do_POST(self) -> None:
            self.body()
            self.reply(status, body)

    with serving(Answers) as url, pytest.raises(NoToken, match=says) as refused:
        fetch_token(replace(settings(issuer), kafka_oauth_token_url=f"{url}/token"))
    assert "\n" not in str(refused.value)
    assert SECRET_TELLTALE not in str(refused.value)


@given(st.integers(201, 599), st.binary(max_size=200))
def test_a_refusal_is_one_line_whatever_the_issuer_says(status: int, body: bytes) -> None:
    """It names a setting."""
    client = OAuthClient(CLIENT, SECRET, "https://issuer.test/token", "kafka")
    said = _refusal(client, Answer(status, "", "", "", body))
    assert said.startswith("SURESCALE_KAFKA_OAUTH_")
    assert said.isprintable()


@pytest.mark.parametrize("claim", [10**400, 1e999, float("nan"), -1, True, "now"], ids=lambda claim: str(claim)[:6])
def test_a_beginning_that_is_no_time_is_not_shown(claim: object) -> None:
    """An issuer may write anything there; a broker's refusal of such a token ended the role."""
    assert Token("secret", 1_000.0, 1_300.0, {"iat": claim, "nbf": 2_000}).shown().startswith("valid only 1000 s from now")
    assert Token("secret", 1_000.0, 1_300.0, {"iat": claim}).shown() == "valid for 300 s"
