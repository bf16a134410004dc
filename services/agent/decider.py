"""Turns the bytes of a window into a decision. Knows no Kafka: settings come from a function.

After a pause of Spark or of the agent, windows of several minutes come one after the other. Each is decided on, so each has its
answer. But only the newest decision of a job may be acted on, so the record of an older one says what overtook it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.job_labels import in_force
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.releases import Release
from surescale.contracts.settings import SPAN_MINUTES
from surescale.contracts.steps import Timed, untimed
from surescale.contracts.windows import decode_window

if TYPE_CHECKING:
    from surescale.policies.onnx_sessions import Opener
    from surescale.policies.policy import Policy


Released = Callable[[str, int], Release | None]  # the release that serves a job, by job and event time


def _nothing_released(_job: str, _at_ms: int) -> Release | None:
    return None


class Decider:
    """Asks a policy at the end of each of its spans: the one in the job's settings, else the released one, else the pipeline's.

    An emergency is answered at once.

    Policies are loaded once. A policy that cannot be loaded, or a released one whose hash differs, answers with the reason, and
    the rule takes over.
    """

    def __init__(
        self,
        settings_of: Callable[[str], JobSettings],
        *,
        policy: str,
        folder: str,
        seed: int,
        released: Released = _nothing_released,
        former: Released = _nothing_released,
        span_minutes: int = SPAN_MINUTES,
        opener: "Opener | None" = None,
        pinned: bool = False,
    ) -> None:
        """Load nothing yet.

        ``former``: what would serve if no tournament had been held. ``opener``: of a package's graphs. ``pinned``: packages of
        the folder are used only if a release names their hash.
        """
        self._settings_of, self._released, self._former = settings_of, released, former
        self._policy, self._folder, self._seed, self._span_minutes = policy, folder, seed, span_minutes
        self._opener, self._pinned = opener, pinned
        self._loaded: dict[str, Policy] = {}
        self._of_releases: dict[tuple[str, str], Policy] = {}

    def answer(self, raw: bytes | None, timed: Timed = untimed) -> Decision | None:
        """Return the decision on a window, or None if no span ends with it and no emergency asks for growth.

        ``timed`` is called for each part of the work.

        Raises:
            RecordRejected: the window does not parse, or its topology is not a graph that a policy can decide on.
        """
        from surescale.policies.decide import decide_if_due
        from surescale.policies.departure import departure, marked

        window = decode_window(raw)
        settings = in_force(self._settings_of(window.job), window.topology.labels)
        release = None if settings.policy else self._released(window.job, window.window_end_ms)
        left = ""
        if release is not None and release.expected is not None:
            left = departure(window, release.expected, release.valid_from_ms)
            release = self._former(window.job, window.window_end_ms) if left else release
        asked = release.policy if release else settings.policy or self._policy
        policy = self._of_release(release) if release else self.policy(asked)
        to = release.to if release else None
        decision = decide_if_due(window, policy, settings, seed=self._seed, asked=asked, release=to, timed=timed)
        return None if decision is None else marked(decision, left)

    def policy(self, name: str) -> "Policy":
        """Return the policy of that name; the first call loads it."""
        from surescale.policies.registry import RULES, Unavailable, load_policy

        if name not in self._loaded:
            if self._pinned and self._folder and name not in RULES:
                reason = f"{name} was not released by its hash, and SURESCALE_POLICY_PINNED=true: surescale policy release {name}"
                self._loaded[name] = Unavailable(name, reason, span_minutes=self._span_minutes)
            else:
                self._loaded[name] = load_policy(name, self._folder, span_minutes=self._span_minutes, opener=self._opener)
        return self._loaded[name]

    def _of_release(self, release: Release) -> "Policy":
        from surescale.policies.released_policy import as_released, released_policy

        key = (release.policy, release.sha256)
        if key in self._of_releases:
            return as_released(self._of_releases[key], release.to)
        policy = released_policy(*key, self._folder, span_minutes=self._span_minutes, opener=self._opener)
        if policy.sha256 == release.sha256:
            # Only a policy that was found is kept: a package that arrives late in the folder is used from the next span on.
            self._of_releases[key] = policy
        return as_released(policy, release.to)


LATE_MS = MINUTE_MS
"""A window that ended longer ago is late: a newer one is due."""
KEPT_BACK_S = 60.0
"""Longest time that decisions of a job are kept back: an agent that cannot catch up decides late, but decides."""
BYTES_MAX = 64 * 1024 * 1024
"""Of the windows behind decisions that are kept back."""


class HasDecision(Protocol):
    """A decision that is ready to be written."""

    @property
    def decision(self) -> Decision:
        """The decision."""

    @property
    def size_bytes(self) -> int:
        """What keeping it costs."""


A = TypeVar("A", bound=HasDecision)


def is_late(decision: Decision, wall_ms: int) -> bool:
    """Say whether a decision may have been overtaken, in a pipeline whose clock is the wall clock."""
    return wall_ms - decision.span_end_ms > LATE_MS


def overtaken_by_ms(kept: Decision, newer: Decision | None) -> int | None:
    """Return the end of the window, at least, with which a newer window of its job overtakes a decision; None: it does not.

    ``newer``: the decision on that window. A window on which nothing was due leaves the last decision of a span in force, and
    says that an emergency is over.
    """
    if newer is not None:
        return newer.span_end_ms if newer.span_end_ms > kept.span_end_ms else None
    return None if kept.emergency is None else kept.span_end_ms + MINUTE_MS


class LateDecisions(Generic[A]):
    """At most one decision of each job. Times are seconds of a clock that never goes back."""

    def __init__(self) -> None:
        self._kept: dict[str, A] = {}
        self._since_s: dict[str, float] = {}
        self._size_bytes = 0

    def of(self, job: str) -> A | None:
        """Return what is kept back of a job."""
        return self._kept.get(job)

    def take(self, job: str) -> A:
        """Keep a job's decision back no longer."""
        answer = self._kept.pop(job)
        self._size_bytes -= answer.size_bytes
        return answer

    def keep(self, answer: A, now_s: float) -> None:
        """Keep a decision back. One that takes the place of another is kept as long as that one would have been."""
        job = answer.decision.job
        assert job not in self._kept
        if now_s - self._since_s.setdefault(job, now_s) > 2 * KEPT_BACK_S:  # what an emergency's end overtook had no successor
            self._since_s[job] = now_s
        self._kept[job] = answer
        self._size_bytes += answer.size_bytes

    def ready(self, now_s: float, *, waits: bool) -> list[A]:
        """Return those that need not be kept back any longer, oldest first; ``waits``: more windows are known to wait."""
        found = []
        for job in list(self._kept):
            if not waits or now_s - self._since_s[job] >= KEPT_BACK_S or self._size_bytes > BYTES_MAX:
                found.append(self.take(job))
                del self._since_s[job]
        return found

    def clear(self) -> None:
        """Forget all: their windows are read again, perhaps by another agent."""
        self._kept.clear()
        self._since_s.clear()
        self._size_bytes = 0
