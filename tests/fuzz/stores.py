"""What a role finds of its own: the rescaler's memory on Kafka, and the files of workers on this machine."""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import msgspec
from confluent_kafka import Message

from surescale.contracts.ids import Cluster
from surescale.contracts.messages import JobTopology
from surescale.contracts.wire import decode, encode
from surescale.engines.groups.chains import single
from surescale.engines.processes.worker_store import Failure, FolderUnavailable, Requirement, WorkerStore
from surescale.rescaler.control.controller import Unreadable
from surescale.rescaler.control.job.memory import JobMemory, job_record
from surescale.rescaler.service.memory import memory_in
from tests.fuzz.target import Declined, Target, expect
from tests.support.builders import topology

CLUSTER, JOB, TASK = "sim", "orders", "parse"
_KEY = b"sim/job/sim/clicks"
_WRITTEN = b'{"pid":4194304,"port":8080,"started_ms":1780000000000,"born":12345}'


def stores() -> Iterator[Target]:
    """Yield what reads them."""
    job = job_record(Cluster(CLUSTER), JobMemory(job="sim/clicks", desired_generation=3), 5).record
    assert job is not None, "a job that has a generation has a memory"
    yield Target("rescaler's memory", [_KEY + b"\n" + encode(job), b"other/job/x\n{}"], _memory)
    required = msgspec.json.encode(Requirement("abc", 3, {TASK: 2}))
    failure = msgspec.json.encode(Failure(1_780_000_000_000, 2, "ended after 0 s with exit code 3; its last output: no topic"))
    yield Target("workers' store", [required, failure, _WRITTEN, b"1780000000000"], _store)
    yield Target("consumer group's id", [b"orders", b"team/orders", b"*", b"a b"], _group)


@dataclass(frozen=True, slots=True)
class _Record:
    """A record as the client gives it."""

    raw: bytes

    def key(self) -> bytes:
        return self.raw.partition(b"\n")[0]

    def value(self) -> bytes | None:
        return self.raw.partition(b"\n")[2] or None

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return 2, 1_780_000_000_000

    def headers(self) -> None:
        return None


def _memory(raw: bytes) -> None:
    log = logging.getLogger("surescale.memory")
    log.disabled = True  # it names each record
    try:
        found = memory_in([cast(Message, _Record(raw))], CLUSTER, 0, lambda _: None)
    finally:
        log.disabled = False
    if not found:
        raise Declined("passed")
    (memory,) = found
    if isinstance(memory, Unreadable):
        expect("\n" not in memory.why and len(memory.why) < 2_000, "what is told of it is not one line")
        raise Declined(memory.why)
    expect(raw.startswith(f"{CLUSTER}/{memory.kind}/{memory.id}\n".encode()), "the memory of another key")


@cache
def _folder() -> WorkerStore:
    """Return a store that lasts as long as the process."""
    root = Path(tempfile.mkdtemp(prefix="surescale-fuzz-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    store = WorkerStore(root, CLUSTER)
    store.make(store.file(JOB, TASK, 0).parent)
    return store


def _store(raw: bytes) -> None:
    store = _folder()
    for suffix in ("worker", "failed", "draining"):
        store.file(JOB, TASK, 0, suffix).write_bytes(raw)
    (store.file(JOB, TASK, 0).parent.parent / "requirement.json").write_bytes(raw)
    expect(store.workers(JOB) == [], "a worker that is none of ours")
    told = store.failing(JOB, TASK, 1)
    try:
        required = store.requirement(JOB)
    except FolderUnavailable as away:
        if not told:
            raise Declined(str(away)) from None
    else:
        expect(required is not None, "a requirement that was read as none")


def _group(raw: bytes) -> None:
    chain = single(raw.decode("utf-8", "surrogateescape"))
    (task,) = chain.groups
    made = msgspec.structs.replace(topology(), job=f"shop/{chain.name}")
    expect(task == chain.name and decode(encode(made), JobTopology).job == f"shop/{task}", "a job of another name")
