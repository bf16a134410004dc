"""Choosing loopback ports."""

import socket

from runtime.ports import LOOPBACK, PORT_FIRST, PORT_LAST, accepts_connections, free_ports, is_free


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
