"""``surescale dev bench threads``: how soon a role's process notices that one of its threads has ended or stands still.

Each role starts its threads, watchdog and health port with the same few functions; here a process of its own does, with nothing
else in it. Both clocks are the machine's own, which never jumps.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import click

from benchmarks.machine import conditions
from benchmarks.report import BenchFailed, Document, show
from surescale.contracts.settings import PipelineSettings
from surescale.runtime import options
from surescale.runtime.ports import free_port
from surescale.runtime.threads import FAULT_EXIT_CODE
from surescale.runtime.watchdog import HUNG_EXIT_CODE

LIMIT_S = PipelineSettings().hung_after_s
RUNS = 3
KINDS = ("ends", "hangs")
_ROLE = """
import logging, sys, threading, time
from surescale.contracts.settings import PipelineSettings
from surescale.runtime.beats import beat
from surescale.runtime.health import HealthServer
from surescale.runtime.watchdog import Watchdog
kind, port, limit_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
def work():
    for _ in range(20):
        beat()
        time.sleep(0.05)
    print(time.monotonic(), flush=True)
    if kind == "ends":
        raise LookupError("as planned")
    threading.Event().wait()
settings = PipelineSettings(health_port=port, hung_after_s=limit_s)
with Watchdog("bench", limit_s, logging.getLogger("bench")) as watchdog:
    with HealthServer(settings, lambda: {"ready": True}, watchdog), watchdog.loop("the main loop"):
        watchdog.thread(work, "a thread", lambda: False).start()
        while True:
            beat()
            time.sleep(0.5)
"""


def measured(kind: str, limit_s: float) -> Document:
    """Return the seconds from the end of a thread's work to the first answer that says so, and to the end of its process."""
    port, told_s = free_port(), None
    command = [sys.executable, "-c", _ROLE, kind, str(port), str(limit_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as role:
        assert role.stdout is not None, "it is a pipe"
        stopped_s = float(role.stdout.readline())
        while role.poll() is None:
            if told_s is None and not _is_alive(port):
                told_s = time.monotonic() - stopped_s
            time.sleep(0.02)
        ended_s = time.monotonic() - stopped_s
    expected = FAULT_EXIT_CODE if kind == "ends" else HUNG_EXIT_CODE
    if role.returncode != expected:
        raise BenchFailed(f"the process ended with {role.returncode}, not {expected}")
    return {"told_s": ended_s if told_s is None else told_s, "ended_s": ended_s}


def _is_alive(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/live", timeout=5):
            return True
    except HTTPError:
        return False
    except (URLError, OSError):
        return True  # that is no answer


def largest(found: Sequence[Document]) -> Document:
    """Return the largest of each figure, rounded."""
    return {name: round(max(each[name] for each in found), 2) for name in found[0]}


@click.command("threads")
@click.option("--limit", "limit_s", type=options.FiniteRange(1, 600), default=LIMIT_S, show_default=True,
              help="Seconds that a loop may stand still.")  # fmt: skip
@click.option("--runs", type=click.IntRange(1, 100), default=RUNS, show_default=True, help="Of each kind; the longest is shown.")
@options.as_json
def command(limit_s: float, runs: int, as_json: bool) -> None:
    """How soon a thread that ended or hangs is noticed.

    At the health port, and by the end of its process, which its supervisor starts again.
    """
    report: Document = {"conditions": conditions(), "limit_s": limit_s}
    for kind in KINDS:
        report[f"a thread that {kind}"] = largest([measured(kind, limit_s) for _ in range(runs)])
    show("surescale dev bench threads", report, as_json=as_json)
