"""Judges several policies side by side, each in a process of its own, and reports their progress.

Workers end with the command, however it ends: each watches a pipe whose other end only the command holds.
"""

import multiprocessing
import os
import queue
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from runtime.threads import background
from simulation.evaluation.judge import EvaluationError, JudgedPolicy, Setting, judge

TELL_SHARE = 0.02  # progress is reported in steps of this size
WAIT_S = 0.2
# The longest first, so that no process works on one alone at the end.
_LONG = ("sure", "sure-paper", "oracle", "drs", "forecast")

OnProgress = Callable[[str, str, float], None]  # policy, stage, share done


@dataclass(frozen=True, slots=True)
class Timed:
    """A judged policy and the seconds it took."""

    judged: JudgedPolicy
    wall_s: float


def judge_all(names: Sequence[str], setting: Setting, workers: int, progress: OnProgress) -> list[Timed]:
    """Judge policies and return them in the order of the names given. The number of workers does not change any figure."""
    if workers == 1 or len(names) == 1:
        return [_timed(name, setting, progress) for name in names]
    # Spawned, not forked, so that no thread of a model's runtime is copied; with one thread each.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    context = multiprocessing.get_context("spawn")
    news: Any = context.Queue()
    watched, held = context.Pipe(duplex=False)
    count = min(workers, len(names))
    with held, ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(news, watched)) as pool:
        try:
            order = sorted(names, key=lambda name: (name not in _LONG, _LONG.index(name) if name in _LONG else 0))
            futures = {name: pool.submit(_in_worker, name, setting) for name in order}
            _relay(news, list(futures.values()), progress)
            return [futures[name].result() for name in names]
        except BrokenProcessPool:
            raise EvaluationError("--workers: a worker process died, perhaps out of memory; try --workers 1") from None
        except BaseException:
            held.close()  # the pool waits for its workers, which would otherwise finish what they have begun
            raise


def _relay(news: Any, futures: list[Future[Timed]], progress: OnProgress) -> None:
    while True:
        finished = all(future.done() for future in futures)
        failed = next((future for future in futures if future.done() and future.exception()), None)
        if failed is not None:
            failed.result()
        try:
            while True:
                progress(*news.get(timeout=WAIT_S))
        except queue.Empty:
            if finished:
                return


_news: Any = None


def _begin(news: Any, watched: Connection) -> None:
    global _news
    _news = news
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal signals the whole group; the command decides
    background(lambda: _end_with_command(watched), "end with the command").start()


def _end_with_command(watched: Connection) -> None:
    """End this process at once when the command gives up or is gone: its end of the pipe is then closed."""
    watched.poll(None)
    os._exit(1)


def _in_worker(name: str, setting: Setting) -> Timed:
    return _timed(name, setting, lambda *step: _news.put(step))


def _timed(name: str, setting: Setting, progress: OnProgress) -> Timed:
    began, last = time.perf_counter(), ("", -1.0)

    def report(stage: str, share: float) -> None:
        nonlocal last
        if stage != last[0] or share >= min(1.0, last[1] + TELL_SHARE):
            last = (stage, share)
            progress(name, stage, share)

    found = judge(name, setting, report)
    progress(name, "done", 1.0)
    return Timed(found, time.perf_counter() - began)
