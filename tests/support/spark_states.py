"""States and manifests of one partition, batch by batch, without Spark."""

from collections.abc import Callable
from dataclasses import dataclass

from surescale.spark_streaming.manifest import FOLDER, Manifest, Manifests
from surescale.spark_streaming.minutes import MinuteRules, Minutes
from surescale.spark_streaming.places import Place
from surescale.spark_streaming.state_files import Memory, StateFiles

PARTITION = 0


@dataclass(frozen=True, slots=True)
class Saved:
    """What stands after a batch: its number, the minutes, and the next offset of each partition."""

    batch: int
    minutes: Minutes
    offsets: dict[int, int]


class StateStore:
    """A checkpoint whose only partition is merged by whoever calls this, as a task and the driver do it between them."""

    def __init__(self, checkpoint: Place, rules: MinuteRules, check: Callable[[], None] = lambda: None) -> None:
        self.manifests = Manifests(checkpoint, rules, check)
        self.files = StateFiles(checkpoint / FOLDER)
        self.rules = rules
        self._memory: Memory | None = None

    def load(self) -> Saved:
        """Return what stands, and go on from it."""
        manifest = self.manifests.load()
        self._memory = self.files.load(manifest, {PARTITION})
        return Saved(manifest.batch, self._memory.minutes, dict(manifest.offsets))

    def save(self, saved: Saved) -> None:
        """Save the state after a batch, then the manifest that names it."""
        if self._memory is None or self._memory.minutes is not saved.minutes:
            self._memory = Memory(saved.minutes)
        state = self.files.save(self._memory, saved.batch, PARTITION)
        manifest = Manifest(batch=saved.batch, rules=self.rules, partitions=1, offsets=saved.offsets, states={PARTITION: state})
        self.manifests.save(manifest)
        self.files.forget_others(manifest)
