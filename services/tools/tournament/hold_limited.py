"""Holds a tournament in a process of its own, within limits of time and memory: whatever happens there, the caller goes on."""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

import msgspec

from surescale.contracts.errors import UNREADABLE, SurescaleError
from surescale.policies.onnx_sessions import runtime_errors
from surescale.runtime.pipes import Child, limit_memory, limit_time, read_message, write_message
from surescale.services.tools.tournament.hold import Ask, hold
from surescale.services.tools.tournament.tournament_report import NoTournament, TournamentReport

NICENESS = 10
"""The process stands back where processors are scarce."""
GRACE_S = 30.0
"""Beyond the time allowed, to read the recording and to answer."""
_SAY_EVERY_S = 10.0


class _Reply(msgspec.Struct):
    report: TournamentReport | None = None
    problem: str = ""


def hold_limited(asked: Ask) -> TournamentReport:
    """Return the outcome of a tournament, as `hold`, from a child process within the limits that are asked for.

    Raises:
        NoTournament: for any reason; one line for people.
    """
    child = Child("surescale.services.tools.tournament.hold_limited")
    try:
        reply = msgspec.msgpack.decode(child.ask(msgspec.msgpack.encode(asked), asked.seconds + GRACE_S), type=_Reply)
    except TimeoutError:
        raise NoTournament(
            f"{asked.job}: it took more than {asked.seconds:g} s and was stopped; allow more with --time-limit"
        ) from None
    except (EOFError, OSError, *UNREADABLE):
        raise NoTournament(
            f"{asked.job}: its process has ended: it takes more than {asked.memory_mb} MB (--memory-mb), was killed, or crashed"
        ) from None
    finally:
        child.end()
    if reply.report is None:
        raise NoTournament(reply.problem if reply.problem.startswith(asked.job) else f"{asked.job}: {reply.problem}")
    return reply.report


# The child


def _says(job: str) -> Callable[[str, float], None]:
    """Return what says on standard error every few seconds how far the work is."""
    said_s = time.monotonic()

    def show(stage: str, share: float) -> None:
        nonlocal said_s
        if time.monotonic() - said_s > _SAY_EVERY_S:
            said_s = time.monotonic()
            print(f"{job}: {share:4.0%} {stage}", file=sys.stderr, flush=True)

    return show


def _serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Hold one tournament."""
    os.nice(NICENESS)
    with suppress(ImportError):
        runtime_errors()  # the runtime takes its own memory before the limit counts
    asked = msgspec.msgpack.decode(read_message(questions), type=Ask)
    limit_memory(asked.memory_mb)
    limit_time(asked.seconds + GRACE_S)
    try:
        reply = _Reply(hold(asked, _says(asked.job)))
    except SurescaleError as error:
        reply = _Reply(problem=str(error))
    except MemoryError:
        reply = _Reply(problem=f"it takes more than {asked.memory_mb} MB; allow more with --memory-mb")
    write_message(answers, msgspec.msgpack.encode(reply))


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
