"""Hosts and events on their way to Kafka, also from an engine that restarted."""

import msgspec
import pytest

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.messages import ClusterTopology, EngineEvent
from surescale.monitor.prices import PriceTable
from surescale.monitor.progress import own_name
from surescale.monitor.service import HOSTS_AGAIN_S, ClusterWatcher
from tests.support.engine_stub import CLUSTER, EVENT

TOLD = msgspec.structs.replace(CLUSTER, monitor=own_name())
"""The same hosts with who tells of them."""


class Engine:
    """An engine with hosts and events, as far as a watcher asks for them."""

    def __init__(self, *events: EngineEvent) -> None:
        self.hosts, self.happened = CLUSTER, list(events)

    def cluster_topology(self) -> ClusterTopology:
        """The hosts."""
        return self.hosts

    def events(self, after_id: str) -> list[EngineEvent]:
        """What happened after one; everything, if there is no such event."""
        return self.happened[[event.identity for event in self.happened].index(after_id) + 1 if self._knows(after_id) else 0 :]

    def _knows(self, event_id: str) -> bool:
        return event_id in [event.identity for event in self.happened]


class Box:
    """Takes everything; says whether it was acknowledged."""

    def __init__(self) -> None:
        self.taken: list[object] = []
        self.acknowledges = True

    def send(self, _topic: str, _key: str, message: object) -> None:
        """Take a record."""
        self.taken.append(message)

    def await_acknowledged(self) -> bool:
        """Say whether it arrived."""
        return self.acknowledges


def event(sequence: int, at_ms: int) -> EngineEvent:
    """A checkpoint."""
    return EngineEvent(
        cluster="sim",
        sequence=sequence,
        event_id=f"{at_ms}.{sequence}",
        at_ms=at_ms,
        kind="checkpoint_completed",
        job="sim/clicks",
    )


def watched(*events: EngineEvent) -> tuple[ClusterWatcher, Engine, Box]:
    """A watcher that has published what there was."""
    engine, box = Engine(*events), Box()
    watcher = ClusterWatcher(engine, box)  # type: ignore[arg-type]  # the methods that it uses
    watcher.publish_changes()
    assert box.taken == [TOLD, *events]
    box.taken.clear()
    return watcher, engine, box


def test_hosts_are_sent_again_from_time_to_time() -> None:
    """Forged ones on the topic hold for ten minutes, and not until hosts really change."""
    now, box = [0.0], Box()
    watcher = ClusterWatcher(Engine(), box, now_s=lambda: now[0])  # type: ignore[arg-type]  # the methods that it uses
    for at_s, sent in ((0.0, 1), (1.0, 1), (HOSTS_AGAIN_S - 1, 1), (HOSTS_AGAIN_S, 2), (HOSTS_AGAIN_S + 1, 2)):
        now[0] = at_s
        watcher.publish_changes()
        assert box.taken == [TOLD] * sent


def test_without_an_actuator_nobody_is_to_act() -> None:
    """Whatever the engine itself can do."""
    box = Box()
    ClusterWatcher(Engine(), box, takes_commands=False).publish_changes()  # type: ignore[arg-type]  # the methods that it uses
    (sent,) = box.taken
    assert isinstance(sent, ClusterTopology)
    assert sent == msgspec.structs.replace(TOLD, engine=msgspec.structs.replace(CLUSTER.engine, acts="none"))


def test_what_was_published_is_not_published_again() -> None:
    """Only what has happened since."""
    watcher, engine, box = watched(EVENT)
    watcher.publish_changes()
    engine.happened.append(event(1, 7))
    watcher.publish_changes()
    watcher.publish_changes()
    assert box.taken == [event(1, 7)]


def test_what_was_not_acknowledged_is_published_again() -> None:
    """Hosts and events alike."""
    engine, box = Engine(EVENT), Box()
    watcher = ClusterWatcher(engine, box)  # type: ignore[arg-type]  # the methods that it uses
    box.acknowledges = False
    watcher.publish_changes()
    box.acknowledges = True
    watcher.publish_changes()
    assert box.taken == [TOLD, EVENT] * 2


def test_an_engine_that_begins_anew_has_all_its_events_published() -> None:
    """Whether it has had fewer, as many, or more of them by then."""
    for count in (0, 1, 2, 3, 5):
        watcher, engine, box = watched(*(event(number, number) for number in range(3)))
        engine.happened = [event(number, 100 + number) for number in range(count)]
        watcher.publish_changes()
        assert box.taken == engine.happened
        engine.happened.append(event(count, 200))
        watcher.publish_changes()
        assert box.taken == engine.happened


def test_hosts_of_an_engine_that_started_over_are_published_though_their_version_is_the_same() -> None:
    """It counts from the beginning."""
    watcher, engine, box = watched()
    engine.hosts = msgspec.structs.replace(CLUSTER, at_ms=5)
    watcher.publish_changes()
    assert box.taken == [msgspec.structs.replace(TOLD, at_ms=5)]


def test_what_has_no_price_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """With what it means and where to add it."""
    engine, box = Engine(), Box()
    engine.hosts = msgspec.structs.replace(CLUSTER, engine=Capabilities(engine="kafka", acts="counts"), hosts=())
    watcher = ClusterWatcher(engine, box, prices=PriceTable.of("tm-*=1"))  # type: ignore[arg-type]  # the methods that it uses
    for _ in range(2):
        watcher.publish_changes()
    assert [each.getMessage() for each in caplog.records] == [
        "no price for worker, so what jobs cost is unknown; add it to SURESCALE_PRICES"
    ]
