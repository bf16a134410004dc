"""Asks shadow policies in a process of their own, with limits of time and memory.

Whatever such a policy does, the agent's own process, and the policy that serves, go on.
"""

import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from surescale.contracts.decisions import Decision, ShadowDecision
from surescale.contracts.errors import RecordRejected
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.windows import decode_window
from surescale.contracts.wire import decode, encode
from surescale.policies.shadow import ShadowRun, is_asked
from surescale.runtime.limited_graphs import START_SECONDS, STARTS_MAX
from surescale.runtime.pipes import Child, limit_memory, limit_time, read_message, write_message

if TYPE_CHECKING:
    from surescale.policies.policy import Policy

NICENESS = 10
"""The process stands back where processors are scarce, so that the policy that serves finds one."""


@dataclass(frozen=True, slots=True)
class ShadowQuestion:
    """A window, the decision that was made on it, and the shadow policy that is to look at it too."""

    window: bytes
    settings: JobSettings
    beside: ShadowRun


class _Start(msgspec.Struct):
    folder: str
    span_minutes: int
    seconds: float
    memory_mb: int


class _Load(msgspec.Struct, tag="load"):
    policy: str
    sha256: str


class _Ask(msgspec.Struct, tag="ask"):
    policy: str
    sha256: str
    window: bytes
    settings: bytes
    served: bytes
    served_took_ms: float


class ShadowProcess:
    """The process of all shadow policies. It is started with the first question, and again after an end."""

    def __init__(self, *, folder: str, span_minutes: int, seconds: float, memory_mb: int) -> None:
        """``seconds`` for one answer; ``memory_mb`` for all policies together, besides what the runtime takes."""
        self._start = _Start(folder, span_minutes, seconds, memory_mb)
        self._child: Child | None = None
        self._loaded: set[tuple[str, str]] = set()
        self._ends: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()  # of the child, which another thread may kill
        self._is_closed = False

    def ask(self, question: ShadowQuestion) -> ShadowDecision | None:
        """Return the answer, None if the policy has none to this window. Takes at most the limit, and longer to start.

        A policy with which the process ended `STARTS_MAX` times is not asked again.
        """
        beside, seconds = question.beside, self._start.seconds
        version = (beside.policy, beside.sha256)
        if self._ends.get(version, 0) >= STARTS_MAX:
            return beside.unanswered("failed", f"Its process was stopped {STARTS_MAX} times, and it is not asked again.")
        asked = _Ask(
            *version,
            window=question.window,
            settings=encode(question.settings),
            served=encode(beside.served),
            served_took_ms=beside.served_took_ms,
        )
        try:
            child = self._open()
            if version not in self._loaded:
                child.ask(msgspec.msgpack.encode(_Load(*version)), START_SECONDS)
                self._loaded.add(version)
            raw = child.ask(msgspec.msgpack.encode(asked), seconds)
            return decode(raw, ShadowDecision) if raw else None
        except TimeoutError:
            self._ended_with(version)
            return beside.unanswered("late", f"It took more than {seconds:g} s and was stopped.")
        except (EOFError, OSError, RecordRejected):
            self._ended_with(version)
            return beside.unanswered("failed", f"Its process ended: it takes more than {self._start.memory_mb} MB, or crashed.")

    def close(self) -> None:
        """End the process, also while another thread waits for its answer."""
        with self._lock:
            self._is_closed = True
            if self._child is not None:
                self._child.kill()

    def _open(self) -> Child:
        with self._lock:
            if self._is_closed:
                raise EOFError
            if self._child is not None:
                return self._child
            self._loaded.clear()
            self._child = child = Child("surescale.services.agent.shadow_process")
        child.ask(msgspec.msgpack.encode(self._start), START_SECONDS)
        return child

    def _ended_with(self, version: tuple[str, str]) -> None:
        self._ends[version] = self._ends.get(version, 0) + 1
        with self._lock:
            if self._child is not None:
                self._child.end()
            self._child = None


# The child


class _Policies:
    """The shadow policies, by name and hash. A package that is missing is looked for again at each window."""

    def __init__(self, start: _Start) -> None:
        self._start = start
        self._known: dict[tuple[str, str], Policy] = {}

    def of(self, name: str, sha256: str) -> "Policy":
        from surescale.policies.released_policy import released_policy

        if (name, sha256) not in self._known:
            policy = released_policy(name, sha256, self._start.folder, span_minutes=self._start.span_minutes)
            if policy.sha256 != sha256:
                return policy
            self._known[name, sha256] = policy
        return self._known[name, sha256]


def _serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the other end closes the pipe."""
    from surescale.policies.onnx_sessions import runtime_errors

    os.nice(NICENESS)
    runtime_errors()  # the runtime takes its own memory before the limit counts
    start = msgspec.msgpack.decode(read_message(questions), type=_Start)
    limit_memory(start.memory_mb)
    policies = _Policies(start)
    write_message(answers, b"")
    while True:
        asked = msgspec.msgpack.decode(read_message(questions), type=_Load | _Ask)
        if isinstance(asked, _Load):
            limit_time(START_SECONDS)
            policies.of(asked.policy, asked.sha256)
            write_message(answers, b"")
        else:
            limit_time(start.seconds)
            write_message(answers, _answer(asked, policies.of(asked.policy, asked.sha256)))


def _answer(asked: _Ask, policy: "Policy") -> bytes:
    """Return the record, empty if the policy has no answer to this window."""
    from surescale.policies.decide import decide

    window, settings, served = decode_window(asked.window), decode(asked.settings, JobSettings), decode(asked.served, Decision)
    if not is_asked(policy, window, settings):
        return b""
    began_s = time.monotonic()
    own = decide(window, policy, settings, seed=served.seed)
    took_ms = (time.monotonic() - began_s) * 1000
    return encode(ShadowRun(asked.policy, asked.sha256, served, asked.served_took_ms).answered(window, own, took_ms))


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
