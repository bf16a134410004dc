"""Two real pipelines next to one cluster, on one Kafka and one Redis, and a state service that shows both."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import msgspec
import pytest

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClusterTopology, Host, JobTopology
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLUSTER_TOPOLOGY, DECISIONS, JOB_SETTINGS, JOB_TOPOLOGY
from surescale.runtime.kafka import create_topics
from surescale.runtime.ports import free_port
from surescale.runtime.topic_records import parsed, read_topics
from surescale.services.state import metrics
from surescale.services.state.connection import connect
from surescale.services.state.read.together import Together
from tests.conftest import KafkaForTests
from tests.support import view_pipeline
from tests.support.builders import JOB, topology
from tests.support.command_line import started
from tests.support.metrics import scraped
from tests.support.operations import ANA, post
from tests.support.view_pipeline import decision, get, send
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
settings, processes = view_pipeline.settings, view_pipeline.processes
surescale = view_pipeline.surescale
OTHER = "sim/views"


def running(job: str, appended: int = 1) -> JobTopology:
    """Return a job that runs."""
    return msgspec.structs.replace(topology(appended), job=job)


@pytest.fixture
def second(settings: PipelineSettings, kafka: KafkaForTests) -> PipelineSettings:
    """Another pipeline next to the first one."""
    made = replace(settings, topic_prefix=kafka.topic_prefix(), health_port=free_port())
    create_topics(made)
    return made


@pytest.fixture
def urls(settings: PipelineSettings, second: PipelineSettings, tmp_path: Path, processes: list["Popen[bytes]"]) -> list[str]:
    """Addresses of the state services of both; the first one shows both. Each pipeline has a job, on the same hosts."""
    hosts = ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=(Host(host="h", units=(1, 2), price_per_s=0.25),))
    for pipeline, job in ((settings, JOB), (second, OTHER)):
        send(pipeline, (JOB_TOPOLOGY, job, running(job)), (CLUSTER_TOPOLOGY, "sim", hosts))
        send(pipeline, (DECISIONS, "sim", decision(1, job=job)))
    (tmp_path / "operate").write_text(f"ana {ANA}\n")
    found = []
    for pipeline, others in ((settings, second.topic_prefix), (second, "")):
        port = str(free_port())
        own = {"SURESCALE_HTTP_PORT": port, "SURESCALE_HTTP_OTHER_PREFIXES": others}
        own["SURESCALE_HTTP_OPERATE_TOKEN_FILE"] = str(tmp_path / "operate")
        processes.append(started(pipeline, tmp_path / f"state-{port}.log", "run", "state-service", **own))
        found.append(f"http://127.0.0.1:{port}")
    for url in found:
        wait_until(lambda url=url: get(f"{url}/health")[0] == 200, 60, "the service")  # type: ignore[misc]
    return found


def jobs_at(url: str) -> list[str]:
    """Return the jobs that an API lists."""
    return [each["job"] for each in answer(url, "/jobs")]


def answer(url: str, path: str) -> Any:
    """Return a document of an API."""
    status, document = get(f"{url}{path}")
    assert status == 200, document
    return document


def test_one_page_shows_the_jobs_of_both(
    urls: list[str],
    settings: PipelineSettings,
    second: PipelineSettings,
    surescale: Callable[..., tuple[int, str, str]],
) -> None:
    """With all that is known of each; the other one shows its own. Metrics are of the own jobs, or they would count twice."""
    both, alone = urls
    assert (jobs_at(both), jobs_at(alone)) == ([JOB, OTHER], [OTHER])
    assert answer(both, f"/jobs/{OTHER}") == answer(alone, f"/jobs/{OTHER}") | {"pipeline": second.topic_prefix}
    own = [settings.topic_prefix, second.topic_prefix]
    assert [each["pipeline"] for each in answer(both, "/jobs")] == own
    assert "pipeline" not in answer(alone, "/jobs")[0]
    for path in ("history", "decisions", "commands", "shadows", "tasks/map"):
        assert answer(both, f"/jobs/{OTHER}/{path}") == answer(alone, f"/jobs/{OTHER}/{path}")
    of = quote(decision(1, job=OTHER).decision_id)
    assert answer(both, f"/decisions/{of}") == answer(alone, f"/decisions/{of}")
    (cluster,) = answer(both, "/clusters")
    assert (cluster["jobs"], answer(both, "/clusters/sim")["jobs"]) == (2, [JOB, OTHER])
    assert {each["job"] for each in answer(both, "/clusters/sim/info")["fragments"]} == {JOB, OTHER}
    (policy,) = answer(both, "/policies")["in_use"]
    assert policy["jobs"] == [JOB, OTHER]
    first_page = answer(both, "/jobs?limit=1")
    assert [each["job"] for each in [*first_page, *answer(both, f"/jobs?limit=1&cursor={quote(JOB)}")]] == [JOB, OTHER]
    assert get(f"{both}/jobs/sim/nobody")[0] == 404
    assert {job for job, *_ in scraped(settings.health_port).labels(metrics.JOB_UP)} == {JOB}
    told = surescale("job", "list", "--also", second.topic_prefix, "--json")
    assert told[1].count(f'"job": "{OTHER}"') == 1
    assert OTHER not in surescale("job", "list")[1]
    _, listed, said = surescale("job", "list", "--also", "mistyped-")
    assert OTHER not in listed
    assert said.startswith("--also mistyped-: no state service has kept a view under this prefix")


def test_the_state_service_names_a_prefix_under_which_nothing_is_known(
    settings: PipelineSettings, tmp_path: Path, processes: list["Popen[bytes]"]
) -> None:
    """Once its own view is there: pipelines that start together are no mistake yet."""
    log, own = tmp_path / "state.log", {"SURESCALE_HTTP_PORT": str(free_port()), "SURESCALE_HTTP_OTHER_PREFIXES": "mistyped-"}
    processes.append(started(settings, log, "run", "state-service", **own))
    said = "SURESCALE_HTTP_OTHER_PREFIXES: mistyped-: no state service has kept a view under this prefix"
    wait_until(lambda: said in log.read_text(), 60, "the line")


def test_what_is_done_on_the_page_is_written_where_the_job_is(
    urls: list[str], settings: PipelineSettings, second: PipelineSettings
) -> None:
    """A pause of a job in its own pipeline; one of the cluster in both, and once however often it is asked for."""
    assert post(urls[0], f"/jobs/{OTHER}/pause", "a", why="audit")[0] == 200
    assert ([each.job for each in written(settings)], [each.job for each in written(second)]) == ([], [OTHER])
    for _ in range(2):
        assert post(urls[0], "/clusters/sim/pause", "b", why="network")[0] == 200
    assert [each.job for each in written(settings)] == ["sim/*"]
    assert [each.job for each in written(second)] == [OTHER, "sim/*"]


def written(pipeline: PipelineSettings) -> list[JobSettings]:
    """Return the records of settings, in order."""
    return parsed(read_topics(pipeline, [JOB_SETTINGS])[JOB_SETTINGS], JobSettings)


def test_a_change_in_the_other_pipeline_is_an_event(urls: list[str], second: PipelineSettings) -> None:
    """So that the page shows it at once."""
    with urlopen(f"{urls[0]}/events", timeout=60) as events:
        next(line for line in events if line.startswith(b"data: "))  # how far it is now
        send(second, (DECISIONS, "sim", decision(2, job=OTHER)))
        told = next(line for line in events if line.startswith(b"data: "))
    assert msgspec.json.decode(told.removeprefix(b"data: "))["topics"] == [DECISIONS]
    assert len(answer(urls[0], f"/jobs/{OTHER}/decisions")) == 2


def test_a_job_that_was_moved_is_shown_where_it_is_now(
    urls: list[str], settings: PipelineSettings, second: PipelineSettings
) -> None:
    """Once, with the history of its present pipeline; its former one still knows it."""
    send(settings, (JOB_TOPOLOGY, OTHER, running(OTHER, 7)))
    wait_until(lambda: answer(urls[0], f"/jobs/{OTHER}")["topology"]["record"]["version"] == 7, 60, "the job in the first")
    assert answer(urls[0], f"/jobs/{OTHER}/decisions") == []
    send(second, (JOB_TOPOLOGY, OTHER, running(OTHER, 8)))
    wait_until(lambda: answer(urls[0], f"/jobs/{OTHER}")["topology"]["record"]["version"] == 8, 60, "the job in the second")
    assert jobs_at(urls[0]) == [JOB, OTHER]
    seen = Together(connect(settings.redis_url), (settings.topic_prefix, second.topic_prefix), 10)
    assert seen.prefix_of(OTHER) == second.topic_prefix
    assert len(answer(urls[0], f"/jobs/{OTHER}/decisions")) == 1
