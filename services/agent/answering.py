"""From the bytes of a window to a decision. Knows no Kafka: settings come from a function."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from contracts.ids import cluster_of
from contracts.messages import Decision, JobSettings, PolicyRelease
from contracts.windows import decode_window

if TYPE_CHECKING:
    from policies.policy import Policy

Released = Callable[[str, int], PolicyRelease | None]  # the release in force, by cluster and event time


def _nothing_released(_cluster: str, _at_ms: int) -> PolicyRelease | None:
    return None


class Answerer:
    """Asks a policy whenever one of its spans ends: the one that the job's settings name, else the one released, else the road's.

    Policies are loaded once; one that cannot be loaded answers with its reason, and the rule takes over. A release names a hash:
    a package that has another one is not used either.
    """

    def __init__(
        self,
        settings_of: Callable[[str], JobSettings],
        *,
        policy: str,
        folder: str,
        seed: int,
        released: Released = _nothing_released,
    ) -> None:
        self._settings_of, self._released = settings_of, released
        self._policy, self._folder, self._seed = policy, folder, seed
        self._loaded: dict[str, Policy] = {}
        self._of_releases: dict[tuple[str, str], Policy] = {}

    def answer(self, raw: bytes | None) -> Decision | None:
        """Return the decision on a window, or None where no span ends.

        Raises:
            RecordRejected: the window does not parse, or its topology is no graph that can be decided on.
        """
        from policies.decide import decide
        from policies.policy import is_span_end

        window = decode_window(raw)
        settings = self._settings_of(window.job)
        asked, policy = self._choose(settings, window.job, window.window_end_ms)
        if not is_span_end(window.window_end_ms, policy.span_minutes):
            return None
        return decide(window, policy, settings, seed=self._seed, asked=asked)

    def policy(self, name: str) -> "Policy":
        """Return the policy of that name, loading it the first time."""
        from policies.registry import load_policy

        if name not in self._loaded:
            self._loaded[name] = load_policy(name, self._folder)
        return self._loaded[name]

    def _choose(self, settings: JobSettings, job: str, at_ms: int) -> "tuple[str, Policy]":
        """Return what is asked for and the policy that answers to it."""
        release = None if settings.policy else self._released(cluster_of(job), at_ms)
        if release is not None:
            return release.policy, self._of_release(release)
        asked = settings.policy or self._policy
        return asked, self.policy(asked)

    def _of_release(self, release: PolicyRelease) -> "Policy":
        from services.policy_releases.folder import released_policy

        key = (release.policy, release.sha256)
        if key in self._of_releases:
            return self._of_releases[key]
        policy = released_policy(*key, self._folder)
        if policy.sha256 == release.sha256:
            # Only what was found is kept: a package that arrives late in the folder is used from the next span on.
            self._of_releases[key] = policy
        return policy
