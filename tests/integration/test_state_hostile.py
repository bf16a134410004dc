"""Records and keys that try to stop the view: each is answered, counted and passed, and the rest is shown."""

import pytest

from contracts import topics
from contracts.clock import MINUTE_MS
from contracts.job_settings import JobSettings
from contracts.settings import PipelineSettings
from contracts.window_history import WindowHistory
from contracts.windows import WindowCounts, encode_window
from contracts.wire import encode
from services.state import keys
from services.state.read.queries import Queries
from services.state.write import projector as projector_module
from services.state.write.operations import Operation
from services.state.write.projections import PROJECTED, Record, project
from services.state.write.projector import Projector
from services.state.write.view_store import ViewStore
from tests.support import view_pipeline
from tests.support.builders import JOB, row, topology
from tests.support.view_pipeline import a_pipeline, send

pytestmark = pytest.mark.integration
settings, store, projector = view_pipeline.settings, view_pipeline.store, view_pipeline.projector

_SETTINGS = encode(JobSettings(job=JOB, version=9))
HOSTILE = (
    b"",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"type":' + b"9" * 4_301 + b"}",
    b'{"x":1e999}',
    _SETTINGS[:-1] + b',"note":' + b"9" * 5_000 + b"}",
    _SETTINGS[:-1] + b',"note":' + b"[" * 900 + b"]" * 900 + b"}",
    _SETTINGS.replace(b'"priority":0', b'"priority":' + b"9" * 4_000),
    b'{"type":"rescaler-state/2","cluster":"x","kind":"cluster","id":"placement","at_ms":1,"body":{"placement_generation":1e999}}',
    b'{"type":"rescaler-state/2","cluster":"sim","kind":"cluster","id":"topology","at_ms":1,"body":{"x":1}}',
)


def test_hostile_records_on_every_topic_leave_the_rest_of_the_view_as_it_is(
    settings: PipelineSettings, store: ViewStore, projector: Projector
) -> None:
    """Whatever lies in a record and in its key: the projector goes on, and what others wrote is shown."""
    hostile = [(topic, key, raw) for topic in PROJECTED for raw in HOSTILE for key in ("x" * 30_000, "sim/cluster/topology")]
    send(settings, *hostile, *[(topics.RESCALER_STATE, "sim/cluster/topology", None)], *a_pipeline())
    projector.catch_up(60)
    queries = Queries(store.client, settings.topic_prefix)
    assert [job.job for job in queries.jobs()] == [JOB]
    assert queries.cluster("sim").topology is not None
    assert queries.counts()["windows"] == 60
    assert projector.unreadable.total() > 100


def test_a_record_that_breaks_its_projection_is_counted_and_passed(
    settings: PipelineSettings, store: ViewStore, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake of ours at one record must not stop the view for as long as Kafka keeps the record."""

    def breaks_at_decisions(record: Record) -> tuple[Operation, ...]:
        if record.topic == topics.DECISIONS:
            raise ValueError("unforeseen")
        return project(record)

    monkeypatch.setattr(projector_module, "project", breaks_at_decisions)
    send(settings, *a_pipeline())
    projector.catch_up(30)
    counts = Queries(store.client, settings.topic_prefix).counts()
    assert counts["unreadable"] == {"decisions": 8}
    assert counts["windows"] == 60


def test_counts_that_would_overflow_stay_as_they_are(settings: PipelineSettings, store: ViewStore, projector: Projector) -> None:
    """Windows may claim 2^53 samples each; Redis counts to 2^63."""
    history, claimed = WindowHistory(JOB, 1), WindowCounts(samples=2**53)
    windows = [
        encode_window(history.close(minute * MINUTE_MS, {"source": row(records_in=1)}, topology(), counts=claimed))
        for minute in range(1, 1_101)
    ]
    send(settings, *[(topics.SNAPSHOTS, JOB, raw) for raw in windows])
    projector.catch_up(60)
    counts = Queries(store.client, settings.topic_prefix).counts()
    assert counts["windows"] == 1_100
    assert 2**60 < int(str(counts["metrics"])) < 2**63


def test_offsets_that_are_none_make_the_view_be_rebuilt(
    settings: PipelineSettings, store: ViewStore, projector: Projector
) -> None:
    """Another program wrote among them: the view cannot know what it covers."""
    send(settings, *a_pipeline())
    projector.catch_up(30)
    whole = store.dump()
    store.client.hset(store.key(keys.POSITIONS), "decisions/zero", "abc")
    second = Projector(settings, store, view_pipeline.LOG)
    second.catch_up(30)
    second.close()
    assert second.rebuilds == 1
    assert store.dump() == whole
