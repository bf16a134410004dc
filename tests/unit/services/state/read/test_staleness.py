"""A pipeline of which a role has stopped: what people and programs are told, by the wall's clock, over a view in Redis."""

import time
from collections.abc import Iterator

import pytest
import redis
from click.testing import CliRunner, Result
from msgspec.structs import replace

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_settings import Mode
from surescale.contracts.messages import ClockSegment, JobState, JobTopology
from surescale.contracts.rescaler_state import Condition, JobControl
from surescale.contracts.wire import encode
from surescale.services.state import metrics
from surescale.services.state.connection import connect
from surescale.services.state.read.fleet import dated_ahead
from surescale.services.state.read.queries import Queries
from surescale.services.state.read.staleness import Present, Signs, stale_of, why_stale
from surescale.services.state.read.status import conditions_of, status_of
from surescale.services.state.write.operations import condensed
from surescale.services.state.write.projections import Record, project
from surescale.services.state.write.view_store import ViewStore
from tests.support.builders import JOB, topology
from tests.support.command_line import job_command
from tests.support.stopped_roles import LIVED, Stopped

PREFIX = "stale-"


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    """A Redis without a view under the prefix of these tests."""
    client = connect(redis_url)
    ViewStore(client, PREFIX).flush()
    yield client
    ViewStore(client, PREFIX).flush()
    client.close()


def view_of(client: redis.Redis, stopped: Stopped) -> Queries:
    """Project what the roles wrote before they stopped."""
    store, at = ViewStore(client, PREFIX), {("decisions", 0): 0}
    assert store.begin(at, None)
    assert store.write(condensed([each for record in stopped.records() for each in project(record)]), at, at)
    store.keep(stopped.kept_ms())
    return Queries(client, PREFIX)


def told(redis_url: str, *arguments: str) -> Result:
    """Run `surescale job list`, or `show` for a job, on that view."""
    environment = {"SURESCALE_REDIS_URL": redis_url, "SURESCALE_TOPIC_PREFIX": PREFIX, "COLUMNS": "200"}
    return CliRunner(env=environment).invoke(job_command, ["show" if JOB in arguments else "list", *arguments])


@pytest.mark.parametrize(
    ("stopped", "role", "status", "words"),
    [
        (Stopped(monitor=25, spark=25, agent=25, rescaler=25), "monitor", "unknown", "no figures for 2"),
        (Stopped(spark=25), "spark", "unknown", "no figures for 2"),
        (Stopped(agent=25), "agent", "stalled", "no decision for "),
        (Stopped(rescaler=25), "rescaler", "stalled", "no answer for "),
        (Stopped(agent=25, rescaler=25), "agent", "stalled", "no decision for "),
        (Stopped(state=25), "state", "unknown", "view not updated for 2"),
        (Stopped(state=25, spark=40), "state", "unknown", "view not updated for 2"),
    ],
    ids=["all", "spark", "agent", "rescaler", "agent and rescaler", "state", "state and spark"],
)
def test_with_a_role_dead_for_25_minutes_no_job_is_fine(
    client: redis.Redis, redis_url: str, stopped: Stopped, role: str, status: str, words: str
) -> None:
    """Neither in the list nor on the job's page, in the metrics or by the exit code; the role's card has the reason."""
    queries = view_of(client, stopped)
    (overview,), whole = queries.jobs(), queries.job(JOB)
    assert overview.stale is not None
    assert overview.stale == whole.stale
    assert (overview.status, whole.status, overview.stale.role) == (status, status, role)
    assert overview.stale.words.startswith(words)
    readings = {each.metric: each.value for each in metrics.of_jobs([overview])}
    assert readings[metrics.JOB_STALE] == 1.0
    assert (readings[metrics.JOB_AGE] >= 25 * 60) is (status == "unknown")
    assert [each.role for each in queries.pipeline().stages if each.problem] == [role]
    for arguments in ((), (JOB,), ("--json",), (JOB, "--json")):
        shown = told(redis_url, *arguments)
        assert shown.exit_code == 1
        assert words in shown.stdout
        assert "fine" not in shown.stdout
    assert "`surescale doctor`" in told(redis_url).stdout


