"""How documents lie in Redis: large ones compressed, all of them text, and read back as they were."""

import base64
import zlib

import pytest

from surescale.contracts.decisions import Decision, PolicyUsed, SampledMinute, TaskDecision
from surescale.contracts.wire import encode
from surescale.services.state.keys import UNPACKED_BYTES_MAX, pack, unpack


def wide_decision() -> bytes:
    """Return a decision on 46 tasks, each of which looked at three snapshots."""
    names = tuple(f"Task-{number}" for number in range(46))
    tasks = tuple(
        TaskDecision(
            task=name,
            current=number + 1,
            ratio=1.0 / (number + 3),
            proposed=number + 1,
            desired=number + 1,
            looked_at=tuple(
                SampledMinute(minute_end_ms=60_000 * minute, weight=1.0 / (number + minute), neighbours=names[:4])
                for minute in range(1, 4)
            ),
        )
        for number, name in enumerate(names)
    )
    return encode(
        Decision(
            decision_id="sim/wide@600000/sure", job="sim/wide", span_end_ms=600_000, window_id="w",
            policy=PolicyUsed(name="sure"), seed=0, settings_version=0, topology_version=1, action="hold", reason="r",
            completeness=1.0, minutes_known=60, tasks=tasks,
        )
    )  # fmt: skip


@pytest.mark.parametrize("body", [b"{}", b'{"x":"' + b"y" * 505 + b'"}', b'{"x":"' + "ä".encode() * 9_000 + b'"}'], ids=len)
def test_a_document_is_read_back_as_it_was(body: bytes) -> None:
    """Small or large. What is stored is text, as Redis' answers are."""
    stored = pack(body).decode("ascii")
    found = unpack(stored)
    assert (found.encode() if isinstance(found, str) else found) == body


def test_a_wide_decision_takes_a_quarter_of_its_document() -> None:
    """A job keeps 500 of them: so a Redis of 256 MB holds several times as many jobs."""
    body = wide_decision()
    assert len(pack(body)) < len(body) / 4


@pytest.mark.parametrize(
    "stored", ["z", "z!", "zAAAA", "z" + pack(wide_decision()).decode()[1:400]], ids=["empty", "no base64", "no zlib", "cut off"]
)
def test_a_damaged_document_is_an_error_of_its_own(stored: str) -> None:
    """Not one of the library that packed it."""
    with pytest.raises(ValueError, match=r"\w"):
        unpack(stored)


def test_a_document_that_would_fill_the_memory_is_not_unpacked() -> None:
    """A few kilobytes may claim gigabytes."""
    bomb = zlib.compress(b"0" * (UNPACKED_BYTES_MAX + 1), 9)
    with pytest.raises(ValueError, match="too large"):
        unpack("z" + base64.b64encode(bomb).decode())
