"""Makes the workers that live the workers that are required: starts, starts again, drains. Safe to stop at any point.

Everything that must be known afterwards is in the store's folder, so another process goes on where this one ended. What is
kept in memory only makes things calmer: how often a worker failed lately, and since when it has not answered. A fault of one job
never costs another's workers.
"""

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from surescale.contracts.errors import reason_of
from surescale.engines.groups import GroupsSettings
from surescale.engines.groups.chains import Chain, Workers, chains_of
from surescale.engines.processes import ProcessesSettings, launch
from surescale.engines.processes.worker_store import Failure, FolderUnavailable, Requirement, Worker, WorkerStore
from surescale.engines.settings import ClusterSettings
from surescale.runtime.backoff import Throttle
from surescale.runtime.beats import beat
from surescale.runtime.http import is_ok
from surescale.runtime.kafka_clock import wall_ms
from surescale.runtime.ports import free_port

STEADY_S = 10.0  # a worker that ended sooner after its start has failed to start
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0
ANSWERS_WITHIN_S = 60.0  # from the start to the first answer of the health address
DRAIN_S = 20.0
SILENT_S = 30.0  # without an answer a worker that has answered before is replaced
SAY_EVERY_S = 60.0
LOG_BYTES_MAX = 16 * 2**20
_LOG_BYTES_SHOWN, _LOG_LINES_SHOWN = 400, 3
_Slot = tuple[str, str, int]
_log = logging.getLogger("surescale.workers")


@dataclass(slots=True)
class _Past:
    """What is remembered of one place for a worker."""

    process: subprocess.Popen[bytes] | None = None  # started by us, to be reaped
    failures: int = 0
    not_before_ms: int = 0
    started_ms: int = 0
    answered_ms: int = 0
    log_from: int = 0  # where the output of this start begins


