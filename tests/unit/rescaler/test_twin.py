"""Twins: the same controller between decision and engine as in the pipeline, in the simulator."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.archive import load_job, where
from surescale.contracts.commands import Progress
from surescale.contracts.decisions import Decision
from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.windows import Window
from surescale.policies.decide import decide
from surescale.policies.registry import load_policy
from surescale.rescaler.cli.twin import command
from surescale.rescaler.control.settings import ControlSettings, PlacingSettings
from surescale.rescaler.twin import InProcessRescaler, run_twin
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.engine.episode import Episode, run_episode
from surescale.simulation.engine.job_report import RunFigures
from surescale.simulation.load.workload import load_workload
from surescale.simulation.model.costs import RestartCost, with_learners

JOBS = ("j_2521346", "j_1351665")


def twin(policy: str, minutes: int = 60) -> Episode:
    """A twin of two jobs under the morning ramp."""
    workload = load_workload("clarknet")
    jobs = [load_job(job, workload) for job in JOBS]
    return run_twin(jobs, workload, load_policy(policy), options=RunOptions(minutes=minutes))


def test_a_twin_follows_its_policy() -> None:
    """Static goes to what was configured and stays; hold never leaves the start."""
    for job, report in twin("static").reports.items():
        assert report.rescales <= 2, job
        assert report.parallelism[-1] != report.parallelism[0]
    assert all(len(set(report.parallelism)) == 1 for report in twin("hold").reports.values())


def test_two_twins_with_one_seed_are_equal() -> None:
    """The same run gives the same figures and the same commands."""
    one, other = twin("target-utilisation"), twin("target-utilisation")
    assert one.reports == other.reports
    assert one.commands == other.commands


def test_a_command_of_a_twin_takes_effect_one_minute_after_its_stop() -> None:
    """A decision at a span's end is in force one event minute later, at the cost of one minute's restart."""
    episode = twin("static", minutes=15)
    first = episode.commands[0]
    report = episode.reports[first.job]
    at_minute = (first.issued_at_ms - episode.cluster.start_ms) // 60_000
    assert at_minute == 10
    assert len(set(report.parallelism[: at_minute + 1])) == 1
    assert report.parallelism[at_minute + 1] != report.parallelism[at_minute]


def test_every_decision_of_a_twin_has_an_answer() -> None:
    """The answer keeps what the controller said: each decision of the episode got an outcome."""
    workload = load_workload("clarknet")
    policy, allowed = load_policy("static"), {f"sim/{JOBS[0]}": JobSettings(job=f"sim/{JOBS[0]}")}
    answer = InProcessRescaler("sim", ControlSettings(), allowed)

    def decided(window: Window) -> Decision:
        return decide(window, policy, allowed[window.job], seed=0)

    episode = run_episode([load_job(JOBS[0], workload)], workload, decided, answer, options=RunOptions(minutes=40))
    said = {outcome.decision_id for effects in answer.effects for outcome in effects.outcomes}
    assert said == {decision.decision_id for decision in episode.decisions}
    assert len(said) == 4


class Recorder(InProcessRescaler):
    """Writes down what the actuator reports."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.reports: list[Progress] = []

    def progressed(self, progress: Progress, cluster: SimulatedCluster) -> None:
        """Keep the report, then hand it on."""
        self.reports.append(progress)
        super().progressed(progress, cluster)


def test_a_twin_reports_as_the_actuator_of_the_pipeline_does() -> None:
    """Accepted once, warming once a minute while learners restore state, then applied: the reports of ``UnitsExecution``."""
    workload, policy = load_workload("clarknet"), load_policy("static")
    allowed = {f"sim/{JOBS[1]}": JobSettings(job=f"sim/{JOBS[1]}")}
    recorder = Recorder("sim", ControlSettings(), allowed)

    def decided(window: Window) -> Decision:
        return decide(window, policy, allowed[window.job], seed=0)

    options = RunOptions(minutes=60, cost=with_learners(restore_bytes_per_s=2**20))
    episode = run_episode([load_job(JOBS[1], workload)], workload, decided, recorder, options=options)
    by_command: dict[str, list[str]] = {}
    for report in recorder.reports:
        by_command.setdefault(report.command_id, []).append(report.status)
    assert list(by_command) == [command.command_id for command in episode.commands]
    prepared, committed = (by_command[command.command_id] for command in episode.commands[:2])
    assert (prepared[0], prepared[-1], set(prepared[1:-1])) == ("accepted", "applied", {"warming"})
    assert committed == ["accepted", "applied"]


