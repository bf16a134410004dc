"""The monitor's watchers: a fault that nobody expected costs its job a pause, never the watcher, and never in silence."""

import logging
import threading
from typing import Any

import pytest

from surescale.contracts.messages import ClusterTopology, MinuteMarker
from surescale.engines.ports.source import FinishedMinute
from surescale.monitor import service
from surescale.monitor.metrics import WATCHER_FAULTS
from surescale.monitor.service import ClusterWatcher, JobWatcher, Monitor
from surescale.monitor.settings import MonitorSettings
from surescale.monitor.trace import TraceSource
from surescale.runtime.metrics import Reading
from tests.support.engine_stub import MINUTE
from tests.unit.monitor.test_job_watcher import JOB, FailingOutbox, recorded


class FaultySource(TraceSource):
    """A recording; some of the first calls meet a fault of ours."""

    def __init__(self, *, minutes: int = 0, hosts: int = 0) -> None:
        """The next so many calls for minutes, and for hosts, fail."""
        super().__init__(recorded(), "recording")
        self.left = {"minutes": minutes, "hosts": hosts}
        self.is_ready: list[bool] = []
        self.report: Any = dict

    def minutes(self, job: str, after_ms: int) -> list[FinishedMinute]:
        """Note whether the role is ready; fail or answer."""
        self.is_ready.append(bool(self.report().get("ready")))
        self._fail("minutes")
        return super().minutes(job, after_ms)[:1]

    def cluster_topology(self) -> ClusterTopology | None:
        """Fail or answer."""
        self._fail("hosts")
        return super().cluster_topology()

    def _fail(self, what: str) -> None:
        self.left[what] -= 1
        if self.left[what] >= 0:
            raise OverflowError(f"cannot convert float infinity\nof {what} \x1b[2J")


class WatchingMonitor(Monitor):
    """A monitor that sends into a box, and has read all that it reads at its start."""

    def __init__(self, source: FaultySource, box: FailingOutbox) -> None:
        super().__init__(MonitorSettings(), source, stop=threading.Event(), log=logging.getLogger("surescale.test"))
        self.box = box
        self._knows_markers = self._source_answers = True
        self._listed = frozenset({JOB})
        source.report = self.report

    def _outbox(self, shared: object) -> Any:
        return self.box


@pytest.mark.parametrize("faults", [{"minutes": 3}, {"hosts": 3}, {"minutes": 1, "hosts": 2}])
def test_a_fault_that_nobody_expected_is_said_counted_and_tried_again(
    faults: dict[str, int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One line each that names job and cause; not ready until the job's next minute; no minute is lost."""
    monkeypatch.setattr(service, "RETRY_AFTER_S", 0.0)
    source, box = FaultySource(**faults), FailingOutbox()
    box.producer = None  # type: ignore[attr-defined]
    monitor = WatchingMonitor(source, box)
    watcher = JobWatcher(JOB, source, box, ClusterWatcher(source, box), 0)  # type: ignore[arg-type]  # the same two methods
    with caplog.at_level(logging.INFO):
        monitor._run_watcher(watcher)
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(said) == 3
    for line in said:
        assert line.startswith(f"{JOB}: an unexpected fault: OverflowError: cannot convert float infinity of ")
        assert "test_watchers.py:" in line
        assert line.isprintable()
    assert [each for each in monitor._readings() if each.metric is WATCHER_FAULTS] == [Reading(WATCHER_FAULTS, 3, (JOB,))]
    assert source.is_ready == [True, False, False, False, True, True, True]
    assert [each.minute_end_ms for each in box.delivered if isinstance(each, MinuteMarker)] == [MINUTE, 2 * MINUTE, 3 * MINUTE]
    assert watcher.is_done


def test_the_pause_after_faults_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a minute, and starts over once a minute has gone through."""
    pauses: list[float] = []
    monkeypatch.setattr(service, "pause", lambda _, seconds: pauses.append(seconds))
    source, box = FaultySource(minutes=9), FailingOutbox()
    box.producer = None  # type: ignore[attr-defined]
    monitor = WatchingMonitor(source, box)
    monitor._run_watcher(JobWatcher(JOB, source, box, ClusterWatcher(source, box), 0))  # type: ignore[arg-type]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