@dataclass(slots=True)
class WorkerReconciler:
    """Reconciles the workers of all jobs. Use it from one thread.

    Attributes:
        store: what is required and who lives.
        chains: the jobs, by name.
        folder: in which the commands are run.
        workers_max: workers that the machine can hold.
        now_ms: wall time.
    """

    store: WorkerStore
    chains: Mapping[str, Chain]
    folder: Path
    workers_max: int
    now_ms: Callable[[], int] = wall_ms
    _past: dict[_Slot, _Past] = field(default_factory=dict)
    _seldom: Throttle = field(default_factory=lambda: Throttle(SAY_EVERY_S))
    _seldom_strangers: Throttle = field(default_factory=lambda: Throttle(SAY_EVERY_S))
    _seldom_others: Throttle = field(default_factory=lambda: Throttle(SAY_EVERY_S))

    @classmethod
    def of(cls, settings: ClusterSettings) -> Self:
        """Return what reconciles the workers that a role's settings name; they are run in the folder of the groups file.

        Raises:
            SettingsError: the groups file cannot be used.
        """
        store = WorkerStore(Path(settings.part(ProcessesSettings).workers_folder).resolve(), settings.cluster)
        return cls(store, chains_of(settings), folder_of_commands(settings), settings.part(GroupsSettings).workers_max)

    def reconcile(self, only: Collection[str] | None = None) -> None:
        """Do what can be done now. Does nothing while another process reconciles the same workers.

        Args:
            only: tend these jobs, and say nothing of others.

        Raises:
            FolderUnavailable: the folder cannot be used.
            Exception: a fault of one job, once all others are tended.
        """
        with self.store.is_alone() as alone:
            if not alone:
                if self._seldom_others.is_time():
                    _log.info("another process tends the workers of this folder; this one leaves them alone")
                return
            for past in self._past.values():
                if past.process is not None:
                    past.process.poll()  # no zombies
            alive, faults = dict[str, list[Worker]](), list[Exception]()
            for job in {*self.store.jobs(), *self.chains}:
                try:
                    alive[job] = self.store.workers(job)
                except FolderUnavailable as fault:
                    faults.append(fault)
            if only is None:
                self._name_strangers(alive)
            room = self.workers_max - sum(map(len, alive.values())) - self._starting(alive)
            for job, chain in self.chains.items():
                if job not in alive or (only is not None and job not in only):
                    continue
                beat()
                try:
                    required = self._required(chain)
                    room = self._tend_job(chain, required, [each for each in alive[job] if each.task in chain.groups], room)
                except Exception as fault:
                    faults.append(fault)
            if faults:
                raise faults[0]

    def _required(self, chain: Chain) -> Requirement:
        """Return what is asked for; a job that is new, and a task that is new in the file, begin as their author wants."""
        required = self.store.requirement(chain.name)
        if required is None:
            return self.store.deploy(chain)
        fresh = {
            task: group.workers.start
            for task, group in chain.groups.items()
            if group.workers is not None and task not in required.counts
        }
        return (self.store.change(chain.name, required, fresh) if fresh else None) or required

    def _starting(self, alive: Mapping[str, list[Worker]]) -> int:
        """Return how many workers have been started and are not written down yet."""
        known = {(job, each.task, each.index) for job, found in alive.items() for each in found}
        return sum(
            past.process is not None and past.process.poll() is None and place not in known for place, past in self._past.items()
        )

    def _name_strangers(self, alive: Mapping[str, list[Worker]]) -> None:
        """Name workers of jobs and tasks that the file no longer has. They are left alone: a slip in a file must stop nothing."""
        known = {(job, task) for job, chain in self.chains.items() for task in chain.groups}
        strangers = [f"{job}/{each.task} {each.index} (pid {each.pid})" for job, found in alive.items() for each in found
                     if (job, each.task) not in known]  # fmt: skip
        if strangers and self._seldom_strangers.is_time():
            _log.warning(
                "%d workers run whose group left SURESCALE_GROUPS_FILE, %s first; `surescale workers stop JOB` ends them",
                len(strangers), sorted(strangers)[0],
            )  # fmt: skip

    def _tend_job(self, chain: Chain, required: Requirement, alive: list[Worker], room: int) -> int:
        by_place = {(worker.task, worker.index): worker for worker in alive}
        for worker in alive:
            if self._is_steady(worker) and self.store.failure(chain.name, worker.task, worker.index) is not None:
                self.store.note_failure(chain.name, worker.task, worker.index, None)
            options = chain.groups[worker.task].workers
            is_surplus = worker.index >= required.counts.get(worker.task, 0)
            if is_surplus or worker.draining_ms is not None or self._is_ill(chain, worker):
                self._drain(chain, worker, options.drain_s if options is not None else DRAIN_S)
        for task, count in required.counts.items():
            options = chain.groups[task].workers if task in chain.groups else None
            if options is None:
                continue
            for index in range(count):
                if (task, index) in by_place:
                    continue
                if room <= 0:
                    if self._seldom.is_time():
                        _log.warning("%s: %d workers run, no more fit; raise SURESCALE_WORKERS_MAX", chain.name, self.workers_max)
                    return 0
                room -= self._start(chain, task, index, options)
        return room

    # Start

    def _start(self, chain: Chain, task: str, index: int, options: Workers) -> bool:
        """Start a worker, unless it failed a moment ago; return whether it was started."""
        past, now_ms = self._past.setdefault((chain.name, task, index), _Past()), self.now_ms()
        self._note_end(chain, task, index, past, now_ms)
        if 0 < past.not_before_ms - now_ms <= LONGEST_PAUSE_S * 1000:  # a longer wait is of a clock that was set back since
            return False
        self.store.forget_draining(chain.name, task, index)
        path, log_path = (self.store.file(chain.name, task, index, suffix) for suffix in ("worker", "log"))
        port = free_port()
        filled = [part.format(index=index, port=port) for part in options.command]
        try:
            self.store.make(path.parent)
            if log_path.exists() and log_path.stat().st_size > LOG_BYTES_MAX:
                log_path.replace(log_path.with_suffix(".log.1"))
            with open(log_path, "ab", opener=_for_us_alone) as log:
                past.log_from = log.tell()
                past.process = subprocess.Popen(
                    [sys.executable, "-I", "-S", launch.__file__, str(path), str(port), *filled],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                    env=_clean_environment(),
                    start_new_session=True,  # it outlives us, and neither Ctrl-C nor our end reaches it
                )
        except OSError as error:
            raise FolderUnavailable(f"{path.parent}: cannot start a worker ({reason_of(error)}); check the folder") from None
        past.started_ms, past.answered_ms = now_ms, 0
        return True

    def _note_end(self, chain: Chain, task: str, index: int, past: _Past, now_ms: int) -> None:
        """Take account of how the last worker in this place ended, if we started it: one that fails at once is not hurried."""
        if past.process is None:
            return
        code = past.process.poll()
        if code is None:  # it starts, and is not written down yet
            past.not_before_ms = now_ms + round(FIRST_PAUSE_S * 1000)
            return
        past.process = None
        if code == launch.RUNS_ALREADY:  # and yet nobody lives here: a child of the last worker, or a copy of it, holds its lock
            _log.warning(
                "%s: worker %s %d has ended, but a process that it started holds its lock still; the next one gets its own",
                chain.name, task, index,
            )  # fmt: skip
            self.store.give_up_lock(chain.name, task, index)
            return
        if self.store.file(chain.name, task, index, "draining").exists():
            past.failures = 0
            return
        ran_s = (now_ms - past.started_ms) / 1000
        past.failures = past.failures + 1 if ran_s < STEADY_S else 1
        pause_s = min(FIRST_PAUSE_S * 2 ** (past.failures - 1), LONGEST_PAUSE_S)
        past.not_before_ms = now_ms + round(pause_s * 1000)
        words = f"exit code {code}" if code >= 0 else f"signal {_signal_name(-code)}"
        last = _last_lines(self.store.file(chain.name, task, index, "log"), past.log_from)
        if ran_s < STEADY_S:
            told = f"ended after {ran_s:.0f} s with {words}; its last output: {last or 'nothing'}"
            self.store.note_failure(chain.name, task, index, Failure(now_ms, past.failures, told))
        _log.warning(
            "%s: worker %s %d exited after %.0f s with %s; restarting it in %.1f s. Its last output: %s",
            chain.name, task, index, ran_s, words, pause_s, last or "nothing",
        )  # fmt: skip

    # Health and end

    def answers(self, chain: Chain, worker: Worker) -> bool:
        """Return whether a worker is up: its health address answers, or without one it has run for ``STEADY_S``."""
        options = chain.groups[worker.task].workers
        if options is None or not options.health:
            return self._is_steady(worker)
        return is_ok(options.health.format(index=worker.index, port=worker.port))

    def failures(self, chain: Chain, required: Requirement) -> str:
        """Return how workers that are asked for ended soon after their start, for people; empty if none did."""
        found = (self.store.failing(chain.name, task, count) for task, count in required.counts.items())
        return next(filter(None, found), "")

    def _is_steady(self, worker: Worker) -> bool:
        return self.now_ms() - worker.started_ms >= STEADY_S * 1000

    def _is_ill(self, chain: Chain, worker: Worker) -> bool:
        options = chain.groups[worker.task].workers
        if options is None or not options.health:
            return False
        past, now_ms = self._past.setdefault((chain.name, worker.task, worker.index), _Past()), self.now_ms()
        if self.answers(chain, worker):
            past.answered_ms = now_ms
            return False
        since_ms, patience_s = (past.answered_ms, SILENT_S) if past.answered_ms else (worker.started_ms, ANSWERS_WITHIN_S)
        is_ill = bool(worker.started_ms) and now_ms - since_ms > patience_s * 1000
        if is_ill and worker.draining_ms is None:
            _log.warning("%s: worker %s %d does not answer; it is replaced", chain.name, worker.task, worker.index)
        return is_ill

    def _drain(self, chain: Chain, worker: Worker, drain_s: float) -> None:
        """Ask a worker to end, once; kill it and its children when its time is up."""
        now_ms = self.now_ms()
        if worker.draining_ms is None:
            self.store.note_draining(chain.name, worker, now_ms)
            _signal(worker, signal.SIGTERM)
        elif now_ms - worker.draining_ms > drain_s * 1000:
            _log.warning("%s: worker %s %d did not end in time, so it is killed", chain.name, worker.task, worker.index)
            _signal(worker, signal.SIGKILL, group=True)


