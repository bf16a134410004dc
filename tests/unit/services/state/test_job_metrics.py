"""What the state service shows of each job at /metrics."""

from surescale.services.state import metrics
from surescale.services.state.documents import JobOverview
from surescale.services.state.read.staleness import Stale
from tests.support.view_documents import overview


def shown(*jobs: JobOverview) -> dict[tuple[str, str], float]:
    """Return every reading by the last words of its metric's name and by its job."""
    prefix = "surescale_state_job_"
    return {(each.metric.name.removeprefix(prefix), each.labels[0]): each.value for each in metrics.of_jobs(jobs)}


def test_each_job_is_shown_with_its_figures() -> None:
    """In base units; what is not known has no series."""
    found = shown(overview(job="sim/a", overloaded_tasks=2, is_at_limit=True), overview(job="sim/b", latency_ms=None))
    assert (found["up", "sim/a"], found["overloaded", "sim/a"], found["at_limit", "sim/a"]) == (1.0, 1.0, 1.0)
    assert (found["overloaded", "sim/b"], found["at_limit", "sim/b"], found["fallback", "sim/b"]) == (0.0, 0.0, 0.0)
    assert (found["latency_seconds", "sim/a"], found["utilisation_ratio", "sim/a"]) == (4.6, 0.68)
    assert found["backlog_seconds", "sim/a"] == 18.0
    assert ("latency_seconds", "sim/b") not in found


def test_what_a_job_costs_and_saves_is_shown_a_second() -> None:
    """Prometheus makes days and months of it; where no price is known there is no series."""
    found = shown(overview(job="sim/a", rent_per_day=86_400.0, saved_per_day=-43_200.0), overview(job="sim/b", rent_per_day=None))
    assert (found["cost_dollars_per_second", "sim/a"], found["saved_dollars_per_second", "sim/a"]) == (1.0, -0.5)
    assert not [name for name, job in found if "dollars" in name and job == "sim/b"]


def test_a_job_that_is_down_is_not_up_and_one_that_is_gone_has_no_series() -> None:
    """Else its last figures would stay for ever."""
    found = shown(overview(job="sim/a", status="down"), overview(job="sim/b", status="ended"))
    assert found["up", "sim/a"] == 0.0
    assert {job for _, job in found} == {"sim/a"}


def test_a_job_of_which_nothing_comes_has_no_series_and_one_that_restarts_has_its_count() -> None:
    """What was true minutes ago is not told as if it were true now; how old it is, is."""
    old = Stale(role="monitor", minutes=25, words="no figures for 25 min")
    silent = overview(job="sim/a", status="unknown", age_minutes=25, stale=old)
    found = shown(silent, overview(job="sim/b", status="restarting", restarts=4))
    assert {name: value for (name, job), value in found.items() if job == "sim/a"} == {
        "figures_age_seconds": 1_500.0,
        "stale": 1.0,
    }
    assert (found["restarts", "sim/b"], found["up", "sim/b"]) == (4.0, 1.0)


def test_a_rule_that_stands_in_is_shown() -> None:
    """Whatever the reason."""
    assert shown(overview(job="sim/a", fallback_reason="no package"))["fallback", "sim/a"] == 1.0
