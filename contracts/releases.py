"""Which policies serve a job at an event time, and which run in shadow: the releases of the topic, in scopes. Pure.

A release is for one job, for a share of a cluster's jobs (a canary), or for the whole cluster. The most specific one in force
serves the job.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Literal

from msgspec import Meta

from surescale.contracts.ids import cluster_of
from surescale.contracts.messages import (
    Count,
    Label,
    Message,
    Part,
    PlainName,
    ReleaseTarget,
    Sentence,
    Sha256,
    Text,
    TimeMs,
    Tuning,
)
from surescale.contracts.own_acts import check_policy_name

Finite = Annotated[float, Meta(ge=-1e9, le=1e9)]
Positive = Annotated[float, Meta(ge=0.0, le=1e9)]


class Expectation(Part, frozen=True, kw_only=True):
    """What the twin predicted of the job under the winner, already widened by the twin's error (``policies.departure``).

    Work is busy subtask-milliseconds per record that comes to the job; waiting is minutes a record waits, by Little's law.
    """

    work_least: Positive
    work_most: Positive
    waiting_most: Positive


class TournamentResult(Part, frozen=True, kw_only=True):
    """Why a tournament released a policy to a job; rewards are means over the hours played."""

    from_ms: TimeMs
    until_ms: TimeMs
    policies: Count
    draws: Count
    reward: Finite
    against: Text  # what served the job before
    against_reward: Finite
    difference: Finite
    difference_low: Finite  # lower end of the 95 % interval
    twin_error: Positive  # of that difference
    why: Sentence


Role = Literal["serve", "shadow"]
Scope = Literal["job", "canary", "cluster"]
SCOPES: tuple[Scope, ...] = ("job", "canary", "cluster")
"""From the most specific to the widest."""
SHADOWS_MAX = 3
"""Policies that look on at one job. Of more, the first by scope, name and hash do."""


class Release(Message, frozen=True, kw_only=True, tag="policy-release/1"):
    """A policy for some of a cluster's jobs, a shadow policy, or the end of either, from an event minute on.

    With ``job`` it is for that job, with ``share_permille`` for that share of the cluster's jobs (`is_in_share`), with neither
    for all of them.
    """

    cluster: PlainName
    policy: PlainName
    sha256: Sha256
    valid_from_ms: TimeMs
    role: Role = "serve"
    job: Text | None = None
    share_permille: Annotated[int, Meta(ge=1, le=999)] | None = None
    withdrawn: bool = False  # from then on this scope has no release of its own, or not this shadow
    set_by: Label = ""
    set_at_ms: TimeMs | None = None  # wall time at which it was written
    note: Sentence | None = None  # for people: what the choice rests on, such as a shadow's record
    tuned: Tuning | None = None  # null: the policy as it ships
    expected: Expectation | None = None  # while this does not hold, the job is served as without this release
    tournament: TournamentResult | None = None  # set if a tournament chose it, and not a person

    def __post_init__(self) -> None:
        """Check what the types do not say.

        Raises:
            ValueError: the scope contradicts itself, or the policy has a name that none can have.
        """
        check_policy_name(self.policy)
        if self.job is not None and self.share_permille is not None:
            raise ValueError("job and share_permille: a release is for one job or for a share of them, not for both")
        if self.job is not None and self.job.partition("/")[0] != self.cluster:
            raise ValueError("job: it belongs to another cluster")

    @property
    def scope(self) -> Scope:
        """Return what part of the cluster's jobs it is for."""
        return "job" if self.job is not None else "cluster" if self.share_permille is None else "canary"

    @property
    def slot(self) -> "Slot":
        """Return what it takes the place of: the later release of a slot replaces the earlier one."""
        if self.role == "serve":
            return Slot(self.cluster, self.role, self.scope, self.job or "")
        return Slot(self.cluster, self.role, self.scope, self.job or "", self.policy, self.sha256)

    @property
    def to(self) -> ReleaseTarget:
        """Return the scope as decisions name it."""
        return ReleaseTarget(
            scope=self.scope, share_permille=self.share_permille, valid_from_ms=self.valid_from_ms, tuned=self.tuned
        )

    @property
    def is_of_tournament(self) -> bool:
        """Return whether a tournament made this choice, and no person has since."""
        return self.tournament is not None

    def is_for(self, job: str) -> bool:
        """Return whether a job is in its scope."""
        if cluster_of(job) != self.cluster:
            return False
        if self.share_permille is not None:
            return is_in_share(job, self.share_permille, salt=f"{self.policy}/{self.sha256}")
        return self.job in (None, job)


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """A place that holds one release at a time; of shadows there may be several in a scope, so they have one each."""

    cluster: str
    role: Role
    scope: Scope
    job: str = ""
    policy: str = ""
    sha256: str = ""


def is_in_share(job: str, share_permille: int, *, salt: str) -> bool:
    """Return whether a job is among that share of all jobs. A larger share with the same salt keeps the jobs of a smaller one.

    >>> [is_in_share("sim/clicks", share, salt="sure/") for share in (0, 500, 1000)]
    [False, False, True]
    """
    drawn = int.from_bytes(blake2b(f"{salt}\0{job}".encode(), digest_size=8).digest())
    return drawn * 1000 < share_permille << 64


