"""The bytes on the topics, read as docs/reference and docs/snapshots.md describe them. Shares no code with the product."""

import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

MINUTE_MS = 60_000
SAMPLE, MARKER = "sample/1", "minute/1"
MAGIC = b"SSW"
_HEAD_AT = 8  # after the magic SSW, one byte of layout, four bytes of header length


@dataclass(frozen=True, slots=True)
class ReadWindow:
    """A window as its bytes say.

    Attributes:
        figures: float32 [minutes, tasks, figures]; NaN where unknown.
        counts: samples, late and duplicates of its last minute.
    """

    job: str
    end_ms: int
    minutes: int
    tasks: tuple[str, ...]
    names: tuple[str, ...]
    figures: npt.NDArray[np.float32]
    counts: dict[str, int]
    layout: int

    @property
    def id(self) -> str:
        """The identity by which a decision names it."""
        return f"{self.job}@{self.end_ms}/{self.minutes}m/v{self.layout}"


def document(raw: bytes | None) -> dict[str, Any] | None:
    """Return a JSON object that says what it is, like "sample/1"; None for anything else."""
    try:
        found = json.loads(raw or b"")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "/" in str(found.get("type")) else None


def documents(raw: list[bytes | None], kind: str) -> list[dict[str, Any]]:
    """Return the documents whose type is ``kind``."""
    found = (document(each) for each in raw)
    return [each for each in found if each is not None and each.get("type") == kind]


def window(raw: bytes) -> ReadWindow:
    """Return a window; raises ValueError if the bytes are none."""
    if raw[:3] != MAGIC:
        raise ValueError("no window: the magic bytes are missing")
    (length,) = struct.unpack(">I", raw[4:_HEAD_AT])
    head = json.loads(raw[_HEAD_AT : _HEAD_AT + length])
    tasks = tuple(task["task"] for task in head["topology"]["tasks"])
    names = tuple(head["figures"])
    shape = (head["window_minutes"], len(tasks), len(names))
    planes = zstandard.ZstdDecompressor().decompress(raw[_HEAD_AT + length :], max_output_size=4 * int(np.prod(shape)))
    figures = np.frombuffer(planes, np.uint8).reshape(4, -1).T.copy().view("<f4").reshape(shape)
    counts = {name: head.get("counts", {}).get(name, 0) for name in ("samples", "late", "duplicates")}
    return ReadWindow(head["job"], head["window_end_ms"], head["window_minutes"], tasks, names, figures, counts, raw[3])


def minute_of(at_ms: int) -> int:
    """Return the end of the minute to which a time belongs; a minute's end belongs to that minute."""
    return -(-at_ms // MINUTE_MS) * MINUTE_MS
