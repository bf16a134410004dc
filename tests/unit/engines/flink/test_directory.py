"""The live jobs of a cluster by name."""

from dataclasses import dataclass, field
from typing import cast

import msgspec
import pytest

from surescale.engines.flink.answers import JobDetail, JobEntry, Jobs
from surescale.engines.flink.client import FlinkClient
from surescale.engines.flink.directory import JobDirectory

ACT = {"surescale.mode": "act"}


@dataclass
class Starting:
    """A cluster on which a job starts: what it says at each look, and what its kept copy of the job says meanwhile.

    The copy changes after so many requests for it, not with the list of jobs, since Flink keeps it for a while.
    """

    listed: list[str]
    copies: list[tuple[int, str, dict[str, str]]]  # requests that it answers, state, parameters; the last one answers all others
    asked: list[str] = field(default_factory=list)

    def jobs(self) -> tuple[JobEntry, ...]:
        """Answer as Flink 2.3 does: types are null until the graph is there."""
        state = self.listed.pop(0) if len(self.listed) > 1 else self.listed[0]
        kind = "null" if state == "INITIALIZING" else '"STREAMING"'
        entry = f'{{"jid":"a","name":"orders","state":"{state}","start-time":0,"jobType":{kind},"schedulerType":{kind}}}'
        return msgspec.json.decode(f'{{"jobs":[{entry}]}}', type=Jobs).jobs

    def parameters(self, _job: str) -> dict[str, str]:
        """Answer from the copy."""
        return self._copy("parameters")[1]

    def job(self, job: str) -> JobDetail:
        """Answer from the copy."""
        return JobDetail(jid=job, name="orders", state=self._copy("job")[0], start_time=0, now=0)

    def _copy(self, what: str) -> tuple[str, dict[str, str]]:
        self.asked.append(what)
        seen = len(self.asked)
        for requests, state, parameters in self.copies[:-1]:
            if seen <= requests:
                return state, parameters
            seen -= requests
        return self.copies[-1][1:]


def directory_of(cluster: Starting) -> JobDirectory:
    """A directory of that cluster."""
    return JobDirectory(cast(FlinkClient, cluster), "prod")


def test_the_labels_of_a_job_that_is_seen_while_it_starts_are_not_lost() -> None:
    """It is listed once it has a graph, and with its labels once Flink tells them."""
    directory = directory_of(Starting(["INITIALIZING", "CREATED", "RUNNING"], [(1, "CREATED", {}), (0, "RUNNING", ACT)]))
    assert directory.live() == {}
    assert directory.live()["a"].labels == {}
    assert directory.live()["a"].labels == ACT


@pytest.mark.parametrize("kept", range(1, 7))
def test_labels_are_found_however_long_flink_keeps_what_it_said_before_the_job_ran(kept: int) -> None:
    """The list says at once that the job runs; parameters and detail come from a copy that may be seconds older."""
    directory = directory_of(Starting(["CREATED", "RUNNING"], [(kept, "CREATED", {}), (0, "RUNNING", ACT)]))
    for _ in range(kept):
        directory.live()
    assert directory.live()["a"].labels == ACT


def test_a_job_without_parameters_is_asked_for_them_until_that_is_certain() -> None:
    """From then on a look costs one request."""
    cluster = Starting(["RUNNING"], [(2, "CREATED", {}), (0, "RUNNING", {})])
    directory = directory_of(cluster)
    directory.live()
    assert cluster.asked == ["parameters", "job"]
    directory.live()
    assert cluster.asked == ["parameters", "job", "parameters", "job", "parameters"]
    directory.live()
    assert len(cluster.asked) == 5


def test_a_job_that_restarts_without_parameters_is_asked_for_them_again() -> None:
    """While it has no slots, Flink may know nothing of them; what was certain before is asked again once it runs."""
    cluster = Starting(["RUNNING", "RESTARTING", "RUNNING"], [(3, "RUNNING", {}), (0, "RUNNING", ACT)])
    directory = directory_of(cluster)
    assert directory.live()["a"].labels == {}
    directory.live()
    assert directory.live()["a"].labels == ACT


def test_a_job_that_another_jobmanager_takes_over_keeps_its_labels() -> None:
    """For seconds Flink lists it as at its first start, and tells no parameters."""
    taken_over = ["RUNNING", "INITIALIZING", "CREATED", "RUNNING"]
    directory = directory_of(Starting(taken_over, [(1, "RUNNING", ACT), (0, "CREATED", {})]))
    for _ in taken_over:
        assert directory.live()["a"].labels == ACT
        assert not directory.is_settling
    assert directory.end_of("a") is None


def test_a_job_whose_labels_are_not_certain_yet_may_have_another_name() -> None:
    """Whoever looks for a job by its label must wait for it."""
    directory = directory_of(Starting(["INITIALIZING", "CREATED", "RUNNING"], [(1, "CREATED", {}), (0, "RUNNING", ACT)]))
    told = []
    for _ in range(3):
        directory.live()
        told.append(directory.is_settling)
    assert told == [True, True, False]


@dataclass
class Several:
    """A cluster with jobs of one name."""

    running: str = "a"

    def jobs(self) -> tuple[JobEntry, ...]:
        """Answer with all of them."""
        return tuple(JobEntry(jid=jid * 32, name="orders", state="RUNNING", start_time=0) for jid in self.running)

    def parameters(self, _job: str) -> dict[str, str]:
        """Answer with some."""
        return ACT


def test_a_job_that_is_submitted_again_before_the_old_one_has_gone_keeps_its_name() -> None:
    """For a minute the newcomer is not told; then the name is that of both, and of the one that stays."""
    cluster, now_s, seen = Several(), 0.0, []
    directory = JobDirectory(cast(FlinkClient, cluster), "prod", lambda: now_s)
    for now_s, running in ((0.0, "a"), (1.0, "ab"), (60.0, "ab"), (61.0, "b"), (62.0, "bc"), (122.0, "bc"), (123.0, "c")):
        cluster.running = running
        seen.append([f"{each.job} {jid[0]}" for jid, each in directory.live().items()])
        assert directory.is_settling is (running in ("ab", "bc") and now_s != 122.0)
    assert seen == [
        ["prod/orders a"],
        ["prod/orders a"],
        ["prod/orders a"],
        ["prod/orders b"],
        ["prod/orders b"],
        [f"prod/orders~{'b' * 8} b", f"prod/orders~{'c' * 8} c"],
        ["prod/orders c"],
    ]


def test_jobs_that_have_one_name_from_the_first_look_on_are_told_apart_at_once() -> None:
    """Nobody knows which of them was there before."""
    directory = JobDirectory(cast(FlinkClient, Several("ab")), "prod", lambda: 0.0)
    assert [each.job for each in directory.live().values()] == [f"prod/orders~{jid * 8}" for jid in "ab"]
