"""Says which state files of a checkpoint count, and up to which record of each partition.

The driver writes one manifest after each batch, once all tasks have saved their states; nothing else has to agree with it. A task
that runs twice, or ends after its batch was given up, writes files of its own that no manifest names. After a kill the records
since the newest manifest are read again. A job's windows depend only on its own records, so they come out with the same bytes,
however the batches fall this time. The last three manifests are kept, and the files that they name.
"""

import contextlib
import re
import tokenize
import zipfile
from collections.abc import Callable, Iterable, Iterator

import msgspec
import zstandard

from surescale.contracts.errors import UNREADABLE, reason_of
from surescale.contracts.partitioner import partition_of
from surescale.contracts.wire import decoder
from surescale.spark_streaming.minutes import JobMinutes, MinuteRules
from surescale.spark_streaming.places import Place, StoreAway
from surescale.spark_streaming.state import StateRefused

FOLDER = "windows"
KEPT = 3
FIRST = -1
"""Number of the manifest before the first batch: of nothing."""
VERSION = 1
_ANEW = "give the job another checkpoint folder (it then reads task-metrics from the beginning)"
WAY_OUT = f"restore it, or {_ANEW}"
NO_ROOM = "free space or grant the right to write, and the job continues with this batch"
NOT_SHARED = (
    "an executor writes into another folder of this name, or has none; put the checkpoint where the driver and all executors see "
    "it: a store by its URL, or a shared disk (SURESCALE_SPARK_CHECKPOINT)"
)
_BACK = "remove it, and the job goes on from the one before it"
_NAME = re.compile(r"manifest-(\d{12})\.json\.zst")
_STATE = re.compile(r"(?:state|rows)-(\d{12})(-\S+)?\.npz(?:\.zst)?")


