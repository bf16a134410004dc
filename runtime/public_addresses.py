"""Connects to public addresses only: whoever chooses a host must not reach what lies behind this machine.

The address that is connected to is the one that was checked, so a name that resolves to another one a moment later changes
nothing. Imports only the standard library.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_NAT64 = IPv6Network("64:ff9b::/96")


class PrivateAddress(ValueError):
    """A host has an address that is not public."""


def is_public(address: str) -> bool:
    """Return whether an address is reached over the internet: none of this machine, of a link or of a private network.

    >>> [is_public(each) for each in ("192.0.43.8", "127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "fd00::1")]
    [True, False, False, False, False]
    """
    found = ip_address(address.partition("%")[0])
    return all(each.is_global and not each.is_multicast for each in (found, *_inside(found)))


def connect_publicly(
    address: tuple[str, int], timeout: float | None = None, source_address: tuple[str, int] | None = None
) -> socket.socket:
    """Return a connection, as ``socket.create_connection``.

    Raises:
        PrivateAddress: one of the host's addresses is not public.
        OSError: it has none, or nobody answers.
    """
    host, port = address
    found = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for each in found:
        if not is_public(each):
            raise PrivateAddress(f"its address {each} is of this machine or of a private network")
    problem = OSError(f"{host} has no address")
    for each in found:
        try:
            return socket.create_connection((each, port), timeout, source_address)
        except OSError as error:  # a host with both versions may be reached by one of them only
            problem = error
    raise problem


def _inside(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """Return the addresses of version 4 that one of version 6 stands for."""
    if isinstance(address, IPv4Address):
        return []
    nat64 = IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else None
    return [each for each in (address.ipv4_mapped, address.sixtofour, nat64) if each is not None]
