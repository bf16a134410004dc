"""A pipeline of which roles have stopped, as the records that were written before."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.ids import decision_id
from surescale.contracts.messages import ClusterTopology
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import encode_window
from surescale.contracts.wire import encode
from surescale.services.state.write.projections import Record
from tests.support.builders import JOB, row, topology
from tests.support.view_pipeline import decision, outcome

LIVED = 40  # minutes for which all roles were at work


@dataclass(frozen=True)
class Stopped:
    """For how many minutes each role has written nothing; state: what the others wrote since is not in the view."""

    monitor: int = 0
    spark: int = 0
    agent: int = 0
    rescaler: int = 0
    state: int = 0

    def kept_ms(self) -> int:
        """Return when the view last held all that Kafka had, by the wall's clock."""
        return time.time_ns() // 1_000_000 - self.state * MINUTE_MS

    def records(self) -> list[Record]:
        """Return what was written before, up to the present minute; decisions every ten minutes."""
        now_ms = time.time_ns() // 1_000_000
        keys = {topics.CLUSTER_TOPOLOGY: b"sim"}
        written = enumerate(self._written())
        return [Record(topic, 0, offset, keys.get(topic, JOB.encode()), value, now_ms) for offset, (topic, value) in written]

    def _written(self) -> Iterator[tuple[str, bytes]]:
        now = time.time_ns() // 1_000_000 // MINUTE_MS - self.state
        begun = now - max(self.monitor, self.spark, self.agent, self.rescaler) - LIVED
        yield topics.JOB_TOPOLOGY, encode(replace(topology(), at_ms=(now - self.monitor) * MINUTE_MS))
        yield topics.CLUSTER_TOPOLOGY, encode(ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=(), monitor="shop-1:77"))
        history, figures = WindowHistory(JOB, 60), row(records_in=600, busy_ms=20_000, idle_ms=40_000)
        rows = {"source": figures, "map": figures, "sink": figures}
        for minute in range(begun, now - max(self.monitor, self.spark) + 1):
            yield topics.SNAPSHOTS, encode_window(history.close(minute * MINUTE_MS, rows, topology()))
        for end in range(begun, now + 1, 10):
            end_ms = end * MINUTE_MS
            made = replace(decision(1), span_end_ms=end_ms, decision_id=decision_id(JOB, end_ms, "sure"))
            held = replace(outcome(1, 0, "held", reason="hold"), span_end_ms=end_ms, decision_id=made.decision_id)
            if end <= now - max(self.monitor, self.spark, self.agent):
                yield topics.DECISIONS, encode(made)
                if end <= now - self.rescaler:
                    yield topics.RESCHEDULE_EVENTS, encode(held)
