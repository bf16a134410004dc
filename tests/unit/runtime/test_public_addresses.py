"""Which addresses are public, and that a name cannot lead to another address than the one that was checked."""

import socket

import pytest

from surescale.runtime import http_pool
from surescale.runtime.http_pool import PrivateAddress, connect_publicly, is_public

PUBLIC, METADATA = "192.0.43.8", "169.254.169.254"


@pytest.mark.parametrize(
    ("address", "public"),
    [
        (PUBLIC, True),
        ("2606:2800:220:1::1", True),
        ("::ffff:192.0.43.8", True),
        ("127.0.0.1", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        (METADATA, False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:169.254.169.254", False),
        ("2002:a9fe:a9fe::1", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("64:ff9b::c000:2b08", True),
        ("64:ff9b:1::a9fe:a9fe", False),  # a network's own translator, which leads into that network
        ("::127.0.0.1", False),
        ("::ffff:0:7f00:1", False),
        ("fec0::1", False),
        ("5f00::1", False),
        ("3fff::1", False),
        ("2606:4700::5efe:a9fe:a9fe", False),
        ("2606:4700::200:5efe:a00:1", False),
        ("2606:4700::5efe:c000:2b08", True),
    ],
)
def test_only_addresses_on_the_internet_are_public(address: str, public: bool) -> None:
    """Also those of version 4 that one of version 6 stands for."""
    assert is_public(address) is public


def answers(monkeypatch: pytest.MonkeyPatch, *looks: list[str]) -> list[tuple[str, int]]:
    """Let a name resolve to these addresses, one look after the other; return to what is connected."""
    left, connected = list(looks), list[tuple[str, int]]()

    def resolve(host: str, port: int, **_: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in left.pop(0)]

    def connect(address: tuple[str, int], *_: object) -> socket.socket:
        connected.append(address)
        return socket.socket()

    monkeypatch.setattr(http_pool.socket, "getaddrinfo", resolve)
    monkeypatch.setattr(http_pool.socket, "create_connection", connect)
    return connected


def test_the_address_that_was_checked_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that resolves to the cloud's metadata at the second look gains nothing: there is no second look."""
    connected = answers(monkeypatch, [PUBLIC], [METADATA])
    connect_publicly(("hooks.example.org", 443), 1.0).close()
    assert connected == [(PUBLIC, 443)]


def test_a_name_with_one_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it stands among the others."""
    connected = answers(monkeypatch, [PUBLIC, METADATA])
    with pytest.raises(PrivateAddress, match=METADATA):
        connect_publicly(("hooks.example.org", 443), 1.0)
    assert connected == []


def test_an_address_that_nobody_answers_at_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without version 6 reaches a host that has both; if none answers, the last one's error is told."""
    answers(monkeypatch, ["2606:2800:220:1::1", PUBLIC], ["2606:2800:220:1::1"])
    tried: list[str] = []

    def connect(address: tuple[str, int], *_: object) -> socket.socket:
        tried.append(address[0])
        if ":" in address[0]:
            raise OSError("network is unreachable")
        return socket.socket()

    monkeypatch.setattr(http_pool.socket, "create_connection", connect)
    connect_publicly(("hooks.example.org", 443), 1.0).close()
    assert tried == ["2606:2800:220:1::1", PUBLIC]
    with pytest.raises(OSError, match="unreachable"):
        connect_publicly(("hooks.example.org", 443), 1.0)
