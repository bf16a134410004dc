"""What a role finds of its own: what rescaler and agent know from Kafka, Spark's checkpoint, the files of workers."""

from __future__ import annotations

import atexit
import io
import logging
import random
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import zstandard
from confluent_kafka import Message

from surescale.contracts.errors import RecordRejected
from surescale.contracts.ids import Cluster
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology
from surescale.contracts.record_keys import record_key
from surescale.contracts.releases import SHADOWS_MAX, Release
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import JOB_SETTINGS, POLICY_RELEASES, RESCALER_STATE
from surescale.contracts.wire import decode, encode
from surescale.engines.groups.chains import single
from surescale.engines.processes.worker_store import Failure, FolderUnavailable, Requirement, WorkerStore
from surescale.rescaler.control.controller import Unreadable
from surescale.rescaler.control.job.memory import JobMemory, job_record
from surescale.rescaler.service.memory import memory_in
from surescale.services.agent.job_settings import JobSettingsView
from surescale.spark_streaming.manifest import Manifest, Manifests, SavedState
from surescale.spark_streaming.minutes import Minutes
from surescale.spark_streaming.places import Place
from surescale.spark_streaming.state import Arrays, StateRefused
from surescale.spark_streaming.state_files import StateFiles
from tests.fuzz.target import Declined, Target, expect
from tests.support.builders import topology
from tests.support.spark_states import Saved, StateStore
from tests.unit.spark_streaming.pipeline import MINUTE, RULES, feed, marker, sample
from tests.wire.messages import MESSAGES

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
    known = [encode(message) for name, message in MESSAGES.items() if name.startswith(("job-settings", "policy-release"))]
    yield Target("agent's memory", known, _agents)
    manifest, head, rows = _checkpoint()
    yield Target("Spark's manifest", [manifest], _manifest)
    yield Target("Spark's state", [_unpacked(head)["header"].tobytes()], partial(_state, _unpacked(head)))
    yield Target("Spark's rows", [_unpacked(rows)["header"].tobytes()], partial(_rows, _unpacked(rows)))
    yield Target("Spark's state file", [head, rows], _state_file)
    yield Target("consumer group's id", [b"orders", b"team/orders", b"*", b"a b"], _group)


@dataclass(frozen=True, slots=True)
class _Record:
    """A record as the client gives it."""

    raw: bytes
    of: str = RESCALER_STATE

    def topic(self) -> str:
        return self.of

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
        is_short = len(memory.why) < 1_000 + 2 * len(raw.partition(b"\n")[0])  # it names the key, and in the way out
        expect("\n" not in memory.why and is_short, "what is told of it is not one line")
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


def _own_key(raw: bytes) -> bytes:
    """Return the key under which a record of the agent's topics would lie; empty for none of them."""
    try:
        return str(record_key(decode(raw, JobSettings | Release))).encode()
    except RecordRejected:
        return b""


def _agents(raw: bytes) -> None:
    """Let the agent's view take a record on both its topics, and ask it what the agent asks."""
    taken: list[str] = []
    log = logging.getLogger("surescale.fuzz")
    log.disabled = True  # it names each record
    view = JobSettingsView(PipelineSettings(), stop=threading.Event(), log=log)
    view._topics._count = lambda topic, is_taken: taken.append(topic) if is_taken else None
    view._topics._taken([cast(Message, _Record(_own_key(raw) + b"\n" + raw, topic)) for topic in (JOB_SETTINGS, POLICY_RELEASES)])
    if not taken:
        raise Declined("passed")
    for job in ("sim/clicks", "sim/x", *view._known):
        expect(view.of(job).job == job, "settings of another job")
        for at_ms in (0, 60_000, 2**53):
            for release in (view.released(job, at_ms), view.former(job, at_ms), *view.shadows(job, at_ms)):
                expect(
                    release is None or (release.is_for(job) and release.valid_from_ms <= at_ms), "a release that is not its own"
                )
            expect(len(view.shadows(job, at_ms)) <= SHADOWS_MAX, "more shadows than allowed")


# Spark's checkpoint


