"""Shares the test files out among several pytest processes (`pytest -n 2`, pytest-xdist)."""

from typing import Final

from xdist.scheduler import LoadScopeScheduling

# Each of these starts a pipeline of containers and would be measured against the other's load.
_ONE_AT_A_TIME: Final = frozenset(
    {
        "tests/integration/test_compose_pipeline.py",
        "tests/integration/test_containers_pipeline.py",
        "tests/integration/test_secure_compose_pipeline.py",
    }
)
# These share one cluster.
_LIVE_FLINK: Final = "tests/integration/test_flink_"
_LONGEST_FIRST: Final = (
    "tests/integration/test_compose_pipeline.py",  # and those after it that are run one at a time
    "tests/integration/test_containers_pipeline.py",
    "tests/integration/test_secure_compose_pipeline.py",
    _LIVE_FLINK,
    "tests/integration/test_spark_attempts.py",
    "tests/integration/test_hung_roles.py",
    "tests/faults/test_faults.py",
    "tests/e2e/",
    "tests/integration/test_rescaler_",
    "tests/integration/test_init.py",
    "tests/unit/services/tools/tournament/test_command.py",
    "tests/unit/services/tools/what_if/test_command.py",
    "tests/unit/simulation/evaluation/test_judge.py",
    "tests/unit/spark_streaming/test_places.py",
    "tests/unit/services/tools/evaluate/",
)
NAMED: Final = _ONE_AT_A_TIME.union(_LONGEST_FIRST)
"""Each a file, or how the paths of some files begin."""


def turn(nodeid: str) -> int:
    """Return when a test's file has its turn: a long one that began last would run alone, beside processes that are done."""
    return next((turn for turn, path in enumerate(_LONGEST_FIRST) if nodeid.startswith(path)), len(_LONGEST_FIRST))


class WholeFiles(LoadScopeScheduling):
    """Gives a process whole files, because fixtures that start programs live as long as a file or a process."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::", 1)[0]
        if path.startswith(_LIVE_FLINK):
            return "live Flink"
        return "pipelines of containers" if path in _ONE_AT_A_TIME else path
