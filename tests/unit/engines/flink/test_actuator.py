"""The Flink actuator against a fake JobManager: refusals, other owners, and everything that goes wrong on the way."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec
import pytest

from surescale.contracts.commands import Expected, Progress, RescheduleCommand, TaskChange
from surescale.engines.flink.actuator import FlinkEngine
from surescale.engines.flink.client import FlinkClient
from surescale.engines.ports.actuator import EngineRefused, EngineUnavailable
from surescale.rescaler.execution import RequirementExecution
from tests.support.fake_jobmanager import NEVER_MS, RESTART_TAKES_MS, FakeJob, FakeJobManager
from tests.support.mortal_client import Killed, Mortal
from tests.support.stub_server import StubRequest, StubServer

CLUSTER, JOB = "real", "real/orders"
BEFORE = {"source": 1, "parse": 2, "sink": 1}
AFTER = {"source": 1, "parse": 4, "sink": 1}
DEADLINE_MS = 120_000
STEPS_MAX = 2_000


class MortalClient(Mortal, FlinkClient):
    """Dies before or after a request, or never."""


@dataclass
class Played:
    """A cluster with one job, and an actuator before it."""

    manager: FakeJobManager
    server: StubServer
    job: FakeJob
    engine: FlinkEngine = field(init=False)

    def __post_init__(self) -> None:
        """Start the actuator."""
        self.restart()

    def restart(self, dies_at: int | None = None, *, is_sent: bool = False) -> None:
        """Start the actuator again: it remembers nothing."""
        client = MortalClient(self.server.url)
        client.dies(dies_at, is_sent=is_sent)
        self.engine = FlinkEngine(client, CLUSTER, lambda: self.manager.now_ms, sleep=lambda seconds: None)

    def command(self, **after: int) -> RescheduleCommand:
        """Ask for a parallelism, as decided on what runs now."""
        return RescheduleCommand(
            command_id=f"{JOB}#1.0",
            cluster=CLUSTER,
            job=JOB,
            desired_generation=1,
            step=0,
            base_placement_generation=0,
            decision_id="as the test wants",
            gate_reason="desired",
            gate_cause="max_delay",
            issued_at_ms=self.manager.now_ms,
            deadline_ms=self.manager.now_ms + DEADLINE_MS,
            changes=tuple(
                TaskChange(task=task, before=self.job.required.get(task, 1), after=count) for task, count in after.items()
            ),
            expected=Expected(epoch=self.job.jid, required=dict(self.job.required)),
        )

    def step(self, work: RequirementExecution, seconds: float = 0.5) -> list[Progress]:
        """Let the actuator do what it can now, then let time pass."""
        reports = work.step(self.engine, now_ms=self.manager.now_ms, wall_ms=self.manager.now_ms)
        self.manager.now_ms += int(seconds * 1_000)
        return reports

    def to_the_end(self, work: RequirementExecution) -> list[Progress]:
        """Go on until the command has ended."""
        reports: list[Progress] = []
        for _ in range(STEPS_MAX):
            reports += self.step(work)
            if work.ended:
                return reports
        raise AssertionError(f"no end after {reports}")

    def refused(self, **after: int) -> EngineRefused:
        """Request what must be refused, and return how it is."""
        with pytest.raises(EngineRefused) as refused:
            self.engine.request(self.command(**after))
        assert self.manager.puts == [], "a refusal changes nothing"
        assert "\n" not in str(refused.value)
        return refused.value


@pytest.fixture
def played() -> Iterator[Played]:
    """A cluster of eight slots with a job that takes two."""
    manager = FakeJobManager()
    job = manager.submit("orders", BEFORE)
    with manager.serving() as server:
        yield Played(manager, server, job)


# --- refused in advance -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "said", "spoil"),
    [
        ("NO_CHECKPOINTS", "execution.checkpointing.interval", lambda job: setattr(job, "checkpoint_interval_ms", NEVER_MS)),
        ("NO_CHECKPOINT_YET", "wait for one", lambda job: setattr(job, "has_checkpoint", False)),
        ("BATCH_JOB", "only streaming jobs", lambda job: setattr(job, "job_type", "BATCH")),
        ("NOT_RUNNING", "restarting (RESTARTING)", lambda job: setattr(job, "state", "RESTARTING")),
        ("TIED_TASKS", "connected forward", lambda job: setattr(job, "forward", (("source", "parse"),))),
        (
            "SAVEPOINT_UNDER_WAY",
            "savepoint",
            lambda job: job.later_checkpoints.append({"id": 2, "status": "IN_PROGRESS", "is_savepoint": True}),
        ),
    ],
)
def test_what_the_job_does_not_allow_is_refused(played: Played, code: str, said: str, spoil: Callable[[FakeJob], None]) -> None:
    """With a code, the remedy in one line, and nothing written."""
    spoil(played.job)
    refused = played.refused(parse=4)
    assert refused.code == code
    assert said in refused.detail


@pytest.mark.parametrize(
    ("code", "said", "key", "value"),
    [
        ("NOT_ADAPTIVE", "jobmanager.scheduler: adaptive", "jobmanager.scheduler", "default"),
        ("REACTIVE_MODE", "scheduler-mode", "scheduler-mode", "reactive"),
        ("OTHER_AUTOSCALER", "(job.autoscaler.enabled); set that to false", "job.autoscaler.enabled", "true"),
    ],
)
def test_what_the_cluster_does_not_allow_is_refused(played: Played, code: str, said: str, key: str, value: str) -> None:
    """Status 500 of the default scheduler is a refusal, and no engine that is away."""
    played.manager.configuration[key] = value
    refused = played.refused(parse=4)
    assert refused.code == code
    assert said in refused.detail
    assert played.engine.capabilities().acts == ("counts" if code == "OTHER_AUTOSCALER" else "none")


def test_an_autoscaler_that_only_advises_is_no_other_owner(played: Played) -> None:
    """As in the weeks in which two of them are compared."""
    played.manager.configuration |= {"job.autoscaler.enabled": "true", "job.autoscaler.scaling.enabled": "false"}
    played.engine.request(played.command(parse=4))
    assert played.manager.puts == [AFTER]


@pytest.mark.parametrize(
    ("code", "after"),
    [("PARALLELISM_OUT_OF_RANGE", {"parse": 65}), ("UNKNOWN_TASK", {"gone": 2}), ("TOO_FEW_SLOTS", {"parse": 9})],
)
def test_what_does_not_fit_is_refused(played: Played, code: str, after: dict[str, int]) -> None:
    """Key groups, vertices, slots."""
    assert played.refused(**after).code == code


def test_slots_that_a_resource_manager_brings_are_not_missed(played: Played) -> None:
    """Flink starts TaskManagers by itself there."""
    played.manager.configuration["kubernetes.cluster-id"] = "orders"
    played.engine.request(played.command(parse=9))
    assert played.manager.puts == [BEFORE | {"parse": 9}]


def test_two_jobs_of_one_name_are_not_touched(played: Played) -> None:
    """Nobody can say which of them is meant."""
    command = played.command(parse=4)
    played.manager.submit_beside("orders", BEFORE)
    with pytest.raises(EngineRefused) as refused:
        played.engine.request(command)
    assert refused.value.code == "AMBIGUOUS_NAME"
    assert "surescale.job" in refused.value.detail
    assert played.manager.puts == []


def test_a_wrong_address_is_no_refusal(played: Played) -> None:
    """It may be corrected; the message says how."""
    engine = FlinkEngine(FlinkClient(f"{played.server.url}/flink"), CLUSTER)
    with pytest.raises(EngineUnavailable, match="SURESCALE_ENGINE_URL"):
        engine.request(played.command(parse=4))


# --- other owners -----------------------------------------------------------------------------------------------------------


def test_a_foreign_change_between_read_and_write_is_not_overwritten(played: Played) -> None:
    """The requirements are read once more right before they are written."""
    reads: list[StubRequest] = []

    def interfere(asked: StubRequest) -> None:
        if asked.method == "GET" and asked.path.endswith("/resource-requirements"):
            reads.append(asked)
            if len(reads) == 2:
                played.manager.require(played.job, {"parse": 3})

    played.manager.before = interfere
    assert played.refused(parse=4).code == "REQUIREMENT_CHANGED"
    assert played.job.required == BEFORE | {"parse": 3}


def test_an_upgrade_on_the_way_ends_the_command(played: Played) -> None:
    """The new submission keeps its author's parallelism."""
    work = RequirementExecution(played.command(parse=4))
    played.manager.never_applies = True
    played.step(work)
    upgraded = played.manager.submit("orders", BEFORE)
    (failed,) = played.to_the_end(work)
    assert (failed.status, failed.code) == ("failed", "EPOCH_CHANGED")
    assert upgraded.required == BEFORE


