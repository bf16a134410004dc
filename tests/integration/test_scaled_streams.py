"""A real state service with Kafka and Redis sets jobs as ScaledStreams of a fake API server say, within the shipped rights."""

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import Popen

import pytest
import yaml

from surescale.contracts.settings import PipelineSettings
from surescale.runtime.kafka import create_topics
from surescale.runtime.ports import free_port
from surescale.services.state.connection import connect
from surescale.services.state.read.queries import Queries
from surescale.services.state.scaled_streams.controller import StreamController, name_of_pipeline
from surescale.services.state.settings import StateSettings
from tests.conftest import KafkaForTests
from tests.support import view_pipeline
from tests.support.command_line import started
from tests.support.fake_api_server import FakeApiServer, rules_of
from tests.support.fake_objects import FakeObject
from tests.support.streams_rig import Document, condition, in_force, resource, tells
from tests.support.view_pipeline import a_pipeline, get, send
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
settings, processes, service = view_pipeline.settings, view_pipeline.processes, view_pipeline.service
ACCESS = Path(__file__).parents[2] / "compose/kubernetes/scaling/scaled-streams/access.yaml"
LOG = logging.getLogger("test")
FOLDER = "/apis/surescale.dev/v1alpha1/namespaces/shop/scaledstreams"


@pytest.fixture
def cluster() -> Iterator[FakeApiServer]:
    """An API server that knows ScaledStreams, on which the account may do what the shipped role allows."""
    (role,) = (each for each in yaml.safe_load_all(ACCESS.read_text()) if each["kind"] == "Role")
    return FakeApiServer(rules=rules_of(role), definitions=frozenset({"surescale.dev/v1alpha1"}), asks_token=False)