def test_no_job_is_no_good_news_where_nobody_keeps_the_view(client: redis.Redis, redis_url: str) -> None:
    """Redis was emptied, or the prefix is another one; or the view is empty because its state service died early."""
    for arguments in ((), ("--json",)):
        shown = told(redis_url, *arguments)
        assert (shown.exit_code, "no state service has kept a view" in shown.stderr) == (1, True)
    store = ViewStore(client, PREFIX)
    assert store.begin({("decisions", 0): 0}, None)
    shown = told(redis_url)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "`surescale doctor`" in shown.stdout
    store.keep(Stopped(state=25).kept_ms())
    shown = told(redis_url)
    assert (shown.exit_code, "view not updated for 25 min: " in shown.stderr) == (1, True)
    store.keep(Stopped().kept_ms())
    assert told(redis_url).exit_code == 0


def test_with_all_roles_at_work_a_job_is_fine(client: redis.Redis, redis_url: str) -> None:
    """And nothing is said of any role."""
    queries = view_of(client, Stopped())
    (overview,) = queries.jobs()
    assert (overview.status, overview.stale) == ("fine", None)
    assert {each.problem for each in queries.pipeline().stages} == {None}
    assert (told(redis_url).exit_code, told(redis_url, JOB).exit_code) == (0, 0)


def test_a_clock_that_is_wrong_is_said_on_the_card_of_its_role(client: redis.Redis) -> None:
    """Of whoever answers, and of a role whose records are dated in Kafka's future."""
    queries = view_of(client, Stopped())
    queries.clock_apart = lambda: "the clock of shop-1 is 26 h ahead of Kafka's; set it right (NTP)"
    assert {each.role: each.problem for each in queries.pipeline().stages if each.problem} == {
        "state": "the clock of shop-1 is 26 h ahead of Kafka's; set it right (NTP)"
    }
    words = "its newest record is dated 26 h ahead of Kafka's clock; set its machine's right (NTP)"
    hour_ms = 3_600_000
    assert dated_ahead({"rescaler": (26 * hour_ms, 0), "monitor": (hour_ms, hour_ms - 1_000), "agent": (0, hour_ms)}) == {
        "rescaler": words
    }
    assert dated_ahead({"spark": (None, None)}) == {}


