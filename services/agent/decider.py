"""Turns the bytes of a window into a decision. Knows no Kafka: settings come from a function."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import UNSET

from contracts.decisions import Decision
from contracts.job_labels import in_force
from contracts.job_settings import JobSettings
from contracts.releases import ScopedRelease
from contracts.settings import SPAN_MINUTES
from contracts.steps import Timed, untimed
from contracts.windows import decode_window

if TYPE_CHECKING:
    from policies.onnx_sessions import Opener
    from policies.policy import Policy

Released = Callable[[str, int], ScopedRelease | None]  # the release that serves a job, by job and event time


def _nothing_released(_job: str, _at_ms: int) -> ScopedRelease | None:
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
        from policies.decide import decide_if_due
        from policies.departure import departure, marked

        window = decode_window(raw)
        settings = in_force(self._settings_of(window.job), window.topology.labels)
        release = None if settings.policy else self._released(window.job, window.window_end_ms)
        left = ""
        if release is not None and release.expected is not UNSET:
            left = departure(window, release.expected, release.valid_from_ms)
            release = self._former(window.job, window.window_end_ms) if left else release
        asked = release.policy if release else settings.policy or self._policy
        policy = self._of_release(release) if release else self.policy(asked)
        to = release.to if release else UNSET
        decision = decide_if_due(window, policy, settings, seed=self._seed, asked=asked, release=to, timed=timed)
        return None if decision is None else marked(decision, left)

    def policy(self, name: str) -> "Policy":
        """Return the policy of that name; the first call loads it."""
        from policies.registry import RULES, Unavailable, load_policy

        if name not in self._loaded:
            if self._pinned and self._folder and name not in RULES:
                reason = f"{name} was not released by its hash, and SURESCALE_POLICY_PINNED=true: surescale policy release {name}"
                self._loaded[name] = Unavailable(name, reason, span_minutes=self._span_minutes)
            else:
                self._loaded[name] = load_policy(name, self._folder, span_minutes=self._span_minutes, opener=self._opener)
        return self._loaded[name]

    def _of_release(self, release: ScopedRelease) -> "Policy":
        from policies.released_policy import as_released, released_policy

        key = (release.policy, release.sha256)
        if key in self._of_releases:
            return as_released(self._of_releases[key], release.to)
        policy = released_policy(*key, self._folder, span_minutes=self._span_minutes, opener=self._opener)
        if policy.sha256 == release.sha256:
            # Only a policy that was found is kept: a package that arrives late in the folder is used from the next span on.
            self._of_releases[key] = policy
        return as_released(policy, release.to)
