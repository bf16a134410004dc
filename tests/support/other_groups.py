"""A real broker that keeps share groups (KIP-932) and Streams groups (KIP-1071), and members of such, spoken for by bytes.

The client library that we use speaks neither protocol.
"""

import socket
import struct
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from surescale.services.local_stack.servers import LocalBroker
from tests.support.waiting import wait_until

_SHARE_HEARTBEAT, _STREAMS_HEARTBEAT = (76, 1), (88, 0)
_NO_TAGS = b"\0"
_JOINS, _LEAVES = 0, -1


class ManyTypesBroker(LocalBroker):
    """A local broker on which share groups may have members: they keep their state in a topic, of one replica here."""

    def _own_settings(self, data: Path) -> Mapping[str, str]:
        return {
            **super()._own_settings(data),
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }


def join_share_group(bootstrap: str, group: str, topic: str) -> None:
    """Let a member join a share group."""
    body = _text(group) + _text("A" * 22) + _number(_JOINS) + _text(None) + _list([_text(topic)]) + _NO_TAGS
    _until_accepted(bootstrap, _SHARE_HEARTBEAT, body)


def join_streams_group(bootstrap: str, group: str, topic: str) -> str:
    """Let a member join a Streams group of one subtopology, and return its id."""
    member, nothing = str(uuid.uuid4()), _list([])
    subtopology = _text("0") + _list([_text(topic)]) + 5 * nothing + _NO_TAGS
    topology = b"\x01" + _number(1) + _list([subtopology]) + _NO_TAGS
    tasks, process = 3 * nothing, _text("p1")
    _until_accepted(bootstrap, _STREAMS_HEARTBEAT, _streams(group, member, _JOINS, topology + tasks + process))
    return member


def leave_streams_group(bootstrap: str, group: str, member: str) -> None:
    """Let the member leave."""
    rest = b"\xff" + 3 * _list(None) + _text(None)
    _until_accepted(bootstrap, _STREAMS_HEARTBEAT, _streams(group, member, _LEAVES, rest))


def _streams(group: str, member: str, epoch: int, rest: bytes) -> bytes:
    who = _text(group) + _text(member) + _number(epoch) + _number(0) + 2 * _text(None) + _number(60_000)
    return who + rest + b"\xff" + 3 * _list(None) + b"\0" + _NO_TAGS


def _until_accepted(bootstrap: str, api: tuple[int, int], body: bytes) -> None:
    """Send a heartbeat until the group's coordinator takes it."""
    wait_until(lambda: _error(bootstrap, api, body) == 0, 60, "the coordinator of the group")


def _error(bootstrap: str, api: tuple[int, int], body: bytes) -> int:
    host, _, port = bootstrap.partition(":")
    message = struct.pack(">hhih", *api, 7, 1) + b"x" + _NO_TAGS + body
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(_number(len(message)) + message)
        answer = connection.makefile("rb")
        told = answer.read(struct.unpack(">i", answer.read(4))[0])
    found: int = struct.unpack(">h", told[9:11])[0]  # after the number of the request, its tags and the throttle time
    return found


def _number(value: int) -> bytes:
    return struct.pack(">i", value)


def _length(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128, value >> 7])


def _text(value: str | None) -> bytes:
    return _length(0) if value is None else _length(len(value) + 1) + value.encode()


def _list(values: Iterable[bytes] | None) -> bytes:
    found = None if values is None else list(values)
    return _length(0) if found is None else _length(len(found) + 1) + b"".join(found)
