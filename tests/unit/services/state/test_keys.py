"""The keys of a pipeline's view."""

import pytest

from surescale.services.state import keys
from surescale.services.state.keys import Keys


@pytest.mark.parametrize(
    "name",
    [keys.JOBS, keys.POSITIONS, keys.KEPT, keys.job("sim/clicks"), keys.cluster("sim"), keys.groups("dead-letters", "0")]
    + [part(name, "sim/clicks") for name in keys.TIMELINES for part in (keys.timeline, keys.bodies)],
)
def test_every_key_of_a_view_is_its_own(name: str) -> None:
    """Otherwise a flush would leave it behind."""
    key = Keys("a-")
    assert key(name) == f"surescale:a-{name}"
    assert key.is_own(key(name))


@pytest.mark.parametrize("name", ["", "jobs2", "windows", "windows:", "windows.other:sim/clicks", "a-jobs", "somebody:else"])
def test_other_keys_under_the_prefix_are_not(name: str) -> None:
    """Another pipeline's prefix may begin with this one's, and other programs may use Redis too."""
    key = Keys("")
    assert not key.is_own(key(name))


def test_a_prefix_with_wildcards_is_matched_literally() -> None:
    """Redis would take them for patterns."""
    assert Keys("a*[b]?").pattern(keys.bodies("windows", "*")) == r"surescale:a\*\[b\]\?windows.bodies:*"
