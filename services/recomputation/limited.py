"""Decides again without a task or a minute in a process of its own, within limits of time and memory.

Whatever the policy does there, the process that asks goes on. Where the policy cannot run, because its runtime is not installed
or its package is not here, the answer says so.
"""

import os
import sys
from contextlib import suppress
from typing import BinaryIO

import msgspec

from surescale.contracts.decisions import Decision
from surescale.contracts.errors import UNREADABLE, SettingsError, SurescaleError
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.windows import Window, decode_window, encode_window
from surescale.contracts.wire import decode, encode
from surescale.policies.onnx_sessions import runtime_errors
from surescale.runtime.pipes import Child, limit_memory, limit_time, read_message, write_message
from surescale.services.recomputation.counterfactual import PolicyMissing, WithoutFacts, question_of, without

NICENESS = 10
"""The process stands back where processors are scarce."""
MEMORY_MB = 1_024
"""Besides what the runtime takes."""


class StoppedEarly(SurescaleError):
    """The process was ended before it answered; one line for people."""


class _Ask(msgspec.Struct):
    decision: bytes
    window: bytes
    settings: bytes
    folder: str
    span_minutes: int
    name: str
    seconds: float


class _Reply(msgspec.Struct):
    facts: WithoutFacts | None = None
    is_same: bool = True
    unknown_name: str = ""
    missing: str = ""


class Recomputation(msgspec.Struct, frozen=True):
    """One answer, and whether the policy still decides the same if nothing is left out."""

    facts: WithoutFacts
    is_same: bool


def without_in_process(
    decision: Decision,
    window: Window,
    settings: JobSettings,
    name: str,
    *,
    folder: str,
    span_minutes: int,
    seconds: float,
) -> Recomputation:
    """Return what would have been decided without a task or a minute, as `without`; takes ``seconds`` at most.

    Raises:
        SettingsError: the window has no such task or minute.
        PolicyMissing: the policy is not here, or cannot run here.
        StoppedEarly: it took too long or too much memory.
    """
    asked = _Ask(encode(decision), encode_window(window), encode(settings), folder, span_minutes, name, seconds)
    child = Child("surescale.services.recomputation.limited")
    try:
        reply = msgspec.msgpack.decode(child.ask(msgspec.msgpack.encode(asked), seconds), type=_Reply)
    except TimeoutError:
        raise StoppedEarly(f"deciding again took more than {seconds:g} s and was stopped") from None
    except (EOFError, OSError, *UNREADABLE):
        raise StoppedEarly(f"the process that decides again has ended: it takes more than {MEMORY_MB} MB, or crashed") from None
    finally:
        child.end()
    if reply.unknown_name:
        raise SettingsError(reply.unknown_name)
    if reply.facts is None:
        raise PolicyMissing(reply.missing)
    return Recomputation(reply.facts, reply.is_same)


# The child


def _serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer one question."""
    os.nice(NICENESS)
    with suppress(ImportError):
        runtime_errors()  # the runtime takes its own memory before the limit counts
    asked = msgspec.msgpack.decode(read_message(questions), type=_Ask)
    limit_memory(MEMORY_MB)
    limit_time(asked.seconds)
    write_message(answers, msgspec.msgpack.encode(_answer(asked)))


def _answer(asked: _Ask) -> _Reply:
    decision = decode(asked.decision, Decision)
    try:
        question = question_of(
            decision, decode_window(asked.window), decode(asked.settings, JobSettings), asked.folder, asked.span_minutes
        )
        (facts,) = without(question, (asked.name,))
        again = question.answer(question.window)
    except SettingsError as wrong:
        return _Reply(unknown_name=str(wrong))
    except PolicyMissing as missing:
        return _Reply(missing=str(missing))
    return _Reply(facts=facts, is_same=again.tasks == decision.tasks and again.policy == decision.policy)


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