class SavedState(msgspec.Struct, frozen=True):
    """The files of one state.

    Attributes:
        head: everything but the rows of closed minutes.
        rows: the files with these, oldest first.
        is_shared: it was saved for several partitions; of these, some may have states of their own by now.
    """

    head: str
    rows: tuple[str, ...] = ()
    is_shared: bool = False


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What counts after a batch.

    Attributes:
        batch: its number.
        rules: of all states.
        partitions: how many the topic had; 0 before the first batch.
        offsets: of the next record of each partition, as far as it has records of them.
        states: the state that holds each partition's jobs. While partitions are being added, all have the same one.
        together_until_ms: wall time until which one task merges all partitions, because jobs move between them; 0: they do not.
        partitions_before: how many the topic had before it last grew.
    """

    version: int = VERSION
    batch: int = FIRST
    rules: MinuteRules
    partitions: int = 0
    offsets: dict[int, int] = {}
    states: dict[int, SavedState] = {}
    together_until_ms: int = 0
    partitions_before: int = 0

    def __post_init__(self) -> None:
        """Refuse states of a topic without partitions."""
        if self.states and self.partitions < 1:
            raise ValueError("partitions: there are states, so there must be some")

    def files(self) -> set[str]:
        """Return the names of all files that count."""
        return {name for state in self.states.values() for name in (state.head, *state.rows)}

    def sharing(self, state: SavedState) -> set[int]:
        """Return the partitions whose jobs a state holds."""
        return {partition for partition, each in self.states.items() if each.head == state.head}

    def home(self, name: str, seen: int) -> int:
        """Return the partition that a job's next record comes to.

        It moved when the topic grew, if it lay where Kafka's rule put it before; what another rule put there stays.
        """
        kept = self.partitions_before and partition_of(name, self.partitions_before) != seen and seen < self.partitions
        return seen if kept else partition_of(name, self.partitions)

    def home_of(self, job: JobMinutes) -> int:
        """Return the partition that the next record of a job comes to."""
        return self.home(job.job, job.partition)


class Manifests:
    """The manifests of one checkpoint, of which one process writes.

    Args:
        checkpoint: where they lie.
        rules: of the minutes.
        check: made before each is written; raises if another process works on the checkpoint.
    """

    def __init__(self, checkpoint: Place, rules: MinuteRules, check: Callable[[], None] = lambda: None) -> None:
        """Create the folder, and remove files a kill left half written.

        Raises:
            SettingsError: the folder cannot be created.
        """
        self._folder = checkpoint / FOLDER
        self._rules = rules
        self._check = check
        self._kept: dict[int, Manifest] = {}
        self._folder.make()

    def load(self) -> Manifest:
        """Return the newest manifest, the empty one if there is none, and remove files that none names.

        Raises:
            StateRefused: it, or a file that it names, is missing or corrupt, or was written by another version or under other
                settings.
            StoreAway: the store does not answer.
        """
        names = set(self._folder.names())
        numbers = sorted(int(match.group(1)) for name in names if (match := _NAME.fullmatch(name)))
        self._kept = {number: self._read(number, len(numbers)) for number in numbers}
        if not self._kept:
            self._refuse_states_alone(names)
            newest = Manifest(rules=self._rules)
        else:
            newest = self._kept[numbers[-1]]
            for name in sorted(newest.files() - names):
                raise StateRefused(f"{self._folder}/{name}: a part of the state of batch {newest.batch} is missing; {WAY_OUT}")
        self._remove(name for name in names - self._needed() if _STATE.fullmatch(name))
        return newest

    def save(self, manifest: Manifest) -> None:
        """Write the manifest of a batch, and remove all but the last three and what only those before them name.

        Raises:
            OSError: it cannot be written, say because the disk is full, or executors write their states elsewhere; one line that
                names the file and the fix.
            SurescaleError: another process works on the checkpoint.
        """
        self._check()
        self._require_here(manifest)
        name = _name(manifest.batch)
        packed = zstandard.ZstdCompressor(write_checksum=True).compress(msgspec.json.encode(manifest))
        try:
            self._folder.write(name, packed)
        except StoreAway:
            raise
        except OSError as error:
            raise OSError(f"{self._folder}/{name}: it cannot be written ({reason_of(error)}); {NO_ROOM}") from None
        before = self._needed()
        self._kept[manifest.batch] = manifest
        for old in sorted(self._kept)[:-KEPT]:
            del self._kept[old]
            self._folder.remove(_name(old))
        self._remove(before - self._needed())

    def batches(self) -> list[int]:
        """Return the numbers of the batches with kept manifests, ascending."""
        return sorted(self._kept)

    def _require_here(self, manifest: Manifest) -> None:
        """Refuse states that lie elsewhere: a machine of an executor may have a folder of the same name."""
        folder = self._folder.local
        if folder is None:
            return
        for head in {state.head for state in manifest.states.values()} - self._needed():
            if not (folder / head).exists():
                raise OSError(f"{self._folder}/{head}: {NOT_SHARED}")

    def _needed(self) -> set[str]:
        return set[str]().union(*(each.files() for each in self._kept.values()))

    def _remove(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            self._folder.remove(name)

    def _read(self, batch: int, count: int) -> Manifest:
        way_out = f"{WAY_OUT}; or {_BACK}" if count > 1 else WAY_OUT
        with named(f"{self._folder}/{_name(batch)}", f"the manifest of batch {batch}", way_out):
            found = decoder(Manifest).decode(zstandard.decompress(self._folder.read(_name(batch))))
            if found.version != VERSION:
                raise StateRefused(f"it was written by another version (manifest version {found.version}, this is {VERSION})")
            if found.rules != self._rules:
                raise StateRefused(f"it was written under other settings ({found.rules}, now {self._rules})")
        return found

    def _refuse_states_alone(self, names: Iterable[str]) -> None:
        """Refuse states without a manifest; a kill within the first batch may leave such, and nobody needs them."""
        found = [match for name in sorted(names) if (match := _STATE.fullmatch(name))]
        if older := next((match.group() for match in found if match.group(2) is None), None):
            raise StateRefused(f"{self._folder}/{older}: it was written by another version; {_ANEW}")
        if any(int(match.group(1)) > 0 for match in found):
            raise StateRefused(f"{self._folder}/manifest-*: the manifest is missing; {WAY_OUT}")


_CORRUPT = (OSError, KeyError, IndexError, EOFError, RuntimeError, tokenize.TokenError, zipfile.BadZipFile, zstandard.ZstdError)
"""What a corrupt file leads to. numpy reads heads of arrays by Python's tokens; zipfile raises RuntimeError for archives that it
cannot read: encrypted, of a later version or another method."""


@contextlib.contextmanager
def named(path: str, what: str, way_out: str = WAY_OUT) -> Iterator[None]:
    """Name the file that cannot be used, and the fix. A store that is away says nothing of its files."""
    try:
        yield
    except StoreAway:
        raise
    except FileNotFoundError:
        raise StateRefused(f"{path}: {what} is missing; {way_out}") from None
    except StateRefused as refused:
        raise StateRefused(f"{path}: {refused}; use the former settings, or give the job another checkpoint folder") from None
    except (*UNREADABLE, *_CORRUPT) as error:
        raise StateRefused(f"{path}: {what} is corrupt ({error}); {way_out}") from None


def _name(batch: int) -> str:
    return f"manifest-{batch:012d}.json.zst"
