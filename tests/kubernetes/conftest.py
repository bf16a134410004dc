"""One control plane for all tests of this folder, and a namespace for each."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.live_cluster import BINARIES, LiveCluster
from tests.support.one_skip import one_speaks

_FOLDER = "SURESCALE_TEST_KUBERNETES"
ACCESS = Path(__file__).parents[2] / "compose/kubernetes/scaling/access.yaml"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a control plane, or KEDA's client, the first test says so for all that ask for it."""
    here = Path(__file__).parent
    for fixture, is_missing in (("cluster", bool(_missing())), ("keda_client", not _keda_client().is_file())):

        def asks(item: pytest.Item, fixture: str = fixture) -> bool:
            return item.path.parent == here and fixture in getattr(item, "fixturenames", ())

        if is_missing and _FOLDER not in os.environ:
            one_speaks(config, items, asks)


def _binaries() -> Path:
    return Path(os.environ.get(_FOLDER, "build/kubernetes")).absolute()


def _missing() -> list[str]:
    return [name for name in BINARIES if not (_binaries() / name).is_file()]


def _keda_client() -> Path:
    return _binaries() / "keda"


@pytest.fixture(scope="session")
def keda_client() -> Path:
    """KEDA's own client of external scalers, in Go."""
    found = _keda_client()
    if not found.is_file():
        if _FOLDER in os.environ:
            pytest.fail(f"{_FOLDER}: {found.parent} has no {found.name}")
        pytest.skip("KEDA's client is not built: `make kubernetes-test` builds it")
    return found


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """With the accounts of monitor and rescaler, which may do nothing yet."""
    folder, missing = _binaries(), _missing()
    if missing:
        if _FOLDER in os.environ:
            pytest.fail(f"{_FOLDER}: {folder} has no {', '.join(missing)}")
        pytest.skip("this test and all others of a real Kubernetes need one: `make kubernetes-test` builds it")
    with LiveCluster(tmp_path_factory.mktemp("kubernetes"), folder) as cluster:
        cluster.namespace("surescale")
        for account in ("surescale-monitor", "surescale-rescaler"):
            cluster.kubectl("create", "serviceaccount", account, "--namespace=surescale")
        yield cluster


@pytest.fixture
def namespace(cluster: LiveCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """One of the test's own, in which the shipped roles hold."""
    name = f"shop-{abs(hash(request.node.nodeid)) % 10**8}"
    cluster.namespace(name)
    cluster.kubectl("apply", f"--namespace={name}", f"--filename={ACCESS}")
    yield name
    cluster.node.ill.clear()
    cluster.node.well.clear()
    cluster.node.is_draining_slowly = False
    cluster.kubectl("delete", "namespace", name, "--wait=false")
