"""A job of a thousand tasks on the page: how many bytes come, how long the layout takes, how frames follow while it is live.

Figures, not bounds: `SURESCALE_PAGE_LONG=yes .venv/bin/python -m pytest -s tests/browser/test_many_tasks.py` prints them.
"""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.summaries import encode_header
from surescale.contracts.summing_up import header_of
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.wire import encode
from surescale.runtime.ports import free_port
from surescale.services.state.write.projections import Record
from tests.support.builders import JOB, row
from tests.support.served_page import Served, View

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not os.environ.get("SURESCALE_PAGE_LONG"), reason="SURESCALE_PAGE_LONG=yes runs it"),
]
TASKS, WIDTH, MINUTES = 1_000, 25, 6
FRAMES = """() => new Promise((done) => {
  const times = [], frame = document.querySelector('.graph-frame'), began = performance.now();
  const next = (now) => {
    times.push(now);
    frame.scrollLeft = 400 + 400 * Math.sin(now / 300);
    if (now - began < 5000) requestAnimationFrame(next); else done(times);
  };
  requestAnimationFrame(next);
})"""


def topology() -> JobTopology:
    """Return layers of 25 tasks, each fed by one or two of the layer before."""
    tasks = []
    for number in range(TASKS):
        above = number - WIDTH
        upstream = tuple(f"task-{at}" for at in sorted({above, above - above % WIDTH + number * 7 % WIDTH})) if above >= 0 else ()
        tasks.append(TaskSpec(task=f"task-{number}", upstream=upstream, parallelism=1 + number % 9))
    return JobTopology(job=JOB, version=1, at_ms=0, tasks=tuple(tasks))


def minute(history: WindowHistory, end: int, seen: JobTopology) -> Record:
    """Return the window of a minute in which every task is differently busy."""
    busy = np.random.default_rng(end).uniform(0, 1, TASKS)
    rows = {
        spec.task: row(
            records_in=600, records_out=600, parallelism=spec.parallelism, busy_ms=share * MINUTE_MS * spec.parallelism
        )
        for spec, share in zip(seen.tasks, busy, strict=True)
    }
    summary = encode_header(header_of(history.close(end * MINUTE_MS, rows, seen)))
    return Record(topics.SNAPSHOTS, 0, end, JOB.encode(), b"", end, summary)


def test_a_thousand_tasks_on_the_page(browser: "Browser", redis_url: str, tmp_path: Path) -> None:
    """The graph is there, and frames go on while new minutes come."""
    seen, history = topology(), WindowHistory(JOB, 3)
    view = View(redis_url, f"many-{tmp_path.name}-")
    view.take([Record(topics.JOB_TOPOLOGY, 0, 0, JOB.encode(), encode(seen), 1)])
    view.take([minute(history, end, seen) for end in range(1, MINUTES)])
    served = Served(view, free_port())
    try:
        page = browser.new_page(viewport={"width": 1360, "height": 860}, locale="en-US")
        sizes: list[int] = []
        page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
        began_s = time.monotonic()
        page.goto(f"{served.url}#/jobs/{JOB}")
        page.get_by_role("heading", name=JOB, level=1).wait_for()
        page.locator(".graph svg .task").nth(TASKS - 1).wait_for(state="attached", timeout=120_000)
        shown_s, first_bytes = time.monotonic() - began_s, sum(sizes)
        sizes.clear()
        view.take([minute(history, MINUTES, seen)])
        times = np.diff(page.evaluate(FRAMES))
        page.get_by_text(f"minute that ended 00:0{MINUTES}").wait_for()
        print(
            f"\n{TASKS} tasks: shown after {shown_s:.1f} s, {first_bytes / 1024:.0f} KiB; "
            f"a minute more: {sum(sizes) / 1024:.0f} KiB; "
            f"frames p50 {np.median(times):.1f} ms, p95 {np.percentile(times, 95):.1f} ms, most {times.max():.0f} ms; "
            f"load average {os.getloadavg()[0]:.0f}"
        )
        assert len(times) > 10
    finally:
        served.stop()
        view.close()
