"""The bytes of every message kind, frozen: a change here is a change of contract and needs a new schema version.

``python -m tests.wire.test_golden_bytes`` writes the files anew, for a kind that is new.
"""

from pathlib import Path

import msgspec
import pytest

from contracts import messages as m
from contracts.clock import MINUTE_MS
from contracts.messages import Message
from contracts.windows import WindowHistory, decode_window, encode_window
from contracts.wire import decode, encode
from tests.support.builders import JOB, row, sample, topology

GOLDEN = Path(__file__).parent / "golden"

MESSAGES: dict[str, Message] = {
    "sample": sample(),
    "topology": topology(),
    "minute": m.MinuteMarker(
        job=JOB,
        minute_end_ms=60_000,
        topology=topology(),
        reached_wall_ms=7,
        load_history=(m.HourlyLoad(hour_start_ms=0, records=600, minutes=60),),
    ),
    "cluster": m.ClusterTopology(
        cluster="sim", version=1, at_ms=0, hosts=(m.Host(host="m1", units=(1, 2), price_per_s=0.0024, zone="a"),)
    ),
    "engine-event": m.EngineEvent(cluster="sim", sequence=4, at_ms=9, kind="host_lost", host="m1"),
    "job-settings": m.JobSettings(job=JOB, version=2, mode="advise", policy="static", set_by="ana", set_at_ms=5),
    "policy-release": m.PolicyRelease(cluster="sim", policy="sure", sha256="ab" * 32, valid_from_ms=60_000, set_by="ana"),
    "clock": m.ClockSegment(road="main", sequence=1, e0_ms=0, w0_ms=5, speed=60.0, until_ms=60_000, end_ms=120_000),
    "decision": m.Decision(
        decision_id=f"{JOB}@60000/sure",
        job=JOB,
        span_end_ms=60_000,
        window_id=f"{JOB}@60000/60m/v1",
        policy=m.PolicyUsed(name="target-utilisation", asked="sure", fallback_reason="the model answered NaN"),
        seed=1,
        settings_version=2,
        topology_version=1,
        action="act",
        reason="map needs 3 of 2",
        completeness=0.5,
        minutes_known=30,
        tasks=(
            m.TaskDecision(
                task="map",
                current=2,
                ratio=1.9,
                proposed=4,
                desired=3,
                floor=3,
                amendments=(m.Amendment(rule="bounds", before=4, after=3),),
                looked_at=(m.LookedAt(minute_end_ms=60_000, weight=0.75, neighbours=("sink",), neighbour_weights=(1.0,)),),
            ),
        ),
        load_records_per_minute=200.5,
        closed_append_ms=11,
        reached_wall_ms=10,
    ),
    "command": m.RescheduleCommand(
        command_id=f"{JOB}#3.0",
        cluster="sim",
        job=JOB,
        desired_generation=3,
        step=0,
        base_placement_generation=8,
        decision_id=f"{JOB}@60000/sure",
        gate_reason="desired",
        gate_cause="max_delay",
        issued_at_ms=60_000,
        changes=(m.TaskChange(task="map", before=2, after=3, added_units=(4,), units=(1, 2, 4), vnodes_moved=85),),
        placement=m.Placement(
            algorithm="cetsa",
            hosts=("m1",),
            rent_per_s=0.0024,
            rent_before_per_s=0.0048,
            rent_round_robin_per_s=0.0072,
            rent_default_per_s=0.0064,
        ),
    ),
    "outcome": m.Outcome(
        cluster="sim",
        job=JOB,
        decision_id=f"{JOB}@60000/sure",
        span_end_ms=60_000,
        status="pending",
        reason="cooldown",
        at_ms=60_000,
        until_ms=90_000,
    ),
    "progress": m.Progress(
        cluster="sim", job=JOB, command_id=f"{JOB}#3.0", desired_generation=3, status="applied", at_ms=9, duration_ms=60_000
    ),
    "rescaler-state": m.RescalerRecord(cluster="sim", kind="job", id="clicks", at_ms=1, body=msgspec.Raw(b'{"a":1}')),
    "dead-letter": m.DeadLetter(
        topic="task-metrics",
        partition=1,
        offset=7,
        reason="not_json",
        field="",
        message="not a JSON document",
        refused_by="spark",
    ),
}


def window_bytes() -> bytes:
    """Return the bytes of a small window with a masked minute."""
    history = WindowHistory(job=JOB, window_minutes=3)
    history.close(MINUTE_MS, {"map": row(records_in=1.5)}, topology())
    return encode_window(history.close(3 * MINUTE_MS, {"source": row(records_in=2)}, topology(), closed_append_ms=9))


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_has_the_bytes_it_always_had(name: str) -> None:
    """Encoding gives the frozen bytes, and decoding them gives the message."""
    frozen = (GOLDEN / f"{name}.json").read_bytes()
    assert encode(MESSAGES[name]) == frozen
    assert decode(frozen, type(MESSAGES[name])) == MESSAGES[name]


@pytest.mark.parametrize("name", sorted(path.stem for path in (GOLDEN / "earlier").glob("*.json")))
def test_a_record_of_an_earlier_build_still_reads(name: str) -> None:
    """Fields that were added since have their defaults."""
    earlier = (GOLDEN / "earlier" / f"{name}.json").read_bytes()
    assert decode(earlier, type(MESSAGES[name])) == MESSAGES[name]


def test_every_kind_of_message_has_golden_bytes() -> None:
    """A new message class without golden bytes fails here."""
    assert {type(message) for message in MESSAGES.values()} == set(Message.__subclasses__())


def test_a_window_of_an_earlier_build_still_reads() -> None:
    """The frozen window decodes to the same window; its compressed bytes may differ between zstd releases, its header not."""
    frozen = (GOLDEN / "window.bin").read_bytes()
    assert frozen[:8] == window_bytes()[:8]
    assert decode_window(frozen).figures.tobytes() == decode_window(window_bytes()).figures.tobytes()


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, message in MESSAGES.items():
        (GOLDEN / f"{name}.json").write_bytes(encode(message))
    (GOLDEN / "window.bin").write_bytes(window_bytes())
