"""Which markers show that another monitor is at work."""

import logging
from dataclasses import dataclass
from typing import cast

import pytest
from confluent_kafka import Message

from surescale.contracts.settings import PipelineSettings
from surescale.monitor.progress import HEADER, OtherMonitors, own_header

((_, OWN),) = own_header()
OTHER = b"elsewhere:7"


@dataclass
class Marker:
    """A record of the topic, as the client gives it."""

    writer: bytes | None
    offset_: int
    key_: bytes | None = b"sim/clicks"
    partition_: int = 0

    def key(self) -> bytes | None:
        """Return its key."""
        return self.key_

    def partition(self) -> int:
        """Return its partition."""
        return self.partition_

    def offset(self) -> int:
        """Return where it lies."""
        return self.offset_

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return its headers; a sample has none."""
        return [("traceparent", b"00"), (HEADER, self.writer)] if self.writer is not None else None


def name_after(*looks: list[Marker]) -> str:
    """Return the other monitor that is known after some looks."""
    others = OtherMonitors(PipelineSettings(cluster="sim"), logging.getLogger("test"))
    for markers in looks:
        others.take(cast("list[Message]", markers))
    return others.name


@pytest.mark.parametrize(
    ("looks", "name"),
    [
        ([[Marker(OWN, 1), Marker(OTHER, 2)]], "elsewhere:7"),
        ([[Marker(OWN, 1)], [Marker(OTHER, 9)]], "elsewhere:7"),
        ([[Marker(OWN, 1), Marker(b"\x1b]0;x", 2)]], "\\x1b]0;x"),
        ([[Marker(OTHER, 1), Marker(OWN, 2)]], ""),
        ([[Marker(OTHER, 1)]], ""),
        ([[Marker(OWN, 1), Marker(OTHER, 2)], [Marker(OWN, 3)]], ""),
        ([[Marker(OWN, 1), Marker(OTHER, 2, key_=b"other/clicks")]], ""),
        ([[Marker(OWN, 1), Marker(OTHER, 2, partition_=1)]], ""),
        ([[Marker(OWN, 1), Marker(None, 2), Marker(OTHER, 3, key_=None)]], ""),
    ],
    ids=[
        "behind one's own",
        "in a later look",
        "a name that a terminal would obey",
        "a predecessor's, before one's own",
        "before the first of one's own",
        "gone by now",
        "of another cluster",
        "in another partition",
        "a sample, and a marker without a key",
    ],
)
def test_a_marker_behind_ones_own_shows_another_monitor(looks: list[list[Marker]], name: str) -> None:
    """A predecessor's lie before one's own, so a restart is no alarm."""
    assert name_after(*looks) == name
