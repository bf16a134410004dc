"""The newest events of a cluster, with ids that every reader takes."""

from surescale.contracts.messages import EngineEvent
from surescale.contracts.wire import decode, encode
from surescale.engines.ports.event_log import EventLog


def test_an_id_of_long_names_is_cut_and_stays_its_own() -> None:
    """Readers refuse longer ones."""
    log, long = EventLog("shop"), "x" * 300
    for name in (f"{long}a", f"{long}b", f"{long}a"):
        log.add("exception", f"hindered:{name}", 1, job="shop/orders")
    events = [decode(encode(each), EngineEvent) for each in log.after("")]
    assert len({each.event_id for each in events}) == len(events) == 2
    assert log.after(events[0].identity) == events[1:]
