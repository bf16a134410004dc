"""Changes valid inputs at random: bytes, JSON values and whole fields. The same seed gives the same inputs everywhere."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

NUMBERS = (
    *(
        -1,
        0,
        1,
        2,
        255,
        256,
        65_535,
        65_536,
        10**6,
        2**31 - 1,
        2**31,
        2**32,
        2**53 - 1,
        2**53,
        2**53 + 1,
        2**63 - 1,
        2**63,
        2**64,
    ),
    *(-(2**53), 0.5, -0.0, 1e-300, 1e300),
)
TEXTS = (
    "",
    "/",
    "a/b",
    "sim/clicks",
    "sim",
    "no-slash",
    "..",
    "\u0000",
    "\ud800",
    "\u202e",
    "\u001b]0;x\u0007",
    "x" * 300,
    "é" * 5_000,
)
TOKENS = (
    b"1e999",
    b"-1e999",
    b"NaN",
    b"9" * 4_301,
    b"1e308",
    b"1.0",
    b"[" * 2_000 + b"]" * 2_000,
    b"{}",
    b"[]",
    b"null",
    b"true",
)
_PREFIX = struct.Struct(">3sBI")
_PLACE = "put-the-token-here"


def mutated(rng: random.Random, seeds: list[bytes]) -> bytes:
    """Return one of the inputs with a few changes; sometimes with none."""
    good = rng.choice(seeds)
    kind = rng.random()
    if kind < 0.02:
        return good
    if kind < 0.65:
        changed = _json(rng, good, seeds)
        if changed is not None:
            return changed
    return _bytes(rng, good, seeds)


def mutated_window(rng: random.Random, seeds: list[bytes]) -> bytes:
    """Return a window with another header, most often; its length and figures fit."""
    good = rng.choice(seeds)
    if rng.random() < 0.1:
        return mutated(rng, seeds)
    magic, layout, length = _PREFIX.unpack_from(good)
    head, body = good[_PREFIX.size : _PREFIX.size + length], good[_PREFIX.size + length :]
    head = head if rng.random() < 0.3 else mutated(rng, [head])
    return _PREFIX.pack(magic, layout, len(head)) + head + body


def _bytes(rng: random.Random, good: bytes, seeds: list[bytes]) -> bytes:
    raw = bytearray(good)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at, action = rng.randrange(len(raw) + 1), rng.randrange(7)
        if action == 0 and at < len(raw):
            raw[at] ^= 1 << rng.randrange(8)
        elif action == 1 and at < len(raw):
            raw[at] = rng.randrange(256)
        elif action == 2:
            del raw[at : at + rng.choice((1, 1, 4, 64))]
        elif action == 3:
            raw[at:at] = rng.choice(TOKENS) if rng.random() < 0.3 else rng.randbytes(rng.choice((1, 2, 8)))
        elif action == 4:
            raw = raw[:at]
        elif action == 5:
            raw[at:at] = raw[at : at + rng.choice((1, 8, 64))]
        else:
            other = rng.choice(seeds)
            cut = rng.randrange(len(other) + 1)
            raw = raw[:at] + other[cut : cut + 200]
    return bytes(raw)


def _json(rng: random.Random, good: bytes, seeds: list[bytes]) -> bytes | None:
    try:
        document = json.loads(good)
    except (ValueError, RecursionError):
        return None
    tokens: list[bytes] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        document = _changed(rng, document, seeds, tokens)
    text = json.dumps(document, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    for token in tokens:
        text = text.replace(f'"{_PLACE}"'.encode(), token, 1)
    return text


def _changed(rng: random.Random, document: Any, seeds: list[bytes], tokens: list[bytes]) -> Any:
    """Return the document with one value inside it changed."""
    places: list[tuple[Any, Any]] = []
    todo = [document]
    while todo:
        inner = todo.pop()
        keys = list(inner) if isinstance(inner, dict) else range(len(inner)) if isinstance(inner, list) else ()
        for key in keys:
            places.append((inner, key))
            todo.append(inner[key])
    if not places:
        return _value(rng, document, tokens)
    inside, key = rng.choice(places)
    action = rng.random()
    if action < 0.15:
        del inside[key]
    elif action < 0.25 and isinstance(inside, list):
        inside.insert(key, inside[key])
    elif action < 0.30 and isinstance(inside, dict):
        inside[rng.choice((*TEXTS, *inside))] = inside[key]
    elif action < 0.40:
        inside[key] = rng.choice(places)[0].__class__()
    else:
        inside[key] = _value(rng, inside[key], tokens)
    return document


def _value(rng: random.Random, value: Any, tokens: list[bytes]) -> Any:
    """Return another value, most often of the same kind."""
    kind = rng.random()
    if kind < 0.08:
        tokens.append(rng.choice(TOKENS))
        return _PLACE
    if kind < 0.25:
        return rng.choice((None, True, False, [], {}, rng.choice(NUMBERS), rng.choice(TEXTS)))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        near = value + rng.choice((-1, 1)) if kind < 0.6 else value * rng.choice((-1, 2, 60_000))
        return near if rng.random() < 0.6 else rng.choice(NUMBERS)
    if isinstance(value, str):
        return rng.choice((*TEXTS, value + "x", value[:-1], value.upper()))
    return rng.choice(NUMBERS)
