"""Pause, resume and approve over HTTP, in a real pipeline: the records are those of the command line, each written once."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import Popen

import msgspec
import pytest

from surescale.contracts.job_settings import Approval, JobSettings, Pause
from surescale.contracts.messages import ClusterTopology
from surescale.contracts.rescaler_state import JobSummary, OpenAdvice, RescalerRecord
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLUSTER_TOPOLOGY, JOB_SETTINGS, JOB_TOPOLOGY, RESCALER_STATE
from surescale.runtime.topic_records import parsed, read_topics
from tests.support import view_pipeline
from tests.support.builders import JOB, topology
from tests.support.operations import READER, post, started
from tests.support.view_pipeline import send

pytestmark = pytest.mark.integration
settings, processes, service = view_pipeline.settings, view_pipeline.processes, view_pipeline.service
surescale = view_pipeline.surescale
AT = f"/jobs/{JOB}"
ADVISED = f"{JOB}@600000/sure"


@pytest.fixture
def url(settings: PipelineSettings, service: Callable[..., str], tmp_path: Path) -> str:
    """A state service that lets ana operate, in a pipeline with one job."""
    cluster = ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=())
    send(settings, (JOB_TOPOLOGY, JOB, topology(1)), (CLUSTER_TOPOLOGY, "sim", cluster))
    return started(service, tmp_path)


def written(settings: PipelineSettings) -> list[JobSettings]:
    """Return the records of settings, in order."""
    return parsed(read_topics(settings, [JOB_SETTINGS])[JOB_SETTINGS], JobSettings)


def test_a_pause_is_written_once_however_often_it_is_asked_for(
    url: str,
    settings: PipelineSettings,
    service: Callable[..., str],
    processes: "list[Popen[bytes]]",
    surescale: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
) -> None:
    """Also of a service that has started again: the topic remembers the key. The command line makes the same record."""
    first = post(url, f"{AT}/pause", "key-1", why="release day", direction="up")
    assert (first[0], first[1]["written"], first[1]["version"], first[1]["by"]) == (200, True, 1, "ana")
    assert first[1]["paused"] == f"scaling up of {JOB} is paused by ana until further notice: release day"
    again = post(url, f"{AT}/pause", "key-1", why="release day", direction="up")[1]
    assert (again["written"], again["repeated"], again["version"]) == (False, True, 1)
    processes.pop().terminate()
    url = started(service, tmp_path)
    assert post(url, f"{AT}/pause", "key-1", why="release day", direction="up")[1]["repeated"] is True
    status, told = post(url, f"{AT}/pause", "key-1", why="something else")
    assert (status, "another change" in told["error"]) == (422, True)
    assert len(written(settings)) == 1
    assert surescale("job", "pause", JOB, "--why", "release day", "--direction", "up", "--by", "ana")[0] == 0
    over_http, by_line = (record.pause for record in written(settings))
    assert isinstance(over_http, Pause)
    assert isinstance(by_line, Pause)
    assert msgspec.structs.replace(over_http, at_ms=0) == msgspec.structs.replace(by_line, at_ms=0)
    assert post(url, f"{AT}/resume", "key-2")[1]["written"] is True
    assert post(url, f"{AT}/resume", "key-3")[1]["written"] is False  # nothing was paused
    assert [record.pause is None for record in written(settings)] == [False, False, True]


def test_a_cluster_is_paused_and_what_was_seen_must_still_hold(url: str, settings: PipelineSettings) -> None:
    """A version that is over is 409, a name that nobody knows 404, a wrong time 422; a reader's token 403. None writes."""
    assert post(url, "/clusters/sim/pause", "a", why="network", **{"for": "2h"})[0] == 200
    status, told = post(url, f"{AT}/pause", "b", why="audit", version=0)
    assert (status, told["paused"].count("is paused by ana")) == (200, 2)  # the cluster's pause holds as well
    refused = [
        post(url, f"{AT}/pause", "c", why="audit", version=0),
        post(url, "/jobs/sim/nobody/pause", "d", why="audit"),
        post(url, "/jobs/sim/*/pause", "d", why="audit"),
        post(url, "/clusters/nowhere/resume", "e"),
        post(url, f"{AT}/pause", "f", why="audit", until="yesterday"),
        post(url, f"{AT}/pause", "g", why="audit", until="2030-01-01", **{"for": "2h"}),
        post(url, f"{AT}/pause", "h", READER, why="audit"),
    ]
    assert [status for status, _ in refused] == [409, 404, 404, 404, 422, 422, 403]
    assert "version 1, set by ana, not 0" in refused[0][1]["error"]
    assert refused[4][1]["error"].startswith("until: 'yesterday' is not a time")
    assert all("\n" not in told["error"] and len(told["error"]) < 250 for _, told in refused)
    assert {(record.job, record.set_by, record.version) for record in written(settings)} == {("sim/*", "ana", 1), (JOB, "ana", 1)}


def test_only_the_open_advice_is_approved(url: str, settings: PipelineSettings) -> None:
    """By its id: a job's name, an older decision and advice that was carried out are 409."""
    advice = OpenAdvice(decision_id=ADVISED, targets={"map": 4})
    memory = RescalerRecord(
        cluster="sim", kind="job", id=JOB, at_ms=1, body=msgspec.Raw(b"{}"), summary=JobSummary(phase="Stable", advice=advice)
    )
    send(settings, (RESCALER_STATE, f"sim/job/{JOB}", memory))
    for other in (JOB, f"{JOB}@0/sure"):
        status, told = post(url, f"{AT}/approve", "a", decision_id=other)
        assert (status, f"the open one is {ADVISED}" in told["error"]) == (409, True)
    assert post(url, f"{AT}/approve", "a", decision_id=ADVISED)[1]["written"] is True
    closed = msgspec.structs.replace(memory, summary=JobSummary(phase="Stable"))
    send(settings, (RESCALER_STATE, f"sim/job/{JOB}", closed))
    assert post(url, f"{AT}/approve", "a", decision_id=ADVISED)[1]["repeated"] is True
    assert post(url, f"{AT}/approve", "b", decision_id=ADVISED)[0] == 409
    (record,) = written(settings)
    assert isinstance(record.approval, Approval)
    assert (record.approval.decision_id, record.approval.by, record.set_by) == (ADVISED, "ana", "ana")


def test_without_kafka_it_says_so(settings: PipelineSettings, tmp_path: Path) -> None:
    """One line with the address; nothing is kept to be written later."""
    import logging

    from surescale.runtime.ports import free_port
    from surescale.services.state.operate import OperationRequest, Operator, ResumeBody

    away = replace(settings, bootstrap=f"127.0.0.1:{free_port()}")
    asked = OperationRequest(target=JOB, of_cluster=False, body=ResumeBody(), by="ana", key="k")
    with pytest.raises(ConnectionError, match=f"Kafka at {away.bootstrap} does not answer"):
        Operator(away, logging.getLogger("test")).execute(asked)
