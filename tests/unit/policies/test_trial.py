"""Groups without a busy counter, in a closed loop: one minute after the other through the pipeline's own memory and decisions."""

from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import pytest

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import FIGURE
from surescale.policies.dealt import carried
from surescale.policies.decide import decide_if_due
from surescale.policies.policy import Policy
from surescale.policies.question import Question
from surescale.policies.registry import Unavailable, load_policy
from surescale.policies.trial import trial_of
from tests.support.builders import row
from tests.unit.policies.test_witness import real_window, written

EACH = 300.0  # records a minute that a member gets through
NAN = float("nan")


@dataclass
class Group:
    """A consumer group on a simulated topic.

    ``counted``: its members have busy counters. ``partitions``: that its topic has; None: its work divides. ``stands``: whole
    minutes that a rebalance takes.
    """

    policy: Policy
    members: int
    counted: bool = False
    span_minutes: int = 1
    partitions: int | None = None
    stands: int = 0
    waiting: float = 0.0
    minutes: int = 0
    late: int = 0  # minutes at whose end more waits than came in it
    rescales: int = 0
    sizes: list[int] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._history = WindowHistory("prod/parse", 60)
        self._generator = np.random.default_rng(7)
        self._restarted, self._stands = False, 0

    def run(self, minutes: int, load: float) -> None:
        """Let minutes pass with records that come by chance; commits come every five seconds, and a rescale takes two."""
        for _ in range(minutes):
            came = float(self._generator.poisson(load))
            dealt = np.array([self.partitions or 0])
            even = float(carried(np.array([self.members]), dealt)[0])
            most = 0.0 if self._stands else even * EACH * (58.0 if self._restarted else 60.0) / 60.0
            done = min(self.waiting + came, most)
            self.waiting += came - done
            uncommitted = float(self._generator.uniform(0.0, done / 12.0))
            self.late += self.waiting > came
            busy = done / EACH / self.members if self.counted else NAN
            offered = float(self.members * MINUTE_MS)
            figures = row(
                records_in=done, records_out=0.0, arrived=came, queued_records_last=self.waiting + uncommitted,
                queued_records_mean=self.waiting, busy_ms=busy * offered, busy_ms_max=busy * MINUTE_MS,
                idle_ms=(1.0 - busy) * offered, backpressured_ms=0.0, parallelism=float(self.members), coverage=1.0,
                restarts=float(self._restarted),
            )  # fmt: skip
            self.minutes += 1
            spec = TaskSpec(task="parse", parallelism=self.members, max_parallelism=128, useful_max=self.partitions)
            topology = JobTopology(job="prod/parse", version=0, at_ms=0, tasks=(spec,), engine="kafka", epoch="e")
            window = self._history.close(self.minutes * MINUTE_MS, {"parse": figures}, topology)
            decision = decide_if_due(window, self.policy, JobSettings(job="prod/parse"), seed=0, span_minutes=self.span_minutes)
            self.sizes.append(self.members)
            self._restarted, self._stands = False, max(self._stands - 1, 0)
            if decision is not None:
                self.decisions.append(decision)
                self._restarted = decision.tasks[0].desired != self.members
                self.rescales += self._restarted
                self._stands = self.stands if self._restarted else self._stands
                self.members = decision.tasks[0].desired


def group(
    policy: str, members: int, *, counted: bool = False, span_minutes: int = 1, partitions: int | None = None, stands: int = 0
) -> Group:
    """Return a group under a shipped policy."""
    found = load_policy(policy)
    assert not isinstance(found, Unavailable)
    return Group(found, members, counted, span_minutes, partitions, stands)


@pytest.mark.parametrize(("policy", "span_minutes"), [("target-utilisation", 1), ("sure", 10)])
def test_a_group_without_a_busy_counter_ends_where_one_with_a_counter_does(policy: str, span_minutes: int) -> None:
    """With rises and falls of the load: hardly more members, rescales and minutes behind."""
    blind, counted = (group(policy, 6, counted=each, span_minutes=span_minutes) for each in (False, True))
    for each in (blind, counted):
        for minutes, load in ((90, 900.0), (90, 300.0), (60, 1_200.0), (120, 600.0)):
            each.run(minutes, load)
    assert abs(blind.members - counted.members) <= 1
    assert sum(blind.sizes) <= 1.05 * sum(counted.sizes)
    assert blind.late <= counted.late + 2
    assert blind.rescales <= counted.rescales + 5


def test_one_subtask_after_the_other_is_tried_and_the_one_too_many_comes_back_at_once() -> None:
    """Three do; two fall behind and get the third back within two minutes, although spans take ten. Then the cost is known."""
    found = group("target-utilisation", 5, span_minutes=10)
    found.run(100, 800.0)
    assert found.sizes[5:45:10] == [5, 4, 3, 3], found.sizes
    behind = next(decision for decision in found.decisions if "falls behind" in decision.reason)
    assert "parse falls behind with 2 subtasks and gets its former size back." in behind.reason
    assert behind.tasks[0].desired == 3
    assert found.late <= 1
    assert found.sizes.count(2) <= 2
    assert found.sizes[-40:] == [3] * 40  # 89% busy: a fourth is not worth a restart, as with a counter
    assert "unknown" not in found.decisions[-1].reason


