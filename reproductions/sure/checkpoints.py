"""Checkpoints of training runs: written whole or not at all, read back or refused in one line. Independent of what is trained."""

import io
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import torch

from surescale.contracts.errors import SurescaleError, reason_of
from surescale.policies.features import SLOTS_SHA256

CHECKPOINT = "checkpoint.pt"

Restored = TypeVar("Restored")


class CheckpointRejected(SurescaleError):
    """A run cannot continue from a checkpoint: damaged, of another kind of run, or of other features; the message says which."""


class CheckpointNotWritten(SurescaleError):
    """A checkpoint cannot be written, for lack of space or of the folder; the previous one is untouched."""


def write(document: Mapping[str, Any], folder: Path) -> None:
    """Write a folder's checkpoint. A reader finds the previous one or this one, never a part.

    Raises:
        CheckpointNotWritten: the system refuses; the message says why.
    """
    content = io.BytesIO()
    torch.save({**document, "slots_sha256": SLOTS_SHA256}, content)
    path, partial = folder / CHECKPOINT, folder / f"{CHECKPOINT}.{os.getpid()}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.write(content.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise CheckpointNotWritten(
            f"{path} cannot be written ({reason_of(error)}); the previous checkpoint is untouched: make room, then resume from it"
        ) from None
    finally:
        with suppress(OSError):  # it is gone unless something failed
            partial.unlink(missing_ok=True)


def restored(folder: Path, restore: Callable[[dict[str, Any]], Restored]) -> Restored:
    """Return the run that ``restore`` makes of the document in a folder's checkpoint, with its tensors in main memory.

    Raises:
        CheckpointRejected: it is damaged, holds another kind of run, or was trained on other features.
    """
    path = folder / CHECKPOINT
    raw = path.read_bytes()
    try:
        document = torch.load(io.BytesIO(raw), weights_only=True, map_location="cpu")
    except Exception as error:  # torch raises errors of many kinds on damaged bytes
        raise CheckpointRejected(f"{path} is damaged and cannot be read; start the run again in another folder") from error
    try:
        if document.get("slots_sha256", SLOTS_SHA256) != SLOTS_SHA256:
            raise CheckpointRejected(f"{path} was trained on other features than this version makes; start the run again")
        return restore(document)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise CheckpointRejected(f"{path} does not hold a run that this command can resume ({reason})") from error
