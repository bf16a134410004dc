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


class WholeFiles(LoadScopeScheduling):
    """Gives a process whole files, because fixtures that start programs live as long as a file or a process."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::", 1)[0]
        if path.startswith(_LIVE_FLINK):
            return "live Flink"
        return "pipelines of containers" if path in _ONE_AT_A_TIME else path
