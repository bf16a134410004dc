"""Records what the page's tests show: every topic of a demo that ran, windows by their summaries alone.

Run ``surescale demo --minutes 150 --kill-host 60 --join-host 95 --keep``, and with the address of its Kafka
``python -m tests.recordings.record_page 127.0.0.1:PORT``.
"""

import logging
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import zstandard

from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import SNAPSHOTS
from surescale.runtime.kafka import StableOffsetLag
from surescale.services.state.write.projections import Record
from surescale.services.state.write.topic_log import TopicLog

FILE = Path(__file__).parent / "page" / "pipeline.zst"
READ_WAIT_S = 1.0


def main(bootstrap: str) -> None:
    """Read all topics of the view to their ends, and write the file."""
    log = TopicLog(PipelineSettings(bootstrap=bootstrap), StableOffsetLag())
    log.go_to(log.beginning())
    found: list[Record] = []
    while not log.at_end:
        found += log.read(READ_WAIT_S)
    log.close()
    # The projector reads a window's summary where there is one, and the figures are megabytes.
    kept = [replace(each, value=b"") if each.topic == SNAPSHOTS and each.summary else each for each in found]
    kept.sort(key=lambda each: (each.appended_ms, each.topic, each.partition, each.offset))
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(zstandard.ZstdCompressor(level=19).compress(msgspec.msgpack.encode(kept)))
    logging.getLogger("record").warning("%d records, %d bytes", len(kept), FILE.stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1])