# --- on the way -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.2.1", "2.3.0"])
def test_a_checkpoint_on_request_spares_the_wait_for_the_next_one(played: Played, version: str) -> None:
    """Checkpoints come every ten minutes; the rescale comes after one second, and its times are measured."""
    played.job.checkpoint_interval_ms = 600_000
    played.manager.version = version
    played.manager.now_ms += 5_000  # the last one has just completed
    accepted, applied = played.to_the_end(RequirementExecution(played.command(parse=4)))
    assert (accepted.status, applied.status, played.job.running) == ("accepted", "applied", AFTER)
    assert played.manager.checkpoints_requested == 1
    assert applied.waited_ms is not None
    assert 1_000 <= applied.waited_ms <= 2_000
    assert applied.still_ms is not None
    assert applied.still_ms == RESTART_TAKES_MS


def test_in_flinks_own_cooldown_the_checkpoint_is_requested_again(played: Played) -> None:
    """The first one came too early to count."""
    played.manager.configuration["jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling"] = "30000"
    played.job.checkpoint_interval_ms = 600_000
    played.job.rescaled_at_ms = played.manager.now_ms
    *_, applied = played.to_the_end(RequirementExecution(played.command(parse=4)))
    assert applied.waited_ms is not None
    assert 30_000 <= applied.waited_ms <= 33_000
    assert played.manager.checkpoints_requested == 2


