"""Runs the roles of the pipeline, each its own process, and leaves nothing behind.

    with Supervisor(progress=print) as supervisor:
        supervisor.start(Role("kafka", broker.command(), ready=broker.answers))
        supervisor.start(Role("engine", [...], ready=lambda: is_ok(url)))
        supervisor.wait(trace_ended, timeout_s=600, what="the trace")

There is no thread. `start`, `wait` and `check` notice a role that has ended and raise `RoleError`; the `with` block then stops
everything, last started first. SIGINT, SIGTERM and SIGHUP raise `StopRequested` in the main thread. If this process is killed
outright, the roles die with it (see `process_group.py`), and `janitor.py` removes the temporary folder.
"""

import contextlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from surescale.services.local_stack import janitor
from surescale.services.local_stack.child_process import ChildProcess
from surescale.services.local_stack.errors import RoleError, Say, silent

POLL_S = 0.1
STILL_STARTING_EVERY_S = 5.0
STILL_STARTING_EVERY_S_MAX = 30.0
LOG_LINES_SHOWN = 15
WAITS = " waiting for "
_SINCE = re.compile(r" since \d+ s: ")  # each role has its own
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(BaseException):
    """A signal asked this process to end (Ctrl-C, SIGTERM, SIGHUP). Not an `Exception`, so that nothing swallows it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"{signal.Signals(signal_number).name} received")
        self.signal_number = signal_number

    @property
    def exit_code(self) -> int:
        """What a process ended by this signal reports: 128 + its number."""
        return 128 + self.signal_number


def _always_ready() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Role:
    """One process of the pipeline.

    `env` is added to our own environment. `ready` is polled until it is true; an OSError counts as not ready.
    `finishes`: the role may end by itself with exit code 0 (a batch, not a service). `ready_hint`: what to do if it takes longer.
    """

    name: str
    command: Sequence[str | Path]
    env: Mapping[str, str] = field(default_factory=dict)
    ready: Callable[[], bool] = _always_ready
    ready_timeout_s: float = 120.0
    ready_hint: str = ""
    stop_grace_s: float = 15.0
    finishes: bool = False


@dataclass(slots=True)
class _Running:
    role: Role
    process: ChildProcess
    started_s: float
    is_down_on_purpose: bool = False


class Supervisor:
    """Starts roles in order, watches them, stops them in reverse order. Use it from one thread.

    Logs go to `folder` (`logs/ROLE.log`). Without one, a temporary folder is created, and removed at the end.
    """

    def __init__(self, folder: Path | None = None, *, progress: Say = silent) -> None:
        self._given_folder = folder
        self._progress = progress
        self._running: dict[str, _Running] = {}
        self._is_stopping = False
        self._is_in_hurry = False
        self._is_launching = False
        self._held_signal: int | None = None
        self._old_handlers: dict[int, Any] = {}
        self._janitor: subprocess.Popen[bytes] | None = None
        self.folder = folder if folder is not None else Path()

    def __enter__(self) -> Self:
        if self._given_folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="surescale-"))
            self._janitor = _start_janitor(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        if threading.current_thread() is threading.main_thread():
            for number in _STOP_SIGNALS:
                self._old_handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.stop()
        finally:
            if self._janitor is not None:
                is_removed = janitor.remove(self.folder, patience_s=5.0)
                _dismiss(self._janitor, is_removed=is_removed)
            for number, handler in self._old_handlers.items():
                signal.signal(number, handler)

    def start(self, role: Role) -> None:
        """Start a role and wait until it is ready.

        Raises:
            RoleError: it ended or was not ready in time, or another role ended meanwhile.
        """
        self.launch(role)
        self.await_ready(role.name)

    def start_together(self, roles: Sequence[Role]) -> None:
        """Start roles side by side and wait until all are ready; raises RoleError as `start` does."""
        for role in roles:
            self.launch(role)
        self.await_ready(*(role.name for role in roles))

    def launch(self, role: Role) -> None:
        """Start a role without waiting for it."""
        if role.name in self._running and self._running[role.name].process.is_running:
            raise ValueError(f"role {role.name!r} already runs: use restart")
        # A signal in between would leave a running process that nobody tracks.
        self._is_launching = True
        try:
            process = ChildProcess(role.command, log_path=self.log_path(role.name), env=role.env)
            self._running[role.name] = _Running(role, process, time.monotonic())
        finally:
            self._is_launching = False
        if self._held_signal is not None:
            self._on_signal(self._held_signal, None)
        self._progress(f"{role.name}: starting")

    def await_ready(self, *names: str) -> None:
        """Wait until launched roles are ready; raises RoleError as `start` does.

        A line names all that are not, and what anybody waits for: after a few seconds, then ever more rarely.
        """
        began_s = time.monotonic()
        waiting, next_word_s = list(names), STILL_STARTING_EVERY_S
        while waiting:
            self.check()
            for name in list(waiting):
                this = self._running[name]
                waited_s = time.monotonic() - this.started_s
                if _is_ready(this.role):
                    self.check()  # whatever answered must be this process, not a stranger on its port
                    waiting.remove(name)
                    self._progress(f"{name}: ready after {waited_s:.1f} s")
                elif waited_s > this.role.ready_timeout_s:
                    raise _role_error(this, f"was not ready after {this.role.ready_timeout_s:.0f} s{this.role.ready_hint}")
            waited_s = time.monotonic() - began_s
            if waiting and waited_s > next_word_s:
                self._progress(f"waiting {waited_s:.0f} s: {' | '.join(self._waits(waiting))}")
                next_word_s += min(next_word_s, STILL_STARTING_EVERY_S_MAX)
            if waiting:
                time.sleep(POLL_S)

    def check(self) -> None:
        """Raise RoleError if a role has ended unexpectedly."""
        for this in self._running.values():
            code = this.process.exit_code
            if code is None or this.is_down_on_purpose or (this.role.finishes and code == 0):
                continue
            raise _role_error(this, this.process.describe_end())

    def wait(
        self, condition: Callable[[], bool], *, timeout_s: float | None = None, what: str = "", poll_s: float = POLL_S
    ) -> None:
        """Poll a condition every ``poll_s`` until it holds, watching the roles meanwhile.

        Raises:
            RoleError: a role ended.
            TimeoutError: the condition did not hold in time.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not condition():
            self.check()
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"gave up after waiting {timeout_s:.0f} s for {what or 'a condition'}")
            time.sleep(poll_s)

    def has_finished(self, name: str) -> bool:
        """Return whether a role has ended."""
        return not self._running[name].process.is_running

    def kill(self, name: str) -> None:
        """Kill a role with SIGKILL, on purpose: it stays down until `restart`."""
        this = self._running[name]
        this.is_down_on_purpose = True
        this.process.kill()
        self._progress(f"{name}: killed")

    def restart(self, name: str) -> None:
        """Stop a role if it runs, start it again with the same command, and wait until it is ready."""
        this = self._running[name]
        this.is_down_on_purpose = True
        this.process.stop(this.role.stop_grace_s)
        self.start(this.role)

    def stop(self) -> None:
        """Stop all roles, last started first: SIGTERM, then SIGKILL after the grace period (at once after a second signal)."""
        self._is_stopping = True
        for name, this in reversed(self._running.items()):
            if this.process.is_running:
                self._say_while_stopping(f"{name}: stopping")
                self._stop_one(this)

    def log_path(self, name: str) -> Path:
        """Return the file that a role's output goes to."""
        return self.folder / "logs" / f"{name}.log"

    def last_log_lines(self, name: str, count: int = LOG_LINES_SHOWN) -> list[str]:
        """Return the last lines a role wrote since it was last started."""
        return self._running[name].process.last_log_lines(count)

    def _waits(self, starting: Sequence[str]) -> Iterator[str]:
        """Yield what each role last logged that it waits for (`runtime.backoff`), such as a missing broker, or that it starts."""
        for name in self._running:
            line = "".join(self.last_log_lines(name, 1))
            if WAITS in line:
                yield f"{name} for {_SINCE.sub(': ', line.partition(WAITS)[2])}"
            elif name in starting:
                yield f"{name} starting"

    def _stop_one(self, this: _Running) -> None:
        this.process.ask_to_end()
        deadline = time.monotonic() + this.role.stop_grace_s
        while not self._is_in_hurry and time.monotonic() < deadline:
            if this.process.wait(POLL_S):
                return
        self._say_while_stopping(f"{this.role.name}: did not stop by itself, killing it")
        this.process.kill()

    def _say_while_stopping(self, line: str) -> None:
        """Say a line. If nobody listens any more (``| head``), the roles are stopped anyway."""
        with contextlib.suppress(OSError):
            self._progress(line)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._is_stopping:
            self._is_in_hurry = True
        elif self._is_launching:
            self._held_signal = number
        else:
            self._is_stopping = True
            raise StopRequested(number)


def _is_ready(role: Role) -> bool:
    try:
        return role.ready()
    except OSError:
        return False


def _role_error(this: _Running, what: str) -> RoleError:
    lines = this.process.last_log_lines(LOG_LINES_SHOWN)
    shown = "\n".join(f"  {line}" for line in lines) if lines else "  (it wrote nothing)"
    return RoleError(this.role.name, f"role {this.role.name!r} {what}; the last lines of its log:\n{shown}")


def _start_janitor(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", janitor.__file__, str(folder)]
    quiet = subprocess.DEVNULL  # otherwise it would hold our output open, and its reader would wait
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True)


def _dismiss(watcher: subprocess.Popen[bytes], *, is_removed: bool) -> None:
    """Tell the janitor that the folder is gone, or leave it to remove the folder: it is more patient than our callers."""
    with contextlib.suppress(BrokenPipeError):
        if is_removed:
            watcher.communicate(b"!", timeout=10)
        elif watcher.stdin is not None:
            watcher.stdin.close()