def test_nothing_is_concluded_where_no_cost_is_known() -> None:
    """It said that next to nothing came, and that the fewest subtasks were enough."""
    served = group("sure", 1, span_minutes=10)
    served.run(60, 0.8 * EACH)
    assert "no other size can be judged, so the present 1 subtask stays" in served.decisions[-1].reason


def test_nothing_is_tried_while_there_is_only_one_member() -> None:
    """It stays."""
    found = group("target-utilisation", 1, span_minutes=1)
    found.run(60, 100.0)
    assert set(found.sizes) == {1}


def asked(
    waiting: float = 0.0,
    engine: str = "kafka",
    *,
    is_asked: bool = True,
    grown: float = 0.0,
    before: int = 6,
    settings: JobSettings = JobSettings(job="prod/job"),  # noqa: B008
    **spec: object,
) -> tuple[list[int], list[int]]:
    """Return what is tried, and what comes back, of a group of six without a busy counter that had ``before`` two minutes ago."""
    window = real_window(load=900.0, subtasks=6, tasks=("parse",), **spec)
    for name in ("busy_ms", "idle_ms", "busy_ms_max"):
        window = written(window, name, NAN, last=60)
    window = written(window, "restarts", 0.0, last=60)
    window = written(window, "queued_records_last", waiting, last=60)
    window = written(window, "queued_records_last", waiting + grown)
    if before != 6:
        window.figures[:-2, :, FIGURE["parallelism"]] = before
    window = replace(window, topology=msgspec.structs.replace(window.topology, engine=engine))
    trial = trial_of(Question.of(window, settings, 0), is_asked=is_asked)
    return trial.fewer.tolist(), trial.back.tolist()


def test_one_less_is_tried_where_nothing_has_waited_for_five_minutes() -> None:
    """A quarter of what comes in a minute may wait: commits come in waves. With more, sizes stay."""
    assert asked() == ([5], [0])
    assert asked(waiting=200.0) == ([5], [0])
    assert asked(waiting=300.0) == ([0], [0])
    assert asked(before=8) == ([0], [0])  # two minutes at the present size are too few


@pytest.mark.parametrize(
    "given",
    [
        {"is_asked": False},
        {"engine": "simulated"},
        {"settings": JobSettings(job="prod/job", emergency_growth=False)},
        {"hindrance": "partition orders[0] has not moved"},
        {"state": "finished"},
    ],
)
def test_nothing_is_tried_where_there_is_no_way_back(given: dict[str, object]) -> None:
    """Nor where no policy is asked, or fewer subtasks would be for nothing."""
    assert asked(**given) == ([0], [0])  # type: ignore[arg-type]


def test_the_former_size_comes_back_where_more_waits_than_a_minute_ago() -> None:
    """Only if the task was larger lately; not on the simulated engine."""
    assert asked(waiting=300.0, grown=200.0, before=8, is_asked=False) == ([0], [8])
    assert asked(waiting=300.0, grown=200.0) == ([0], [0])
    assert asked(waiting=300.0, grown=50.0, before=8) == ([0], [0])
    assert asked(waiting=300.0, grown=200.0, before=8, engine="simulated") == ([0], [0])


def test_where_work_is_dealt_out_the_next_even_size_is_tried() -> None:
    """Five members on six partitions carry as much as three, and would be made six again: such a group never came down."""
    assert asked(useful_max=6) == ([3], [0])
    assert asked(useful_max=8) == ([4], [0])


@pytest.mark.parametrize(("partitions", "members", "load"), [(48, 12, 3.2), (128, 16, 4.6), (100, 10, 2.2)])
def test_an_even_deal_ends_no_trial(partitions: int, members: int, load: float) -> None:
    """Twelve members on 48 partitions deal without a remainder, and ten do not: alignment made ten twelve again, for good."""
    served = group("target-utilisation", members, span_minutes=10, partitions=partitions)
    served.run(300, load * EACH)
    assert load <= served.members <= 1.8 * load
    assert served.late <= 3


def test_where_nobody_wants_even_sizes_the_next_one_is_tried() -> None:
    """Five on 24 partitions have one more each than six."""
    assert asked(useful_max=24) == ([4], [0])
    assert asked(useful_max=24, settings=JobSettings(job="prod/job", align=False)) == ([5], [0])


@pytest.mark.parametrize(("partitions", "members", "load", "stands"), [(24, 24, 4.0, 2), (60, 30, 6.0, 3), (None, 9, 3.0, 2)])
def test_a_rebalance_of_minutes_is_no_sign_that_fewer_are_too_few(
    partitions: int | None, members: int, load: float, stands: int
) -> None:
    """What gathered while nobody read brought the former size back, and counted as what the members can do at most."""
    served = group("target-utilisation", members, span_minutes=10, partitions=partitions, stands=stands)
    served.run(360, load * EACH)
    assert max(served.sizes[60:]) < members
    assert load <= served.members <= 1.8 * load


@pytest.mark.parametrize("policy", ["sure", "target-utilisation", "flink", "ds2"])
def test_members_whose_counters_fall_silent_are_not_tried_with_fewer(policy: str) -> None:
    """What a record took is known from before. After more than an hour four of six members were tried, and fell behind."""
    served = group(policy, 6, counted=True)
    served.run(40, 4.3 * EACH)
    size = served.members
    served.counted = False
    served.run(120, 4.3 * EACH)
    assert served.sizes[40:] == [size] * 120
    assert served.late == 0