def test_before_2_0_no_checkpoint_is_requested(played: Played) -> None:
    """Flink 1.20 rescales at once."""
    played.manager.version = "1.20.5"
    played.engine.request(played.command(parse=4))
    assert played.manager.checkpoints_requested == 0


def test_slots_that_come_later_complete_a_part(played: Played) -> None:
    """Partly first; when a TaskManager joins Flink goes on by itself, and the command is applied."""
    played.manager.slots = 3
    played.manager.configuration["kubernetes.cluster-id"] = "orders"
    work = RequirementExecution(with_deadline(played.command(parse=4), 600_000))
    reports: list[Progress] = []
    while not any(report.status == "partly" for report in reports):
        reports += played.step(work)
    assert (reports[-1].reached, reports[-1].waiting_for) == (BEFORE | {"parse": 3}, "slots")
    played.manager.slots = 8
    assert [report.status for report in played.to_the_end(work)] == ["applied"]
    assert played.job.running == AFTER


def test_what_is_accepted_and_never_applied_is_taken_back(played: Played) -> None:
    """At the deadline Flink is asked for what runs, and nothing is pending."""
    played.manager.never_applies = True
    *_, failed = played.to_the_end(RequirementExecution(played.command(parse=4)))
    assert (failed.status, failed.code) == ("failed", "DEADLINE")
    assert played.job.required == BEFORE
    played.manager.never_applies = False
    played.manager.now_ms += 600_000
    assert played.engine.look(JOB).running == BEFORE


def test_a_job_that_does_not_come_up_gets_its_old_requirement_back(played: Played) -> None:
    """It restarts for ever with four subtasks; with two it runs."""
    played.manager.breaks = True
    *_, failed = played.to_the_end(RequirementExecution(played.command(parse=4)))
    assert (failed.status, failed.reached) == ("failed", BEFORE)
    played.manager.now_ms += 60_000
    seen = played.engine.look(JOB)
    assert (seen.state, seen.required, seen.running) == ("running", BEFORE, BEFORE)


def test_a_cluster_that_is_away_for_a_minute_is_waited_for(played: Played) -> None:
    """The command goes on where it was."""
    work = RequirementExecution(played.command(parse=4))
    played.step(work)
    played.manager.is_away = True
    for _ in range(120):
        assert played.step(work) == []
    assert "leader election" in work.away
    played.manager.is_away = False
    assert [report.status for report in played.to_the_end(work)] == ["applied"]


@pytest.mark.parametrize("labels", [{}, {"surescale.job": "orders"}])
@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("is_requested", [False, True])
def test_a_command_outlives_the_jobmanager(played: Played, is_requested: bool, forgets: bool, labels: dict[str, str]) -> None:
    """The one that takes over lists the job and cannot be asked about it; nor does it tell the job's labels yet.

    ``forgets``: our actuator starts again meanwhile.
    """
    played.job.labels, played.job.name = labels, "another" if labels else "orders"
    played.manager.never_applies = True
    work = RequirementExecution(command := played.command(parse=4))
    if is_requested:
        played.step(work)
    played.manager.fail_over()
    if forgets:
        played.restart()
        work = RequirementExecution(command)
    for _ in range(20):
        assert played.step(work) == []
        assert work.away
    played.manager.recover()
    played.manager.never_applies = False
    assert [report.status for report in played.to_the_end(work)][-1] == "applied"
    assert played.manager.puts == [AFTER]


# --- killed at any step -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("never_applies", [False, True])
@pytest.mark.parametrize("is_sent", [False, True])
def test_killed_at_any_request_nothing_is_left_that_nobody_wants(never_applies: bool, is_sent: bool) -> None:
    """Another process repeats the command: it is applied, or taken back, and asked for at most once."""
    for dies_at in range(STEPS_MAX):
        manager = FakeJobManager(never_applies=never_applies)
        job = manager.submit("orders", BEFORE)
        with manager.serving() as server:
            played = Played(manager, server, job)
            command = with_deadline(played.command(parse=4), 2_500)
            played.restart(dies_at, is_sent=is_sent)
            try:
                played.to_the_end(RequirementExecution(command))
            except Killed:
                played.restart()
                played.to_the_end(RequirementExecution(command))
            else:
                return  # it ended before it could die: every request has been tried
        assert job.required == (BEFORE if never_applies else AFTER), f"killed at request {dies_at}"
        assert manager.puts == ([AFTER, BEFORE] if never_applies else [AFTER]), f"killed at request {dies_at}"
    raise AssertionError("it never ends")


def with_deadline(command: RescheduleCommand, within_ms: int) -> RescheduleCommand:
    """Return a command that must be carried out within a time."""
    return msgspec.structs.replace(command, deadline_ms=command.issued_at_ms + within_ms)