def test_a_job_that_has_left_is_no_longer_missed(client: redis.Redis, redis_url: str) -> None:
    """Its monitor has told its end: it stands last, and neither the exit code nor a metric speaks of it."""
    view_of(client, Stopped())
    left = replace(topology(), job="sim/renamed", state="finished", version=8, at_ms=time.time_ns() // 1_000_000)
    (record,) = [Record(topics.JOB_TOPOLOGY, 0, 1_000, b"sim/renamed", encode(left), 7)]
    at = {("job-topology", 0): 1_001}
    assert ViewStore(client, PREFIX).write(condensed(list(project(record))), at, {("decisions", 0): 0})
    queries = Queries(client, PREFIX)
    assert {job.job: job.status for job in queries.jobs()} == {JOB: "fine", "sim/renamed": "ended"}
    assert {each.labels for each in metrics.of_jobs(queries.jobs())} == {(JOB,)}
    assert told(redis_url).exit_code == 0


@pytest.mark.parametrize(
    ("stopped", "role"),
    [
        (Stopped(), None),
        (Stopped(monitor=25, spark=25, agent=25, rescaler=25), "monitor"),
        (Stopped(spark=25), "spark"),
        (Stopped(agent=25, rescaler=25), None),
        (Stopped(rescaler=25), "rescaler"),
        (Stopped(state=25), "state"),
    ],
    ids=["none", "all", "spark", "agent and rescaler", "rescaler", "state"],
)
def test_a_job_at_rest_is_missed_while_nobody_looks_at_it(client: redis.Redis, stopped: Stopped, role: str | None) -> None:
    """Who would wake it learns of no record. No decision on it is due."""
    view_of(client, stopped)
    seen_ms = (time.time_ns() // 1_000_000 // MINUTE_MS - stopped.monitor - stopped.state) * MINUTE_MS
    rests = encode(replace(topology(), state="resting", version=8, at_ms=seen_ms))
    at = {("job-topology", 0): 1_001}
    records = project(Record(topics.JOB_TOPOLOGY, 0, 1_000, JOB.encode(), rests, time.time_ns() // 1_000_000))
    assert ViewStore(client, PREFIX).write(condensed(list(records)), at, {("decisions", 0): 0})
    queries = Queries(client, PREFIX)
    (overview,) = queries.jobs()
    assert (overview.state, overview.stale.role if overview.stale else None) == ("resting", role)
    assert {each.role for each in queries.pipeline().stages if each.problem} == ({role} if role else set())


NOW_MS = 100_000 * MINUTE_MS


def condition(type_: str, *, status: bool, minutes_ago: float = 0.0) -> Condition:
    """Return a condition that has been so for a while."""
    since_ms = NOW_MS - round(minutes_ago * MINUTE_MS)
    return Condition(type=type_, status=status, reason="R", message="m", last_transition_ms=since_ms, observed_generation=1)


def control(*conditions: Condition) -> JobControl:
    """Return what the rescaler says of a job."""
    return JobControl(applied_generation=1, desired_generation=1, observed_generation=1, phase="Idling", conditions=conditions)


def seen(minutes_ago: float, state: JobState = "running", **changes: object) -> JobTopology:
    """Return a job of a real engine as the monitor last saw it."""
    at_ms = NOW_MS - round(minutes_ago * MINUTE_MS)
    return replace(topology(), engine="kafka", state=state, at_ms=at_ms, **changes)


RUNS = control(condition("Available", status=True, minutes_ago=25))


@pytest.mark.parametrize(
    ("job", "gate", "unkept", "told"),
    [
        (seen(1), RUNS, 0, ("spark", "no figures yet after 25 min")),
        (seen(1, "resting"), RUNS, 0, ("spark", "no figures yet after 25 min")),
        (seen(1), control(condition("Available", status=True, minutes_ago=4)), 0, ("spark", "no figures yet after 4 min")),
        (seen(1), control(condition("Available", status=True, minutes_ago=3)), 0, None),
        (seen(1, began_ms=0), control(condition("Available", status=True)), 0, None),
        (seen(1), None, 0, None),
        (seen(25), None, 0, ("monitor", "no figures for 25 min")),
        (seen(25), RUNS, 0, ("monitor", "no figures for 25 min")),
        (seen(25, "resting"), RUNS, 0, ("monitor", "no figures for 25 min")),
        (seen(25, "created"), None, 0, ("monitor", "no figures for 25 min")),
        (seen(1, "created"), control(condition("Available", status=False, minutes_ago=25)), 0, None),
        (seen(25, "finished"), RUNS, 25, None),
        (seen(25, "failed"), RUNS, 25, None),
        (seen(1, "suspended"), None, 0, None),
        (seen(25, "suspended"), None, 0, ("monitor", "no figures for 25 min")),
        (seen(25, "waiting"), RUNS, None, ("monitor", "no figures for 25 min")),
        (seen(1, "restarting"), RUNS, 0, None),
        (seen(26), RUNS, 25, ("state", "view not updated for 25 min")),
        (seen(26, "suspended"), None, 25, ("state", "view not updated for 25 min")),
        (seen(1), RUNS, None, None),
        (replace(topology(), at_ms=0), RUNS, 0, ("spark", "no figures yet after 25 min")),
    ],
)
def test_first_figures_that_do_not_come_are_missed(
    job: JobTopology, gate: JobControl | None, unkept: int | None, told: tuple[str, str] | None
) -> None:
    """From when the rescaler first saw it run: its engine may have run it for weeks. A view that is being built lacks some."""
    kept_ms = None if unkept is None else NOW_MS - unkept * MINUTE_MS
    stale = stale_of(job, Signs(), Present((), NOW_MS, kept_ms), 10, gate)
    assert (None if stale is None else (stale.role, stale.words)) == told
    if stale is not None:
        word = "unknown" if job.state in ("running", "resting", "created") else "down"
        assert status_of(job, gate, None, mode="observe", stale=stale) == word
        assert "`surescale doctor`" in why_stale(stale, None, job.at_ms)
        (measured,) = (each for each in conditions_of(job, gate, None, stale) if each.type == "Measured")
        assert (measured.reason, measured.message.startswith(stale.words)) == ("Silent", True)


HINDERED = tuple(replace(spec, hindrance="worker 0 failed to start, 9 times in a row") for spec in topology().tasks)
LACKS = tuple(condition(name, status=name == "Degraded", minutes_ago=25) for name in ("Available", "Degraded"))


@pytest.mark.parametrize(
    ("job", "gate", "word"),
    [
        (seen(0, "created"), control(*LACKS), "down"),
        (seen(0, "created", tasks=HINDERED), control(*LACKS), "down"),
        (seen(0, "created", tasks=HINDERED), None, "down"),
        (seen(0, "created"), None, "starting"),
        (seen(0, "created", tasks=HINDERED), control(condition("Available", status=False, minutes_ago=1)), "starting"),
        (seen(0, "created"), control(condition("Available", status=False, minutes_ago=1), LACKS[1]), "starting"),
        (seen(0, "created"), control(LACKS[0], condition("Degraded", status=True, minutes_ago=1)), "starting"),
        (seen(25, "created"), None, "unknown"),
        (seen(25, "created", tasks=HINDERED), None, "down"),
    ],
)
@pytest.mark.parametrize("mode", ["act", "observe"])
def test_a_job_that_never_starts_is_down(job: JobTopology, gate: JobControl | None, word: str, mode: Mode) -> None:
    """A worker that crashes at its start, a group that is not there, slots that never come: nobody need wait for it."""
    stale = stale_of(job, Signs(), Present((), NOW_MS, NOW_MS), 10, gate)
    assert status_of(job, gate, None, mode=mode, stale=stale) == word


def test_jobs_that_do_not_run_end_with_exit_code_1(client: redis.Redis, redis_url: str) -> None:
    """In the list and alone, for programs too."""
    view_of(client, Stopped())
    failed = encode(replace(topology(), state="failed", version=8, at_ms=time.time_ns() // 1_000_000))
    at = {("job-topology", 0): 1_001}
    records = project(Record(topics.JOB_TOPOLOGY, 0, 1_000, JOB.encode(), failed, time.time_ns() // 1_000_000))
    assert ViewStore(client, PREFIX).write(condensed(list(records)), at, {("decisions", 0): 0})
    assert [told(redis_url, *more).exit_code for more in ((), (JOB,), ("--json",))] == [1, 1, 1]


def test_a_single_job_that_lacks_something_is_on_the_card_of_the_role(client: redis.Redis) -> None:
    """The others of its cluster have it: no banner on every page, and the card does not keep silent. So is who watches it."""
    queries, now_ms = view_of(client, Stopped()), time.time_ns() // 1_000_000
    told = {"sim/late": 25, "sim/later": 40, "else/alone": 25}
    last = replace(topology(), engine="kafka", state="suspended", version=8)
    jobs = [replace(last, job=job, at_ms=now_ms - ago * MINUTE_MS) for job, ago in told.items()]
    records = [Record(topics.JOB_TOPOLOGY, 0, 1_000 + at, job.job.encode(), encode(job), now_ms) for at, job in enumerate(jobs)]
    changes = condensed([each for record in records for each in project(record)])
    assert ViewStore(client, PREFIX).write(changes, {("job-topology", 0): 1_003}, {("decisions", 0): 0})
    stages = {each.role: each for each in queries.pipeline().stages}
    assert stages["monitor"].notes == ("shop-1:77 watches sim", "sim/late and 1 more job of sim: no figures for 25 min")
    assert (stages["monitor"].problem or "").startswith("else: no figures for 25 min: ")
    assert [stage.notes for role, stage in stages.items() if role != "monitor"] == [()] * (len(stages) - 1)


@pytest.mark.parametrize(("minutes", "is_gone"), [(24 * 60, False), (3 * 24 * 60, True)])
def test_a_job_that_is_gone_for_good_names_what_ends_that(
    client: redis.Redis, redis_url: str, minutes: int, *, is_gone: bool
) -> None:
    """Its cluster has another name, or nobody watches it any more: no monitor will tell its end."""
    queries = view_of(client, Stopped(monitor=minutes, spark=minutes, agent=minutes, rescaler=minutes))
    assert (f"`surescale job forget {JOB}`" in " ".join(told(redis_url).stdout.split())) is is_gone
    problem = next(stage.problem for stage in queries.pipeline().stages if stage.role == "monitor")
    assert ("`surescale job forget JOB`" in (problem or "")) is is_gone


def test_before_the_first_decision_is_due_nothing_is_missing(client: redis.Redis) -> None:
    """Then it is: the agent never came. A longer span gives it longer."""
    assert LIVED < 60
    queries = view_of(client, Stopped(agent=300))
    queries.span_minutes = 24 * 60
    ViewStore(client, PREFIX).client.delete(*client.scan_iter(f"*{PREFIX}*decisions*"))
    assert queries.jobs()[0].stale is None
    queries.span_minutes = 10
    stale = queries.jobs()[0].stale
    assert stale is not None
    assert stale.words == "no decision yet"


def clock(speed: float = 1.0, until_minute: int = 1_000, end_minute: int | None = 1_000) -> ClockSegment:
    """Return a clock that starts at 0 when the wall's does."""
    end_ms = None if end_minute is None else end_minute * MINUTE_MS
    return ClockSegment(
        pipeline="main", sequence=0, e0_ms=0, w0_ms=0, speed=speed, until_ms=until_minute * MINUTE_MS, end_ms=end_ms
    )


@pytest.mark.parametrize(
    ("clocks", "wall_ms", "minutes"),
    [
        ([], 13 * MINUTE_MS - 1, 2),
        ([], 13 * MINUTE_MS, 3),
        ([clock()], 13 * MINUTE_MS, 3),
        ([clock(speed=60.0)], 2 * MINUTE_MS, 1),
        ([clock(speed=60.0)], 4 * MINUTE_MS, 3),
        ([clock(until_minute=12)], 100 * MINUTE_MS, 90),
        ([clock(speed=60.0, until_minute=70)], 26 * MINUTE_MS, 25),
        ([clock(until_minute=12, end_minute=12)], 100 * MINUTE_MS, 2),
        ([clock(), clock(until_minute=5, end_minute=5)], 13 * MINUTE_MS, 0),
    ],
)
def test_an_age_is_told_by_the_clock_of_the_pipeline_and_by_the_wall_where_that_stands(
    clocks: list[ClockSegment], wall_ms: int, minutes: int
) -> None:
    """A clock that waits for an answer goes on by the wall's; one whose trace has ended does not."""
    assert Present(clocks, wall_ms).minutes_since(10 * MINUTE_MS) == minutes


@pytest.mark.parametrize(
    ("seconds", "seen", "role"),
    [
        (0, 0, None),
        (74, 0, None),
        (134, 0, None),
        (135, 0, "monitor"),
        (135, 10, "monitor"),
        (135, 60, "spark"),
        (600, 16, "spark"),
    ],
)
def test_two_minutes_that_are_due_and_do_not_come_are_missed(seconds: int, seen: int, role: str | None) -> None:
    """Of one alone nothing is said. Where the monitor has seen the job since, Spark is at fault, at once."""
    newest_ms = 100_000 * MINUTE_MS
    job = replace(topology(), engine="kafka", at_ms=newest_ms + seen * 1_000)
    signs = Signs(newest_ms, newest_ms - 30 * MINUTE_MS, (newest_ms,))
    stale = stale_of(job, signs, Present((), newest_ms + seconds * 1_000), 10)
    assert (stale.role if stale else None) == role
    assert stale is None or stale.words == f"no figures for {seconds // 60} min"


@pytest.mark.parametrize(("behind", "long"), [(3, "3 min"), (30, "30 min"), (24 * 60, "24 h 0 min")])
def test_by_a_clock_that_is_behind_no_job_is_fine(behind: int, long: str) -> None:
    """Its newest minute has not come yet: who answers so cannot tell what is new, and says whose clock it is."""
    newest_ms = 100_000 * MINUTE_MS
    signs = Signs(newest_ms, newest_ms - 30 * MINUTE_MS, (newest_ms,))
    stale = stale_of(topology(), signs, Present((), newest_ms - behind * MINUTE_MS), 10)
    assert stale is not None
    assert (stale.role, stale.minutes) == ("state", behind)
    assert stale.words == f"the clock of the machine that answers is {long} behind; set it right (NTP)"
    assert "which has not come yet by its clock" in why_stale(stale, newest_ms, None)
    assert status_of(topology(), None, None, mode="act", stale=stale) == "unknown"
    assert stale_of(topology(), signs, Present((), newest_ms - 2 * MINUTE_MS), 10) is None