def test_the_command_writes_the_promised_keys(tmp_path: Path) -> None:
    """`surescale policy twin` answers with the figures of each policy under each job, also into a file."""
    output = tmp_path / "twins.json"
    arguments = [
        "--job",
        where(JOBS[0]),
        "--workload",
        "clarknet",
        "--minutes",
        "20",
        "--policy",
        "hold",
        "--policy",
        "static",
        "--out",
        str(output),
    ]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert (done.exit_code, done.output) == (0, "")
    written = json.loads(output.read_text())
    figures = written["jobs"][f"sim/{JOBS[0]}"]
    assert set(figures) == set(written["rent"]) == {"hold", "static"}
    assert set(figures["hold"]) == {*RunFigures.__struct_fields__, "rent"}
    assert len(figures["hold"]["parallelism"]) == 20


def test_placement_by_cost_changes_the_rent_and_nothing_else() -> None:
    """Placed by cost, a twin pays much less than what spreading pays, for the same parallelism and the same reward."""
    workload = load_workload("clarknet")
    jobs = [load_job(job, workload) for job in JOBS]
    settings = [ControlSettings(placing=PlacingSettings(algorithm)) for algorithm in ("cetsa", "spread")]
    policy, options = load_policy("target-utilisation"), RunOptions(minutes=120)
    cheap, spread = (run_twin(jobs, workload, policy, options=options, settings=each) for each in settings)
    assert cheap.reports == spread.reports
    assert cheap.rent_costs.dollars < 0.6 * spread.rent_costs.dollars
    for bill in cheap.rent_costs.jobs.values():
        assert bill.saved_round_robin > 0
        assert bill.saved_default > 0


def test_a_twin_holds_the_bill_of_every_minute() -> None:
    """A job that never changes pays for its hosts from the first to the last minute, and claims no savings."""
    held = twin("hold")
    for job, bill in held.rent_costs.jobs.items():
        assert bill.dollars == pytest.approx(bill.per_s * 3600), job
        assert (bill.saved_round_robin, bill.saved_default) == (0, 0)
    assert held.rent_costs.dollars <= sum(bill.dollars for bill in held.rent_costs.jobs.values())


def test_learners_give_the_same_changes_at_less_cost() -> None:
    """With state warmed beforehand a twin waits less than with restarts, and every change that moved state was prepared."""
    workload = load_workload("clarknet")
    jobs, policy = [load_job(job, workload) for job in JOBS], load_policy("target-utilisation")
    restart, learners = (
        run_twin(jobs, workload, policy, options=RunOptions(minutes=120, cost=cost)) for cost in (RestartCost(), with_learners())
    )
    for job, report in learners.reports.items():
        assert report.rescales > 0
        assert report.latency_p99_s < restart.reports[job].latency_p99_s
    assert {command.action for command in learners.commands} == {"prepare", "commit"}


def test_a_twin_outlives_a_host() -> None:
    """The busiest host dies in the middle; jobs run at the end, on living hosts, and nothing stays under way forever."""
    workload = load_workload("clarknet")
    jobs, options = (
        [load_job(job, workload) for job in JOBS],
        RunOptions(minutes=90, cost=with_learners(), kill_host_minutes=(33,)),
    )
    episode = run_twin(jobs, workload, load_policy("target-utilisation"), options=options)
    alive = episode.cluster.hosts.host_of()
    assert [event.kind for event in episode.cluster.events].count("host_lost") == 1
    for job in episode.cluster.jobs.values():
        assert {unit for spec in job.topology.tasks for unit in spec.units} <= alive.keys()
        assert job.state_at(episode.cluster.now_ms) == "running"


def test_an_unknown_policy_is_named() -> None:
    """A policy that does not exist is an error that lists those that do, not a run of the rule in its place."""
    with pytest.raises(SettingsError, match="there is no policy 'sur'; did you mean"):
        CliRunner().invoke(command, ["--policy", "sur"], catch_exceptions=False)
