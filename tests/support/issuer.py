"""An issuer of tokens for Kafka's OAUTHBEARER: a real HTTP server that gives JWTs, signed by a key of its own (openssl)."""

import base64
import contextlib
import json
import ssl
import subprocess
import threading
import time
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

from surescale.runtime.ports import LOOPBACK, free_port
from tests.support.http_server import Handler

ISSUER, AUDIENCE, KEY_ID = "https://issuer.test", "kafka.test", "key-1"
CLIENT, SECRET = "surescale", 'a "quoted" \\ sec=ret;'
SECRET_TELLTALE = "sec=ret"  # a part of the secret that looks the same however it is quoted
SCOPES = {"", "kafka"}


def encoded(raw: bytes) -> str:
    """Return bytes as JOSE writes them."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def make_key(folder: Path) -> None:
    """Write a signing key, ``issuer-key.pem``, and what brokers verify signatures with, ``jwks.json``."""

    def openssl(*words: str) -> str:
        return subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, text=True).stdout

    openssl("genrsa", "-out", "issuer-key.pem", "2048")
    modulus = bytes.fromhex(openssl("rsa", "-in", "issuer-key.pem", "-modulus", "-noout").strip().partition("=")[2])
    key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, "n": encoded(modulus), "e": encoded(b"\x01\x00\x01")}
    (folder / "jwks.json").write_text(json.dumps({"keys": [key]}))


@dataclass(slots=True)
class Issuer:
    """Gives tokens to clients while it runs; its fields may be changed meanwhile. Files as ``make_key`` writes them."""

    folder: Path
    life_s: float = 300.0
    claims: dict[str, Any] = field(default_factory=dict)
    """Put into each token in place of what it would have."""
    clients: dict[str, str] = field(default_factory=lambda: {CLIENT: SECRET})
    has_tls: bool = False
    """Serves TLS with the broker's certificate, which lies in the same folder."""
    given: int = 0
    port: int = field(default_factory=free_port)
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Address of the token endpoint."""
        return f"http{'s' if self.has_tls else ''}://{LOOPBACK}:{self.port}/oauth2/token"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to answer."""
        issuer = self

        class Answers(Handler):
            def do_POST(self) -> None:
                asked = parse_qs(self.body().decode())
                status, document = issuer._answer(self.headers.get("Authorization", ""), asked)
                with contextlib.suppress(OSError):
                    self.reply(status, json.dumps(document).encode())

        self._server = ThreadingHTTPServer((LOOPBACK, self.port), Answers)
        self._server.daemon_threads = True
        if self.has_tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.folder / "broker.pem", self.folder / "broker-key.pem")
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        """Be away; ``start`` comes back at the same address."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def token(self, client: str, scope: str = "") -> str:
        """Return a signed token."""
        now_s = time.time()
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": client, "iat": int(now_s), "exp": int(now_s + self.life_s)}
        claims |= ({"scope": scope} if scope else {}) | self.claims
        head = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        signed = f"{encoded(json.dumps(head).encode())}.{encoded(json.dumps(claims).encode())}"
        sign = ["openssl", "dgst", "-sha256", "-sign", str(self.folder / "issuer-key.pem")]
        signature = subprocess.run(sign, input=signed.encode(), check=True, capture_output=True).stdout
        return f"{signed}.{encoded(signature)}"

    def _answer(self, authorization: str, asked: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if self.clients.get(client) != secret:
            return 401, {"error": "invalid_client"}
        if asked.get("grant_type") != ["client_credentials"]:
            return 400, {"error": "unsupported_grant_type"}
        scope = asked.get("scope", [""])[0]
        if scope not in SCOPES:
            return 400, {"error": "invalid_scope"}
        self.given += 1
        return 200, {"access_token": self.token(client, scope), "token_type": "Bearer", "expires_in": int(self.life_s)}