def put(cluster: FakeApiServer, name: str, **spec: object) -> Callable[[], Document]:
    """Create a resource, and return how to read it."""
    document = resource(name, "shop", **spec)
    document["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{len(cluster.objects):02}Z"
    cluster.objects[f"{FOLDER}/{name}"] = FakeObject(f"{FOLDER}/{name}", document)
    return lambda: cluster.objects[f"{FOLDER}/{name}"].document


def test_a_resource_sets_its_job_shows_it_and_lets_it_go(
    cluster: FakeApiServer,
    settings: PipelineSettings,
    service: Callable[..., str],
    processes: "list[Popen[bytes]]",
) -> None:
    """It is corrected, refused, taken over by another one, and gone; a service that starts again tells nothing twice."""
    send(settings, *a_pipeline())
    with cluster.serving() as server:
        given = {
            "SURESCALE_STREAM_NAMESPACES": "shop",
            "SURESCALE_KUBERNETES_URL": server.url,
        }
        read = put(cluster, "clicks", mode="act", max=3)
        url = service(**given)
        assert tells(read, "True", "Set")["status"]["observedGeneration"] == 1
        found = in_force(settings)
        assert (found.mode, found.parallelism_max, found.set_by) == ("act", 3, "scaledstreams/shop/clicks")

        wait_until(lambda: "subtasks" in read()["status"], what="the figures of the job")
        shown = read()["status"]
        assert (shown["subtasks"], shown["wanted"], shown["decision"]["answer"]) == (2, 3, "acted")
        assert condition(read(), "Measured")["status"] in ("True", "False", "Unknown")
        wait_until(lambda: len(cluster.events) >= 6, what="an event for each act and each rescale")
        assert {each["reason"] for each in cluster.events} == {"Rescaling", "Rescaled"}
        told = list(cluster.events)

        path = f"{FOLDER}/clicks"
        cluster.objects[path].merge({"spec": {"exclude": ["someday"]}}, "kubectl-edit")
        refused = condition(tells(read, "False", "Refused"))
        assert "exclude" in refused["message"]
        assert in_force(settings) == found
        cluster.objects[path].merge({"spec": {"exclude": None, "policy": "shure"}}, "kubectl-edit")
        wait_until(lambda: "spec.policy" in condition(read())["message"], what="the refusal of a policy that is not there")
        refused = condition(tells(read, "False", "Refused"))
        assert "there is no policy 'shure'" in refused["message"]
        assert "target-utilisation" in refused["message"]
        assert in_force(settings) == found
        cluster.objects[path].merge({"spec": {"policy": "hold", "max": 4}}, "kubectl-edit")
        tells(read, "True", "Set")
        wait_until(lambda: in_force(settings).parallelism_max == 4, what="the new maximum")

        second = put(cluster, "second", max=5)
        tells(second, "False", "OtherResource")
        processes.pop().terminate()
        url = service(**given)
        wait_until(lambda: get(f"{url}/health")[1] is not None, what="the state service")
        del cluster.objects[path]
        tells(second, "True", "Set")
        wait_until(lambda: in_force(settings).parallelism_max == 5, what="the second resource's maximum")
        names = [each["metadata"]["name"] for each in cluster.events if each["involvedObject"]["name"] == "clicks"]
        assert len(names) == len(set(names)) == len(told)
        del cluster.objects[f"{FOLDER}/second"]
        wait_until(lambda: in_force(settings).applied_from == "", what="the job to be let go")
        assert in_force(settings).parallelism_max is None
    assert cluster.rules is not None
    assert cluster.rules == cluster.used


def test_a_resource_that_two_pipelines_follow_says_so_and_which(
    cluster: FakeApiServer,
    settings: PipelineSettings,
    kafka: KafkaForTests,
    service: Callable[..., str],
    processes: "list[Popen[bytes]]",
    tmp_path: Path,
) -> None:
    """Where people look, with the fix; and it is no race of two writers. Two services of one pipeline are no other."""
    second = replace(settings, topic_prefix=kafka.topic_prefix(), health_port=free_port())
    create_topics(second)
    send(settings, *a_pipeline())
    with cluster.serving() as server:
        given = {"SURESCALE_STREAM_NAMESPACES": "shop", "SURESCALE_KUBERNETES_URL": server.url}
        read = put(cluster, "clicks", max=3)
        mine, other = (name_of_pipeline(each) for each in (settings, second))
        assert mine != other
        service(**given)
        tells(read, "True", "Set")
        service(**given, SURESCALE_HEALTH_PORT=str(free_port()))
        wait_until(lambda: "subtasks" in read()["status"], what="the figures of the job")
        assert read()["status"]["pipeline"] == mine
        own = {"SURESCALE_HTTP_PORT": str(free_port()), **given}
        processes.append(started(second, tmp_path / "second.log", "run", "state-service", **own))
        said = set[str]()

        def both_say_it() -> bool:
            shown = read()["status"]
            if condition(read())["reason"] == "OtherPipeline":
                said.add(f"{shown['pipeline']}: {condition(read())['message']}")
            return len(said) == 2

        wait_until(both_say_it, 120.0, what="each of the two to name the other")
        fix = "sets it too; name namespace shop in SURESCALE_STREAM_NAMESPACES of one pipeline only"
        assert said == {f"{one}: the pipeline {two} {fix}" for one, two in ((mine, other), (other, mine))}


def test_one_pipeline_by_whatever_brokers_is_one_and_what_left_is_forgotten(
    cluster: FakeApiServer, settings: PipelineSettings, redis_url: str
) -> None:
    """As while an update changes the list of brokers replica by replica; and as after months of resources that come and go."""
    send(settings, *a_pipeline())
    given = {"stream_namespaces": "shop", "topic_prefix": settings.topic_prefix, "redis_url": redis_url}
    queries = Queries(connect(redis_url), settings.topic_prefix)
    lists = (settings.bootstrap, f"{settings.bootstrap},{settings.bootstrap.replace('localhost', '127.0.0.1')},127.0.0.1:1")
    with cluster.serving() as server:
        made = [
            StreamController(StateSettings(bootstrap=each, kubernetes_url=server.url, **given), queries, threading.Event(), LOG)
            for each in lists
        ]
        read = put(cluster, "clicks", max=3)
        for _ in range(2):
            for each in made:
                each.turn()
                assert condition(read())["reason"] == "Set"
        uid = read()["metadata"]["uid"]
        assert all(uid in repr(vars(each)) for each in made)
        del cluster.objects[f"{FOLDER}/clicks"]
        for each in made:
            each.turn()
            assert uid not in repr(vars(each))


def test_without_rights_nothing_is_set_or_let_go_and_the_service_goes_on(
    cluster: FakeApiServer, settings: PipelineSettings, service: Callable[..., str], tmp_path: Path
) -> None:
    """The log names the right."""
    send(settings, *a_pipeline())
    cluster.rules = frozenset()
    with cluster.serving() as server:
        put(cluster, "clicks", max=3)
        url = service(
            SURESCALE_STREAM_NAMESPACES="shop",
            SURESCALE_KUBERNETES_URL=server.url,
        )
        log = tmp_path / "state.log"
        wait_until(lambda: "cannot list resource" in log.read_text(), what="the log to name the right")
        wait_until(lambda: get(f"{url}/health")[0] == 200, what="the service to be ready")
    assert in_force(settings).version == 1