class Releases:
    """All releases, by slot and the minute each takes effect. If two share both, the later record wins."""

    def __init__(self, releases: Iterable[Release] = ()) -> None:
        """``releases`` come in the order of the topic."""
        self._starts: dict[Slot, list[int]] = {}
        self._by_start: dict[Slot, dict[int, Release]] = {}
        self._of_cluster: dict[str, list[Slot]] = {}
        for release in releases:
            self.add(release)

    def add(self, release: Release) -> None:
        """Take note of one more release."""
        slot, start = release.slot, release.valid_from_ms
        if slot not in self._by_start:
            self._by_start[slot], self._starts[slot] = {}, []
            insort(self._of_cluster.setdefault(slot.cluster, []), slot)
        if start not in self._by_start[slot]:
            insort(self._starts[slot], start)
        self._by_start[slot][start] = release

    def slots(self, cluster: str) -> tuple[Slot, ...]:
        """Return the slots of a cluster that ever held a release, sorted."""
        return tuple(self._of_cluster.get(cluster, ()))

    def timeline(self, slot: Slot) -> tuple[Release, ...]:
        """Return the releases of a slot by the minute each takes effect."""
        return tuple(self._by_start[slot][start] for start in self._starts.get(slot, ()))

    def in_force(self, slot: Slot, at_ms: int) -> Release | None:
        """Return the release of a slot at an event time; None before the first, and after one that was withdrawn."""
        starts = self._starts.get(slot, [])
        index = bisect_right(starts, at_ms)
        release = self._by_start[slot][starts[index - 1]] if index else None
        return None if release is None or release.withdrawn else release

    def serving(self, job: str, at_ms: int, *, has_tournaments: bool = True) -> Release | None:
        """Return the most specific release that serves a job at an event time, if any.

        A wider release that a person made later replaces a tournament's. Without ``has_tournaments`` it is what would
        serve the job if no tournament had ever been held.
        """
        cluster = cluster_of(job)
        slots = (Slot(cluster, "serve", scope, job if scope == "job" else "") for scope in SCOPES)
        found = [each for slot in slots if (each := self.in_force(slot, at_ms)) is not None and each.is_for(job)]
        if not has_tournaments:
            found = [each for each in found if not each.is_of_tournament]
        if found and found[0].is_of_tournament and any(each.valid_from_ms > found[0].valid_from_ms for each in found[1:]):
            return found[1]  # a person has chosen since
        return found[0] if found else None

    def newest(self, slot: Slot) -> Release | None:
        """Return the release of a slot that takes effect last, also one that is still to come or is withdrawn."""
        timeline = self.timeline(slot)
        return timeline[-1] if timeline else None

    def shadows(self, job: str, at_ms: int) -> tuple[Release, ...]:
        """Return the policies that look on at a job at an event time, each version once, the most specific release of it."""
        found: dict[tuple[str, str], Release] = {}
        for release in self._shadows_in_force(cluster_of(job), at_ms):
            if release.is_for(job):
                found.setdefault((release.policy, release.sha256), release)
        return tuple(found.values())[:SHADOWS_MAX]

    def _shadows_in_force(self, cluster: str, at_ms: int) -> Iterator[Release]:
        slots = (slot for slot in self._of_cluster.get(cluster, ()) if slot.role == "shadow")
        for slot in sorted(slots, key=lambda slot: (SCOPES.index(slot.scope), slot)):
            if (release := self.in_force(slot, at_ms)) is not None:
                yield release


def why_released(to: ReleaseTarget, policy: str) -> str:
    """Return why a release serves a job, for people.

    >>> why_released(ReleaseTarget(scope="canary", share_permille=125, valid_from_ms=0), "sure")
    'this job is in the 12.5 % canary of sure'
    """
    if to.scope == "job":
        return "released for this job" if to.tuned is None else f"released for this job with {in_words(to.tuned)}"
    if to.scope == "cluster":
        return "released for the cluster"
    return f"this job is in the {percent(to.share_permille or 0)} canary of {policy}"


def in_words(tuned: Tuning) -> str:
    """Return the constants of a release, for people.

    >>> in_words(Tuning(constants={"utilisation": 0.7, "estimate": "p90"}))
    'utilisation 0.7, estimate p90'
    >>> in_words(Tuning(sizes={"map": 4, "sink": 2}))
    '6 subtasks for 2 tasks'
    """
    words = [f"{name} {value if isinstance(value, str) else format(value, '.4g')}" for name, value in tuned.constants.items()]
    if tuned.sizes:
        words.append(f"{sum(tuned.sizes.values())} subtasks for {len(tuned.sizes)} tasks")
    return ", ".join(words) or "nothing of its own"


def percent(share_permille: int) -> str:
    """Return a share for people.

    >>> percent(100), percent(125)
    ('10 %', '12.5 %')
    """
    return f"{share_permille / 10:g} %"
