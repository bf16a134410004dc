"""Spark with executors as pods of their own: the settings and the pod template of the Kubernetes component, on a stub of the API.

Driver and executors are real: what Spark asks the API to run is run here as a process, by the image's own script. All that they
share is the store with the checkpoint.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import KafkaForTests
from tests.support.kubernetes_stub import KubernetesStub
from tests.support.object_store import BUCKET, object_store
from tests.support.spark_pipeline import SparkPipeline
from tests.support.waiting import PATIENT_S, wait_until
from tests.unit.spark_streaming.pipeline import graph, marker, sample, spec

pytestmark = pytest.mark.integration
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (it comes with kubernetes-validate)")

COMPOSE = Path(__file__).parents[2] / "compose"
COMPONENT = COMPOSE / "kubernetes/components/spark-executors"
IMAGE = "registry.example/surescale/spark:0.1.0"
FIRST_MINUTE = 13_500_000
START_TIMEOUT_S = 240.0


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStub]:
    """A namespace with the driver's pod in it; the image's command `executor` is on the search path."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "executor").symlink_to(COMPOSE / "spark_executor.sh")
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    with KubernetesStub(tmp_path_factory.mktemp("pods"), path) as stub:
        stub.add_driver("surescale-spark-0")
        yield stub


@pytest.fixture(scope="module")
def pipeline(
    kafka: KafkaForTests, kubernetes: KubernetesStub, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkPipeline]:
    """A pipeline whose Spark job asks that namespace for one executor, with its checkpoint in a store."""
    with object_store() as store:
        made = _started(kafka, kubernetes, tmp_path_factory, store)
        yield made
        made.close()


def _started(
    kafka: KafkaForTests, kubernetes: KubernetesStub, tmp_path_factory: pytest.TempPathFactory, store: dict[str, str]
) -> SparkPipeline:
    settings = tmp_path_factory.mktemp("settings")
    here = {
        "spark.kubernetes.executor.podTemplateFile": COMPONENT / "executor.yaml",
        "spark.kubernetes.executor.apiPollingInterval": "1s",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.instances": "1",
        "spark.executor.memory": "512m",
        # Ten seconds by default, which the first request of a JVM on a busy machine takes.
        "spark.kubernetes.driver.connectionTimeout": "120000",
        "spark.kubernetes.driver.requestTimeout": "120000",
        # What the secret has in a cluster.
        **{f"spark.executorEnv.{name}": value for name, value in store.items()},
    }
    written = (COMPONENT / "spark-defaults.conf").read_text().splitlines()
    kept = [line for line in written if line.split(" ")[0] not in here]
    (settings / "spark-defaults.conf").write_text("\n".join([*kept, *(f"{name} {value}" for name, value in here.items())]))
    made = SparkPipeline(kafka, tmp_path_factory.mktemp("spark"))
    made.start(
        SURESCALE_SPARK_MASTER=f"k8s://{kubernetes.url}",
        SURESCALE_SPARK_CHECKPOINT=f"s3://{BUCKET}/executors",
        SPARK_CONF_DIR=str(settings),
        SPARK_EXECUTOR_IMAGE=IMAGE,
    )
    return made


def rules() -> set[tuple[str, str]]:
    """Return verb and resource of everything that the driver's role allows."""
    role = next(found for found in yaml.safe_load_all((COMPONENT / "access.yaml").read_text()) if found["kind"] == "Role")
    return {(verb, resource) for rule in role["rules"] for verb in rule["verbs"] for resource in rule["resources"]}


def test_an_executor_in_a_pod_makes_the_windows(pipeline: SparkPipeline, kubernetes: KubernetesStub) -> None:
    """The windows are those computed from the topic, and an executor of the API's has done the work."""
    topology = graph(spec("map"), job="sim/a")
    for minute in (1, 2, 3):
        end_ms = (FIRST_MINUTE + minute) * 60_000
        pipeline.send(sample(end_ms, 100 * minute, job="sim/a", task="map"), marker(FIRST_MINUTE + minute, topology))
    wait_until(lambda: pipeline.has_windows(3), START_TIMEOUT_S, "the windows")
    assert pipeline.windows() == {identity: [value] for identity, value in pipeline.expected().items()}
    assert len(kubernetes.executors()) == 1


def test_an_executors_pod_meets_restricted_pod_security(pipeline: SparkPipeline, kubernetes: KubernetesStub) -> None:
    """What Spark writes into the template takes nothing away from it; image, account and labels are ours."""
    (pod,) = kubernetes.executors()
    meta, about = pod["metadata"], pod["spec"]
    (container,) = about["containers"]
    confined: dict[str, Any] = container["securityContext"]
    assert (container["image"], about["serviceAccountName"]) == (IMAGE, "surescale-spark-executor")
    assert meta["labels"]["app.kubernetes.io/name"] == "surescale-spark-executor"
    assert meta["ownerReferences"][0]["name"] == "surescale-spark-0"
    assert (about["automountServiceAccountToken"], about["securityContext"]["runAsNonRoot"]) == (False, True)
    assert about["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (confined["allowPrivilegeEscalation"], confined["readOnlyRootFilesystem"]) == (False, True)
    assert confined["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"]["memory"]


def test_a_lost_executor_is_replaced_and_the_job_goes_on(pipeline: SparkPipeline, kubernetes: KubernetesStub) -> None:
    """From the state in the store: the window holds minutes that the lost one merged.

    What the lost one had published, but not saved, comes again as the same bytes.
    """
    (before,) = kubernetes.executors()
    kubernetes.kill(before)
    name = before["metadata"]["name"]
    wait_until(lambda: [pod["metadata"]["name"] != name for pod in kubernetes.executors()] == [True], 60, "another executor")
    pipeline.send(marker(FIRST_MINUTE + 4, graph(spec("map"), job="sim/a")))
    wait_until(lambda: pipeline.has_windows(4), 120, "the next window")
    assert {identity: set(values) for identity, values in pipeline.windows().items()} == {
        identity: {value} for identity, value in pipeline.expected().items()
    }
    assert not pipeline.checkpoint.exists()


def test_the_driver_asks_for_nothing_that_its_role_does_not_allow(pipeline: SparkPipeline, kubernetes: KubernetesStub) -> None:
    """From the start to an orderly end, after which no executor is left."""
    pipeline.process.terminate()
    assert pipeline.process.wait(PATIENT_S) == 0, pipeline.log()
    assert kubernetes.executors() == []
    assert set(kubernetes.asked) <= rules()
