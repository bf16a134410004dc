"""Hand-made windows and decisions of one job, and a source that holds them."""

from collections.abc import Iterable, Iterator, Mapping

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.ids import cluster_of
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology
from surescale.contracts.topics import DECISIONS, JOB_SETTINGS, SNAPSHOTS
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import Window, encode_window
from surescale.contracts.wire import encode
from surescale.policies.decide import decide
from surescale.policies.registry import load_policy
from surescale.services.tools.recording.format import RawRecord
from tests.support.builders import JOB, row, topology

FIRST_MINUTE = 600  # a span ends with it


def windows(busy_ms: Mapping[int, float], *, job_topology: JobTopology | None = None) -> list[Window]:
    """Return a window for each minute, in order: the task ``map`` was busy so long for 1,000 records, at parallelism 2."""
    history = WindowHistory(JOB, 20)
    made = []
    for minute, busy in sorted(busy_ms.items()):
        rows = {
            "source": row(records_in=1_000, records_out=1_000),
            "map": row(records_in=1_000, records_out=1_000, busy_ms=busy, parallelism=2),
            "sink": row(records_in=1_000),
        }
        made.append(history.close(minute * MINUTE_MS, rows, job_topology or topology(), closed_append_ms=minute))
    return made


def decided(made: Iterable[Window], policy: str, *, seed: int = 0, settings: JobSettings | None = None) -> list[Decision]:
    """Return what a policy decides at the ends of spans."""
    chosen = load_policy(policy)
    ends = [window for window in made if window.window_end_ms // MINUTE_MS % chosen.span_minutes == 0]
    return [decide(window, chosen, settings or JobSettings(job=JOB), seed=seed, asked=policy) for window in ends]


class Held:
    """A source of given windows, decisions and settings; append times in their order, settings first."""

    name = "the test"
    partitions: Mapping[str, int] = {JOB_SETTINGS: 1, DECISIONS: 1, SNAPSHOTS: 1}

    def __init__(
        self, made: Iterable[Window], decisions: Iterable[Decision] = (), settings: Iterable[tuple[int, JobSettings]] = ()
    ) -> None:
        self.held = [RawRecord(JOB_SETTINGS, 0, at, at, s.job.encode(), encode(s)) for at, s in settings]
        self.held += [
            RawRecord(DECISIONS, 0, at, d.span_end_ms + 1, cluster_of(d.job).encode(), encode(d))
            for at, d in enumerate(decisions)
        ]
        self.held += [RawRecord(SNAPSHOTS, 0, at, w.window_end_ms, w.job.encode(), encode_window(w)) for at, w in enumerate(made)]

    def records(self, topics: Iterable[str]) -> Iterator[RawRecord]:
        """Yield the records of the topics."""
        wanted = set(topics)
        return (record for record in self.held if record.topic in wanted)
