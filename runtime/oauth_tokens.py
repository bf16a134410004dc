"""Tokens of Kafka's OAUTHBEARER: asked of an issuer with client id and secret (RFC 6749, section 4.4), kept while they last.

librdkafka and Java's clients ask by themselves. Faust's does not; and only here is it known which setting an issuer refuses.
With AWS_MSK_IAM nobody is asked: AWS' library signs a request with the credentials that it finds, and that is the token.
"""

import base64
import importlib.util
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from surescale.contracts.errors import UNREADABLE, SettingsError, SurescaleError
from surescale.contracts.figures import known_number
from surescale.contracts.settings import PipelineSettings
from surescale.runtime.http import NoAnswer
from surescale.runtime.http_pool import Answer, ConnectionPool
from surescale.runtime.kafka_clock import steady_ms
from surescale.runtime.kafka_security import OAuthClient, client_context, oauth_client, uses_iam

TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 1 << 20
REFRESHED_AFTER = 0.8
"""Part of a token's life after which the next one is asked for; librdkafka and Java's clients have the same."""
CLOCKS_DIFFER_S = 5.0
_CLIENT = frozenset({"invalid_client", "unauthorized_client", "access_denied"})
_CODE = re.compile(r"[\w.-]{1,64}", re.ASCII)
_SHOWN_MAX = 200
_AGAIN = "trying again until it does"
CONNECT = (
    "let the IAM policy of this identity allow kafka-cluster:Connect on the cluster; `surescale topics acls --iam ARN` prints "
    "all that a role needs"
)


class NoToken(SurescaleError):
    """The issuer gives no usable token; the text names the setting and the fix."""


@dataclass(frozen=True, slots=True)
class Token:
    """What an issuer gave."""

    value: str
    got_at_s: float
    """By this machine's clock, seconds since 1970."""
    expires_at_s: float
    claims: Mapping[str, Any]
    """Not verified: brokers do that."""

    def __repr__(self) -> str:
        """Return the claims without the token itself, which is a secret."""
        return f"Token({self.shown()})"

    def shown(self) -> str:
        """Return for whom and for what it is, for people."""
        named = {"client": "sub", "issuer": "iss", "audience": "aud", "scope": "scope", "AWS access key": _ACCESS_KEY}
        told = [f"{name} {_shown(self.claims[claim])}" for name, claim in named.items() if self.claims.get(claim)]
        begins = [at for claim in ("iat", "nbf") if (at := known_number(self.claims.get(claim))) is not None]
        ahead_s = max(begins, default=0.0) - self.got_at_s
        if ahead_s > CLOCKS_DIFFER_S:
            told.append(f"valid only {ahead_s:.0f} s from now by this machine's clock (set the clocks by NTP)")
        return ", ".join((*told, f"valid for {self.expires_at_s - self.got_at_s:.0f} s"))


def fetch_token(settings: PipelineSettings) -> Token:
    """Ask the issuer for a token, or AWS' library for one that it signs.

    Raises:
        NoToken: it gives none that can be used; the text names the setting and the fix.
        SettingsError: a file cannot be read, or AWS' library is not installed; names the setting.
    """
    if uses_iam(settings):
        return _signed_token(settings)
    client = oauth_client(settings)
    assert client is not None, "asked for a token without OAUTHBEARER"
    answer = _request_token(client, settings.kafka_oauth_ca_file)
    if answer.status != 200:
        raise NoToken(_refusal(client, answer))
    try:
        value = json.loads(answer.body)["access_token"]
        claims = _claims(value)
        expires_at_s = known_number(claims["exp"])
    except (*UNREADABLE, KeyError, TypeError, AttributeError):
        expires_at_s = None
    if expires_at_s is None:
        raise NoToken(
            f"SURESCALE_KAFKA_OAUTH_TOKEN_URL: {client.token_url} answers without a JWT that says when it expires; "
            "set the address of the token endpoint, and let the issuer make JWTs"
        )
    now_s = time.time()
    if not expires_at_s > now_s:
        raise NoToken(
            f"SURESCALE_KAFKA_OAUTH_TOKEN_URL: the token that {client.token_url} has just made expired "
            f"{now_s - expires_at_s:.0f} s ago by this machine's clock; set both clocks (NTP)"
        )
    return Token(value, now_s, expires_at_s, claims)


def refusal_by_broker(settings: PipelineSettings, said: str) -> str:
    """Return why a broker that ``said`` so may refuse this client's tokens, or why the issuer gives none."""
    try:
        token = fetch_token(settings)
    except SurescaleError as error:
        return str(error)
    if uses_iam(settings):
        return f"the broker refuses the token ({said}): {token.shown()}; {CONNECT}"
    return (
        f"the broker refuses the token ({said}): {token.shown()}; compare issuer and audience with the broker's "
        "sasl.oauthbearer.expected.issuer and .expected.audience, set SURESCALE_KAFKA_OAUTH_SCOPE or the client at the issuer "
        "accordingly; the broker's log names the claim"
    )


