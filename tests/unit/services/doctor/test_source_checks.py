"""What the doctor says of sources beside the engine: Prometheus, consumer groups and the file that names them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.engines.groups.chains import Group, Workers
from surescale.engines.ports.findings import Finding
from surescale.engines.processes.doctor import processes
from surescale.engines.prometheus import PrometheusSettings
from surescale.engines.registry import checks_of
from surescale.engines.settings import SourceSettings
from surescale.runtime.ports import free_port
from tests.support.fake_prometheus import FakePrometheus, fake_prometheus
from tests.support.role_settings import role_settings, write_groups
from tests.support.stub_server import StubResponse
from tests.support.waiting import wait_until
from tests.support.worker_processes import BROKEN, CLUSTER, chain_of, kill_all, reconciled, reconciler_of

FILE = """
[orders]
subtask = ["pod"]
[orders.tasks.parse]
[orders.tasks.count]
upstream = ["parse"]
[orders.figures]
records_in = 'in_total'
records_out = 'out_total'
busy = 'busy_seconds_total'
"""
NAMES = ("in_total", "out_total", "busy_seconds_total")


@pytest.fixture
def prometheus() -> Iterator[FakePrometheus]:
    """One that has all figures of both tasks."""
    with fake_prometheus() as found:
        for name in NAMES:
            found.series[name] = [({"task": task, "pod": "a"}, 12.0) for task in ("parse", "count")]
        yield found


@pytest.fixture
def settings(prometheus: FakePrometheus, tmp_path: Path) -> SourceSettings:
    """The settings of a monitor that takes its figures from there."""
    file = tmp_path / "prometheus.toml"
    file.write_text(FILE)
    return role_settings(
        SourceSettings,
        engine="flink",
        source="prometheus",
        actuator="none",
        engine_url=f"http://127.0.0.1:{free_port()}",  # nobody asks it
        prometheus_url=prometheus.url,
        prometheus_file=str(file),
    )


def said(settings: SourceSettings) -> list[tuple[str, str]]:
    """Verdict and detail of each finding."""
    return [(each.verdict, each.detail) for each in checks_of(settings)]


def test_figures_that_are_all_there_are_fine(settings: SourceSettings, prometheus: FakePrometheus) -> None:
    """With how old the oldest is. Flink is not asked: it may be out of reach."""
    assert said(settings) == [
        ("ok", f"{prometheus.url} answers"),
        ("ok", "orders: 3 figures of 2 tasks, the oldest from 5 s ago"),
    ]


def test_a_task_without_series_is_a_problem_only_where_records_are_missing(
    settings: SourceSettings, prometheus: FakePrometheus
) -> None:
    """Without its busy time a task is merely sized with less certainty; the last one need not send on."""
    for name in NAMES:
        prometheus.series[name] = prometheus.series[name][:1]
    (_, first, second) = checks_of(settings)
    assert (first.verdict, first.detail) == ("problem", "orders.figures.records_in: no series of count ('count')")
    assert (second.verdict, second.detail) == ("warning", "orders.figures.busy: no series of count ('count')")


def test_figures_that_are_too_old_are_named_with_their_age(settings: SourceSettings, prometheus: FakePrometheus) -> None:
    """A minute that is hours old is no figure."""
    prometheus.age_s = 300.0
    assert said(settings)[1:] == [
        ("problem", "orders.figures.records_in: last scraped 5 min ago"),
        ("problem", "orders.figures.records_out: last scraped 5 min ago"),
        ("warning", "orders.figures.busy: last scraped 5 min ago"),
    ]


def test_two_series_for_one_subtask_are_a_problem(settings: SourceSettings, prometheus: FakePrometheus) -> None:
    """With both, and what to do; the other figures are checked all the same."""
    prometheus.series["busy_seconds_total"].append(({"task": "parse", "pod": "a", "thread": "2"}, 1.0))
    ((verdict, detail),) = said(settings)[1:]
    assert (verdict, "two series for task parse subtask a" in detail, "over" in detail) == ("problem", True, True)


def test_values_that_are_no_figures_are_a_warning(settings: SourceSettings, prometheus: FakePrometheus) -> None:
    """They stay unknown."""
    prometheus.series["busy_seconds_total"][0][0]["task"] = "parse"
    prometheus.series["busy_seconds_total"] = [(labels, float("nan")) for labels, _ in prometheus.series["busy_seconds_total"]]
    assert said(settings)[1:] == [("warning", "orders.figures.busy: a value that is negative, infinite or no number")]


def test_a_replica_that_is_away_stops_nothing(settings: SourceSettings, prometheus: FakePrometheus, tmp_path: Path) -> None:
    """The next one is asked, as the monitor does."""
    away = f"http://127.0.0.1:{free_port()}"
    both = role_settings(
        SourceSettings,
        engine="flink",
        source="prometheus",
        actuator="none",
        prometheus_url=f"{away},{prometheus.url}",
        prometheus_file=settings.part(PrometheusSettings).prometheus_file,
    )
    verdicts = [each.verdict for each in checks_of(both)]
    assert verdicts == ["problem", "ok", "ok"]
    prometheus.ahead_s = -4000.0
    verdicts, details = zip(*said(both), strict=True)
    assert verdicts == ("problem", "problem")
    assert details[1] == f"the clock of {prometheus.url} is 67 min behind this machine's"


def test_a_server_that_is_no_prometheus_is_named(settings: SourceSettings, prometheus: FakePrometheus) -> None:
    """By what it answers."""
    prometheus.instead = lambda _: StubResponse(200, b"<html>hello</html>")
    ((verdict, detail),) = said(settings)
    assert (verdict, "does not answer as Prometheus does" in detail) == ("problem", True)


def test_a_file_that_cannot_be_used_is_named(settings: SourceSettings) -> None:
    """With the field."""
    Path(settings.part(PrometheusSettings).prometheus_file).write_text("[orders.tasks.parse]\nseres = 'x'\n")
    ((verdict, detail),) = said(settings)
    assert (verdict, "seres" in detail) == ("problem", True)


def test_the_groups_of_an_actuator_are_checked_all_the_same(settings: SourceSettings, tmp_path: Path) -> None:
    """The file says how their workers are started. No broker is asked: the figures come from elsewhere."""
    file = tmp_path / "groups.json"
    known = settings.part(PrometheusSettings)
    given = {"source": "prometheus", "prometheus_url": known.prometheus_url, "prometheus_file": known.prometheus_file}
    own = {"engine": "kafka", "actuator": "processes", "groups_file": str(file), "workers_folder": str(tmp_path)}
    acting = role_settings(SourceSettings, **given, **own)

    def of_engine() -> list[Finding]:
        return [each for each in checks_of(acting) if each.subject == "engine"]

    (problem,) = of_engine()
    assert (problem.verdict, str(file) in problem.detail) == ("problem", True)
    file.write_text(json.dumps({"orders": {"groups": {"parse": {}}}}))
    (fine,) = of_engine()
    assert (fine.verdict, fine.detail) == ("ok", f"consumer groups: jobs orders of {file}")


def test_a_worker_that_crashes_at_its_start_is_a_problem(tmp_path: Path) -> None:
    """With its exit code and what it said last; once it lives there is none."""
    chain = chain_of({"parse": 1}, script=BROKEN)
    reconciler, file = reconciler_of(tmp_path, chain), tmp_path / "groups.json"
    settings = role_settings(
        SourceSettings,
        engine="kafka",
        actuator="processes",
        cluster=CLUSTER,
        groups_file=str(file),
        workers_folder=str(tmp_path),
    )
    write_groups(settings, **{chain.name: chain.groups})
    (none_yet,) = processes(settings)
    assert (none_yet.verdict, none_yet.detail) == ("warning", "orders: none was started yet")
    wait_until(lambda: [reconciler.reconcile(), reconciler.store.failure(chain.name, "parse", 0)][1], what="its failure")
    (problem,) = processes(settings)
    assert problem.verdict == "problem"
    assert "orders: worker parse 0 failed to start" in problem.detail
    assert "exit code 3; its last output: no such topic" in problem.detail
    reconciler.store.note_failure(chain.name, "parse", 0, None)
    (fine,) = processes(settings)
    assert (fine.verdict, fine.detail) == ("ok", "orders: 0 live, 1 are asked for")


def test_workers_whose_job_has_another_name_now_are_named_until_they_have_ended(tmp_path: Path) -> None:
    """Nobody looks after them, and they read beside those of the new name."""
    own = {"engine": "kafka", "actuator": "processes", "groups_file": str(tmp_path / "groups.json")}
    settings = role_settings(SourceSettings, cluster=CLUSTER, workers_folder=str(tmp_path), **own)
    chain = chain_of({"parse": 1}, name="before")
    reconciler = reconciler_of(tmp_path, chain)
    try:
        reconciled(reconciler, "before", {"parse": 1})
        write_groups(settings, before=chain.groups)
        assert [each.verdict for each in processes(settings)] == ["ok"]
        write_groups(settings, after=chain.groups)
        fresh, left = processes(settings)
        assert (fresh.detail, left.verdict) == ("after: none was started yet", "warning")
        assert left.detail.startswith("before: 1 worker of a job that the groups file does not have")
        assert left.remedy == "`surescale workers stop before` ends them once they have finished"
    finally:
        kill_all(reconciler.store)
    wait_until(lambda: len(list(processes(settings))) == 1, what="its end")


def test_a_worker_whose_program_is_missing_is_a_problem_before_any_was_started(tmp_path: Path) -> None:
    """Each task of it by its field; one that can be started is none, also from the folder of the file."""
    own = {"engine": "kafka", "actuator": "processes", "groups_file": str(tmp_path / "groups.json")}
    settings = role_settings(SourceSettings, cluster=CLUSTER, workers_folder=str(tmp_path), **own)
    commands = {"parse": "no-such-program", "rate": "./rate.sh"}
    write_groups(settings, orders={task: Group(workers=Workers((program,))) for task, program in commands.items()})
    assert [(each.verdict, each.detail.partition(":")[0]) for each in processes(settings)] == [
        ("problem", f"orders.groups.{task}.workers.command") for task in commands
    ]
    (tmp_path / "rate.sh").touch(mode=0o755)
    (missing,) = processes(settings)
    assert "parse.workers.command: no program 'no-such-program' was found on the path" in missing.detail


def test_a_broker_that_is_away_is_a_problem() -> None:
    """Named as the Kafka that the groups read; no simulated engine is looked for."""
    settings = SourceSettings(engine="kafka", bootstrap=f"127.0.0.1:{free_port()}")
    engine_, groups = checks_of(settings)
    assert (engine_.verdict, engine_.detail) == ("ok", "consumer groups: every group with members is a job")
    assert (groups.verdict, "which the groups read, does not answer" in groups.detail) == ("problem", True)
