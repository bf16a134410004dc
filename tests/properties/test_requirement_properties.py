"""What holds in a pipeline to an engine that is asked for counts, whatever engine, owners and crashes do."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from surescale.rescaler.control.outcomes import REASONS_BY_STATUS
from tests.support.reach import reached, reaches
from tests.support.requirement_pipeline import AUTHOR, JOB, RequirementPipeline

LAST = {"held", "commanded", "superseded", "refused"}
counts = st.fixed_dictionaries({"parse": st.integers(1, 6), "count": st.integers(1, 6)})

step = st.one_of(
    st.tuples(st.just("decide"), counts),
    st.tuples(st.just("foreign"), counts),
    st.tuples(st.just("undo")),
    st.tuples(st.just("submit")),
    st.tuples(st.just("slots"), st.sampled_from([2, 3, 100])),
    st.tuples(st.just("stuck"), st.sampled_from([None, "restarting", "created"])),
    st.tuples(st.just("delay"), st.sampled_from([1_000, 40_000, 3_600_000])),
    st.tuples(st.just("away"), st.sampled_from([1, 10, 400])),
    st.tuples(st.just("blind"), st.booleans()),
    st.tuples(st.just("kill")),
    st.tuples(st.just("die")),
    st.tuples(st.just("mode"), st.sampled_from(["act", "advise", "observe", None])),
    st.tuples(st.just("drift"), st.sampled_from(["adopt", "insist", "stop"])),
    st.tuples(st.just("adopt")),
    st.tuples(st.just("reapply")),
)
steps = st.lists(st.tuples(st.sampled_from([0, 1, 7, 35, 120, 400]), step), max_size=14)
pipelines = st.fixed_dictionaries(
    {
        "stamps": st.sampled_from(["look", "change"]),
        "ids": st.sampled_from(["every", "content", "none"]),
        "restarts": st.booleans(),
    }
)


class Watched(RequirementPipeline):
    """A pipeline that counts what somebody else asked for, and what we wrote over it."""

    foreign: list[dict[str, int]]

    def __post_init__(self) -> None:
        """Begin."""
        self.foreign = []
        super().__post_init__()

    @property
    def ran(self) -> list[dict[str, int]]:
        """Every requirement of ours that was carried out, at least in part."""
        ended = {report.command_id: report for report in self.reports if report.status == "applied" or report.reached}
        found = []
        for command in self.commands:
            if command.command_id in ended and command.expected is not None:
                target = {**command.expected.required, **command.targets}
                found.append({**target, **ended[command.command_id].reached})
        return found

    def change(self, wanted: dict[str, int]) -> None:
        """Let somebody else ask for a parallelism."""
        self.foreign.append(wanted)
        self.fake.require(JOB, wanted)

    def take(self, pause_s: int, what: tuple[Any, ...]) -> None:
        """Let one thing happen, then time pass."""
        match what:
            case ("decide", wanted):
                self.decide(wanted)
            case ("foreign", wanted):
                self.change(wanted)
            case ("undo",):
                before = self.memory.owned.before if self.memory.owned else {}
                self.change(before or AUTHOR)
            case ("submit",):
                self.fake.submit(JOB, AUTHOR)
            case ("slots", slots):
                self.fake.slots = slots
            case ("stuck", state):
                self.fake.stuck = state
            case ("delay", delay_ms):
                self.fake.delay_ms = delay_ms
            case ("away", calls):
                self.fake.away_for = calls
            case ("blind", sees):
                self.monitor_sees = sees
            case ("kill",):
                self.restart()
            case ("die",):  # and nobody takes over: what was begun is not gone on with
                self.restart()
                self.work = None
            case ("mode", mode):
                self.allow(mode=mode)
            case ("drift", on_drift):
                self.allow(on_drift=on_drift)
            case ("adopt",):
                self.allow(adopted_at_ms=self.now_ms)
            case ("reapply",):
                self.allow(reapplied_at_ms=self.now_ms)
        self.go(pause_s)
        self.check()

    def check(self) -> None:
        """What holds at every moment: at most one command is carried out, and it is the one that is remembered."""
        assert self.work is None or self.work.command == self.memory.outstanding
        assert all(command.expected is not None and command.placement is None for command in self.commands)

    def calm(self, *, slow: bool = False) -> None:
        """Let everything answer again, and time pass until all is over; ``slow``: the engine never gets to what is asked for."""
        self.fake.stuck, self.fake.away_for, self.fake.slots = None, 0, 100
        self.fake.delay_ms = 3_600_000_000 if slow else 1_000
        self.fake.hurry()
        self.monitor_sees = True
        if self.work is None and self.memory.outstanding is not None:
            self.restart()
        self.go(900)


def lived(happened: list[tuple[int, tuple[Any, ...]]], *, slow: bool = False, **pipeline: Any) -> Watched:
    """A pipeline after all that happened, and after it has come to rest."""
    watched = Watched(**pipeline)
    for pause_s, what in happened:
        watched.take(pause_s, what)
    if slow:
        watched.allow(mode="act", on_drift="stop")
    watched.calm(slow=slow)
    return watched


@reaches("a requirement of somebody else", "a rescale", "a rescale that failed")
@given(steps, pipelines)
@settings(max_examples=20)
def test_nothing_stays_on_its_way_and_nothing_is_wanted_that_does_not_run(
    happened: list[tuple[int, tuple[Any, ...]]], pipeline: dict[str, Any]
) -> None:
    """Every command and every act ends once; in mode act the engine wants nothing that we gave up."""
    found = lived(happened, **pipeline)
    if found.foreign:
        reached("a requirement of somebody else")
    if any(report.status == "applied" for report in found.reports):
        reached("a rescale")
    if any(report.status == "failed" for report in found.reports):
        reached("a rescale that failed")
    assert (found.memory.underway, found.memory.pending, found.work) == (None, None, None)
    assert found.running == found.required
    for decision_id in {outcome.decision_id for outcome in found.outcomes}:
        said = [outcome for outcome in found.outcomes if outcome.decision_id == decision_id]
        assert [outcome.status in LAST for outcome in said] == [False] * (len(said) - 1) + [True]
        assert all(outcome.reason in REASONS_BY_STATUS[outcome.status] for outcome in said)
    ended = [report.command_id for report in found.reports if report.status in ("applied", "failed")]
    assert len(ended) == len(set(ended)) or pipeline["restarts"]


@reaches("a requirement that never ran")
@given(steps, pipelines)
@settings(max_examples=20)
def test_what_we_gave_up_is_taken_back(happened: list[tuple[int, tuple[Any, ...]]], pipeline: dict[str, Any]) -> None:
    """The engine does not get to it for days: then it is asked for what runs or ran, or for what somebody else wants."""
    found = lived(happened, slow=True, **pipeline)
    if any(report.code == "DEADLINE" for report in found.reports):
        reached("a requirement that never ran")
    assert found.required in [found.running, AUTHOR, *found.foreign, *found.ran]


@reaches("a foreign requirement over ours")
@given(steps, pipelines)
@settings(max_examples=20)
def test_nobody_is_fought(happened: list[tuple[int, tuple[Any, ...]]], pipeline: dict[str, Any]) -> None:
    """Unless the user adopts or insists, what somebody else asked for after us stays until the job is submitted again."""
    quiet = [
        (pause, what) for pause, what in happened if what[0] not in ("drift", "adopt", "submit", "reapply", "undo", "foreign")
    ]
    found = lived(quiet, **pipeline)
    if not found.fake.writes or found.memory.owned is None or not found.memory.owned.required:
        return
    theirs = {"parse": 9, "count": 9}
    found.allow(mode="act")
    found.fake.require(JOB, theirs)
    written = len(found.fake.writes)
    found.go(60)
    for _ in range(3):
        found.decide({"parse": 2, "count": 3})
        found.go(120)
    reached("a foreign requirement over ours")
    assert found.fake.writes[written:] == []
    assert found.required == theirs
    assert found.condition("Owned") == (False, "ForeignRequirement")


@given(steps, pipelines)
@settings(max_examples=20)
def test_without_permission_the_engine_is_never_asked(
    happened: list[tuple[int, tuple[Any, ...]]], pipeline: dict[str, Any]
) -> None:
    """In advise, observe, and by default."""
    harmless = [(pause, what) for pause, what in happened if what != ("mode", "act")]
    found = lived(harmless, **pipeline, allowed={"mode": None})
    assert found.fake.writes == []