def _signal(worker: Worker, number: signal.Signals, *, group: bool = False) -> None:
    """Send a signal to a worker, or to all processes of its session that stayed in its group; to nobody if it has ended."""
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(worker.pid)  # from here on nobody else gets this process's id unseen
        try:
            if not worker.lives:
                return
            if group:
                os.killpg(worker.pid, number)
            else:
                signal.pidfd_send_signal(process, number)
        finally:
            os.close(process)


def _signal_name(number: int) -> str:
    """Return a signal's name, or its number where it has none (real-time signals)."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)  # a pipe would keep us waiting


def folder_of_commands(settings: ClusterSettings) -> Path:
    """Return the folder in which workers are run: that of the groups file."""
    return Path(settings.part(GroupsSettings).groups_file).resolve().parent


def missing_programs(chain: Chain, folder: Path) -> Iterator[str]:
    """Name each field whose program cannot be started. It is looked for as `launch` will: on the path, or from the folder."""
    for task, group in chain.groups.items():
        program = group.workers.command[0] if group.workers else ""
        if program and shutil.which(folder / program if "/" in program else program) is None:
            where = f"from {folder}" if "/" in program else "on the path"
            yield f"{chain.name}.groups.{task}.workers.command: no program {program!r} was found {where}"


def _clean_environment() -> dict[str, str]:
    """Return the environment of a worker: ours without our own settings, which may hold passwords."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SURESCALE_")}


def _last_lines(path: Path, begin: int) -> str:
    """Return the last lines of a log that lie behind its first ``begin`` bytes, as one line."""
    with contextlib.suppress(OSError), open(path, "rb", opener=_for_us_alone) as log:
        log.seek(max(begin, log.seek(0, os.SEEK_END) - _LOG_BYTES_SHOWN))
        lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        return " | ".join(lines[-_LOG_LINES_SHOWN:])
    return ""
