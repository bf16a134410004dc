"""What `surescale up` says before it starts a role."""

from pathlib import Path

import pytest

from surescale.engines.groups import GroupsSettings
from surescale.engines.settings import ClusterSettings
from surescale.services.local_stack.before_roles import warn_of_modes

GROUPS = """
[orders]
mode = "{mode}"
[orders.groups.orders-group]
reads = ["orders"]
"""
JOBS = """
[jobs."kafka/payments"]
mode = "{mode}"
"""


@pytest.mark.parametrize(
    ("actuator", "mode", "is_said"),
    [("", "act", True), ("none", "act", True), ("processes", "act", False), ("", "advise", False), ("", "observe", False)],
)
def test_a_mode_that_nothing_can_carry_out_is_said_first(tmp_path: Path, actuator: str, mode: str, *, is_said: bool) -> None:
    """Of the groups file and of the pipeline's own jobs, each with its place and the variable."""
    groups, jobs = tmp_path / "groups.toml", tmp_path / "surescale.toml"
    groups.write_text(GROUPS.format(mode=mode))
    jobs.write_text(JOBS.format(mode=mode))
    settings = ClusterSettings(engine="kafka", actuator=actuator, parts=(GroupsSettings(groups_file=str(groups)),))
    lines = list[str]()
    warn_of_modes(settings, jobs, lines.append)
    words = "nothing can act on it, so act is no more than advise: set SURESCALE_ACTUATOR of monitor and rescaler"
    places = ("SURESCALE_GROUPS_FILE: orders", f'{jobs}: [jobs."kafka/payments"]')
    assert lines == [f"{place}: {words}" for place in places if is_said]
    warn_of_modes(settings, None, lines.append)
    assert len(lines) == (3 if is_said else 0)