class _Folder:
    """A folder of files in memory, as `Place` has one."""

    local = None

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def __truediv__(self, folder: str) -> _Folder:
        return self

    def __str__(self) -> str:
        return "checkpoint"

    def make(self) -> None:
        """There is nothing to make."""

    def names(self) -> list[str]:
        return sorted(self.files)

    def read(self, name: str) -> bytes:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def write(self, name: str, content: bytes) -> None:
        self.files[name] = content

    def remove(self, name: str) -> None:
        self.files.pop(name, None)


@cache
def _checkpoint() -> tuple[bytes, bytes, bytes]:
    """Return a manifest, a state and its rows, unpacked."""
    folder, minutes = _Folder({}), Minutes(RULES)
    feed(*(each for end in range(1, 4) for each in (sample(end * MINUTE, 5 * end), marker(end))), minutes=minutes)
    StateStore(cast(Place, folder), RULES).save(Saved(7, minutes, {0: 10}))
    return tuple(zstandard.decompress(folder.files[next(n for n in folder.files if n.startswith(kind))]) for kind in _KINDS)  # type: ignore[return-value]


_KINDS = ("manifest", "state", "rows")
_HEAD, _ROWS = "state-000000000007-00000-0.npz.zst", "rows-000000000007-00000-0.npz.zst"


def _manifest(raw: bytes) -> None:
    named = (_HEAD, _ROWS, "rows-000000000007-00000-1.npz.zst")
    folder = _Folder(dict.fromkeys(named, b"") | {"manifest-000000000007.json.zst": zstandard.compress(raw)})
    for name in set(re.findall(rb"(?:state|rows)-[0-9a-f-]+\.npz\.zst", raw)):
        folder.files[name.decode()] = b""
    manifests = Manifests(cast(Place, folder), RULES)
    try:
        found = manifests.load()
    except StateRefused as refused:
        raise Declined(_one_line(refused)) from None
    expect(found.files() <= set(folder.names()), "a file that is gone counts")
    for state in found.states.values():
        found.sharing(state)
        found.home("sim/clicks", 0)
    manifests.save(found)
    expect(manifests.load() == found, "saved and loaded it is another one")


def _unpacked(raw: bytes) -> Arrays:
    with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _packed(arrays: Arrays) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def _strange(arrays: Arrays, header: bytes) -> Arrays:
    """Return arrays with another header, sometimes with other figures and shapes too."""
    rng, found = random.Random(header), dict(arrays) | {"header": np.frombuffer(header, dtype=np.uint8)}
    for name in rng.sample(sorted(arrays), rng.choice((0, 0, 1, 2))):
        if name == "header":
            continue
        values = found[name].copy()
        action = rng.randrange(6)
        if action == 0:
            del found[name]
        elif action == 1:
            found[name] = values[:-1]
        elif action == 2:
            found[name] = values.reshape(-1)
        elif action == 3:
            found[name] = values.astype(np.float32 if values.dtype != np.float32 else "U3")
        elif values.size:
            values.reshape(-1)[rng.randrange(values.size)] = np.array(rng.choice((-1, 0, 1, 2**31, 2**53, 2**62))).astype(
                values.dtype
            )
            found[name] = values
    return found


def _loaded(head: bytes, rows: bytes) -> None:
    folder = _Folder({_HEAD: zstandard.compress(head), _ROWS: zstandard.compress(rows)})
    manifest = Manifest(batch=7, rules=RULES, partitions=1, offsets={0: 10}, states={0: SavedState(_HEAD, (_ROWS,))})
    files = StateFiles(cast(Place, folder))
    try:
        memory = files.load(manifest, {0})
    except StateRefused as refused:
        raise Declined(_one_line(refused)) from None
    files.save(memory, 8, 0)


def _state(arrays: Arrays, raw: bytes) -> None:
    _loaded(_packed(_strange(arrays, raw)), _checkpoint()[2])


def _rows(arrays: Arrays, raw: bytes) -> None:
    _loaded(_checkpoint()[1], _packed(_strange(arrays, raw)))


def _state_file(raw: bytes) -> None:
    _, head, rows = _checkpoint()
    _loaded(*((raw, rows) if b"baseline" in raw else (head, raw)))


def _one_line(refused: StateRefused) -> str:
    expect("\n" not in str(refused), "the refusal is not one line")
    return str(refused)
