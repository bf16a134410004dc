"""Choosing loopback ports."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from surescale.runtime import ports as chosen_ports
from surescale.runtime.ports import LOOPBACK, PORT_FIRST, PORT_LAST, accepts_connections, free_ports, is_free


def test_ports_chosen_together_are_different_and_outside_the_range_of_outgoing_connections() -> None:
    """A client that keeps trying can never be given the server's port as its own."""
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(PORT_FIRST <= port <= PORT_LAST < 32_768 for port in ports)


def test_a_port_with_a_listener_is_not_free() -> None:
    """Binding is what tells, and it is undone."""
    (port,) = free_ports(1)
    with socket.create_server((LOOPBACK, port)):
        assert not is_free(port)
        assert accepts_connections(port)
    assert is_free(port)
    assert not accepts_connections(port)


def test_no_port_is_chosen_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither here nor by another process, though nothing listens yet; what a process chose is free again when it has ended."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    chosen_ports._shared_file.cache_clear()
    first = next(port for port in range(PORT_FIRST, PORT_LAST, 6) if all(map(is_free, range(port, port + 6))))
    monkeypatch.setattr(chosen_ports, "PORT_FIRST", first)
    monkeypatch.setattr(chosen_ports, "PORT_LAST", first + 5)
    monkeypatch.setattr(chosen_ports, "_chosen", set())  # tests before this one may have had ports of these
    choose = f"from surescale.runtime import ports; ports.PORT_FIRST, ports.PORT_LAST = {first}, {first + 5}; "
    told = [sys.executable, "-c", f"{choose}print(*ports.free_ports(3), flush=True); input()"]
    with subprocess.Popen(told, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = set(map(int, other.stdout.readline().split()))
        ours = {*free_ports(1), *free_ports(2)}
        assert theirs | ours == set(range(first, first + 6))
        with pytest.raises(OSError, match="no 1 free loopback ports"):
            free_ports(1)
        other.communicate("\n")
    assert set(free_ports(3)) == theirs
