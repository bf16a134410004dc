"""What keeps the workers of consumer groups, for sources: what it can do, the room that it has; and what one worker is."""

import threading
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from msgspec.structs import replace

from surescale.contracts.messages import ClusterTopology, Host
from surescale.engines.registry import requirements_of
from surescale.engines.settings import SourceSettings
from surescale.runtime.kafka_clock import wall_ms

MEMBERS_LOOKS = 3
"""More members than workers count after so many looks in a row: one that died is a member for a minute."""
HINDRANCE_LETTERS_MAX = 512
ASKED_MS = 3_600_000
"""What was asked for within this time may still drain."""


@dataclass(slots=True)
class MembersEach:
    """Follows one task whose size is decided in members and asked for in workers, which must be one and the same.

    A worker may hold several members (threads, a listener's concurrency), and others may run members of their own. Then a size
    that was decided would be multiplied without a word.
    """

    _asked: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=1_000))
    _looks: int = MEMBERS_LOOKS - 1  # at the first look nobody knows better, and nothing may be asked for before

    _joined: dict[object, int] = field(default_factory=dict)

    def look(self, members: Collection[object], workers: int | None, now_ms: int) -> str:
        """Return why no other size can be asked for and what to do, in one line; empty if it can.

        Args:
            members: the ids of those that run.
            workers: that are asked for, None if nobody is asked.
            now_ms: the time.
        """
        self._joined = {each: self._joined.get(each, now_ms) for each in members}
        if not workers:
            return ""
        self._asked.append((now_ms, workers))
        while self._asked[0][0] < now_ms - ASKED_MS:
            self._asked.popleft()
        most = max(count for _, count in self._asked)
        # Who joined after so many were last asked for drains from nothing: one deployment may change both numbers.
        more_ms = max((at_ms for at_ms, count in self._asked if count > workers), default=-1)
        joined = sum(at_ms > more_ms for at_ms in self._joined.values())
        count = len(members)
        self._looks = min(self._looks + 1, MEMBERS_LOOKS) if count > most or joined > workers else 0
        if self._looks < MEMBERS_LOOKS:
            return ""
        each = f", {count // workers} in each" if count % workers == 0 else ""
        asked = "1 worker is" if workers == 1 else f"{workers} workers are"
        return (
            f"{count} members run where {asked} asked for{each}: sizes count members and are asked for in "
            "workers; run one member in each (one thread, a concurrency of 1), and none that is no worker's"
        )


class WorkerTopology:
    """What the actuator asks the workers of jobs to be, and its room for them, as topologies show it. Thread-safe."""

    def __init__(self, settings: SourceSettings) -> None:
        """Ask nothing yet.

        Raises:
            SettingsError: the actuator cannot be used with these settings.
        """
        self.requirements = requirements_of(settings)
        self._cluster, self._engine = settings.cluster, settings.engine
        self._lock = threading.Lock()
        self._version: tuple[tuple[Host, ...], int] = ((), 0)

    def topology(self) -> ClusterTopology:
        """Return this machine with its room for workers, if they are processes here, and what the actuator can do.

        Raises:
            SourceUnavailable: the room is unknown now.
        """
        hosts = self.requirements.hosts()
        with self._lock:
            if self._version[0] != hosts or not self._version[1]:
                self._version = (hosts, wall_ms())
            version = self._version[1]
        engine = replace(self.requirements.can, engine=self._engine)
        return ClusterTopology(cluster=self._cluster, version=version, at_ms=version, hosts=hosts, engine=engine)