class Tokens:
    """The token of one client, asked for again when most of its life is over. Thread-safe."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._kept: Token | None = None
        self._got_ms = 0  # by a clock that nobody sets

    def current(self) -> str:
        """Return a token that has not expired.

        Raises:
            NoToken: the issuer gives none, and the last one has expired.
            SettingsError: a file cannot be read; names the setting.
        """
        with self._lock:
            kept, age_s = self._kept, (steady_ms() - self._got_ms) / 1000
            life_s = 0.0 if kept is None else kept.expires_at_s - kept.got_at_s
            if kept is not None and age_s < REFRESHED_AFTER * life_s:
                return kept.value
            try:
                self._kept, self._got_ms = fetch_token(self._settings), steady_ms()
            except NoToken:
                if kept is None or age_s >= life_s:
                    raise
                return kept.value
            return self._kept.value


def check_signer(settings: PipelineSettings) -> None:
    """Check that AWS' library is there, if it makes the tokens.

    Raises:
        SettingsError: it is not installed; names the fix.
    """
    if uses_iam(settings) and importlib.util.find_spec("aws_msk_iam_sasl_signer") is None:
        raise SettingsError(
            "SURESCALE_KAFKA_SASL_MECHANISM: AWS_MSK_IAM needs AWS' library, which is not installed; pip install 'surescale[msk]'"
        )


def token_callback(settings: PipelineSettings) -> Callable[[str], tuple[str, float]]:
    """Return what librdkafka calls when it needs a token that it cannot ask for by itself. It calls again before that expires."""

    def callback(_options: str) -> tuple[str, float]:
        token = fetch_token(settings)
        return token.value, token.expires_at_s

    return callback


_ACCESS_KEY = "X-Amz-Credential"


def _signed_token(settings: PipelineSettings) -> Token:
    check_signer(settings)
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        value, expires_at_ms = MSKAuthTokenProvider.generate_auth_token(settings.aws_region)
    except (BotoCoreError, ClientError, ValueError, AttributeError) as error:
        # Where there are no credentials at all, the library asks None for them.
        said = "there are none" if isinstance(error, AttributeError) else " ".join(str(error).split())[:_SHOWN_MAX]
        raise NoToken(
            f"SURESCALE_KAFKA_SASL_MECHANISM: AWS' library finds no credentials for AWS_MSK_IAM ({said}); give this "
            f"process an IAM role, AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; {_AGAIN}"
        ) from None
    asked = parse_qs(urlsplit(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).decode()).query)
    key_id = asked[_ACCESS_KEY][0].partition("/")[0]
    return Token(value, time.time(), expires_at_ms / 1000, {_ACCESS_KEY: key_id})


def _request_token(client: OAuthClient, ca_file: str) -> Answer:
    parts = urlsplit(client.token_url)
    context = client_context(ca_file, "", "", settings="SURESCALE_KAFKA_OAUTH") if parts.scheme == "https" else None
    body = {"grant_type": "client_credentials"} | ({"scope": client.scope} if client.scope else {})
    # Not encoded for a URL before base64, though RFC 6749 says so: librdkafka and Java's clients do not either.
    password = base64.b64encode(f"{client.client_id}:{client.secret}".encode()).decode()
    headers = {
        "Authorization": f"Basic {password}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    connections = ConnectionPool(f"{parts.scheme}://{parts.netloc}", context)
    path = parts._replace(scheme="", netloc="").geturl() or "/"
    try:
        return connections.ask("POST", path, urlencode(body).encode(), headers, timeout_s=TIMEOUT_S, bytes_max=ANSWER_BYTES_MAX)
    except NoAnswer as error:
        if "certificate" in str(error).lower():
            raise NoToken(
                f"SURESCALE_KAFKA_OAUTH_CA_FILE: the certificate of {client.token_url} is not trusted ({error}); "
                "set the PEM file of the authority that signs it"
            ) from None
        raise NoToken(
            f"SURESCALE_KAFKA_OAUTH_TOKEN_URL: {client.token_url} does not answer ({error}); start the issuer, or set "
            f"its address; {_AGAIN}"
        ) from None
    finally:
        connections.close()


def _refusal(client: OAuthClient, answer: Answer) -> str:
    code = ""
    try:
        found = json.loads(answer.body)["error"]
        code = found if _CODE.fullmatch(found) else ""
    except (*UNREADABLE, KeyError, TypeError):
        pass
    said = f"{answer.status} {code}".strip()
    if code in _CLIENT or answer.status in (401, 403):
        return (
            f"SURESCALE_KAFKA_OAUTH_CLIENT_ID, _CLIENT_SECRET_FILE: {client.token_url} refuses the client {client.client_id!r} "
            f"({said}); set an id and a secret that it knows, with the grant client_credentials"
        )
    if code == "invalid_scope":
        scope = repr(client.scope)
        return f"SURESCALE_KAFKA_OAUTH_SCOPE: {client.token_url} refuses {scope} ({said}); set one that this client may have"
    if answer.status >= 500:
        return f"SURESCALE_KAFKA_OAUTH_TOKEN_URL: {client.token_url} fails ({said}); look at the issuer's log; {_AGAIN}"
    return f"SURESCALE_KAFKA_OAUTH_TOKEN_URL: {client.token_url} gives no token ({said}); set the address of the token endpoint"


def _claims(value: str) -> Mapping[str, Any]:
    """Return what a JWT says, without verifying it.

    Raises:
        ValueError: it is none.
    """
    _, payload, _ = value.split(".")
    found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    if not isinstance(found, dict):
        raise ValueError("no claims")
    return found


def _shown(claim: object) -> str:
    text = " ".join(map(str, claim)) if isinstance(claim, list) else str(claim)
    return repr(text[:_SHOWN_MAX])
