"""Candidates, scores and expectations on a twin of a simulated job."""

import numpy as np
import pytest
from msgspec.structs import replace

from surescale.contracts.job_settings import JobSettings, LatencyBound, TaskLimits
from surescale.contracts.messages import Tuning
from surescale.policies.departure import STRETCHES, departure, per_record
from surescale.policies.registry import Unavailable, load_policy
from surescale.simulation.calibration.fit import fit
from surescale.simulation.calibration.recorded import put_together
from surescale.simulation.model.worlds import world_named
from surescale.simulation.tournament.candidates import Candidate, candidates
from surescale.simulation.tournament.score import Aim, Scored, TwinError
from surescale.simulation.tournament.verdict import expectation
from surescale.simulation.what_if.play import Variant, play
from surescale.simulation.what_if.scenario import scenario_of
from tests.support.simulated_recordings import sized, windows_of

JOB = sized("j_756953")
WINDOWS = windows_of(JOB, world_named("drift", seed=2), 8)
RECORDED = put_together(WINDOWS[0].job, WINDOWS)
GROUND = scenario_of(RECORDED, fit(RECORDED))
SETTINGS = JobSettings(job=RECORDED.job)
AIM = Aim.of(SETTINGS, GROUND.job.path_minutes)
ERROR = TwinError(working=0.05, waiting=1.0)
SHIPPED = [load_policy(name) for name in ("forecast", "ds2-gate")]


def others(settings: JobSettings) -> list[Candidate]:
    """Return who takes part beside the policy that serves, of the policies of this test."""
    first = Candidate.of(load_policy("hold"))
    found = candidates(GROUND, settings, Aim.of(settings, AIM.path_minutes), SHIPPED, [first, first], lambda stage, share: None)
    assert found[0] is first
    return found[1:]


def test_rules_and_a_constant_take_part_and_a_release_can_carry_each() -> None:
    """What calibration found stands in the record, and the policy made from the record is the same one."""
    found = {each.name: each for each in others(SETTINGS)}
    assert sorted(found) == ["ds2-gate", "forecast", "static"]
    assert set(found["ds2-gate"].tuned.constants) == {"utilisation", "need", "saving", "estimate"}
    assert set(found["forecast"].tuned.constants) == {"utilisation", "need", "saving"}
    assert set(found["static"].tuned.sizes) == {spec.task for spec in RECORDED.topology.tasks if spec.scalable}
    assert not any(isinstance(each.policy, Unavailable) for each in found.values())


def test_the_constant_keeps_what_the_owner_allows() -> None:
    """Bounds, pins and the total hold for it as for any policy."""
    names = [spec.task for spec in RECORDED.topology.tasks if spec.scalable]
    own = {names[0]: TaskLimits(parallelism_min=3), names[1]: TaskLimits(pinned=True)}
    tight = JobSettings(job=RECORDED.job, parallelism_max=4, total_limit=10, tasks=own)
    sizes = next(each for each in others(tight) if each.name == "static").tuned.sizes
    assert max(size for name, size in sizes.items() if name != names[1]) <= 4
    assert sizes[names[0]] >= 3
    assert sizes[names[1]] == int(GROUND.job.start_parallelism[1 + names.index(names[1])])
    assert sum(sizes.values()) <= max(10, sizes[names[1]] + 3 + len(sizes) - 2)


def test_a_score_is_the_reward_of_the_owners_objective() -> None:
    """Who weighs cost more gains more by a wide job's being narrowed; a bound counts minutes above it."""
    variant = Variant("", load_policy("target-utilisation"), SETTINGS, None)
    played = [play(GROUND, variant, draw=draw, seed=0, told=lambda share: None) for draw in range(2)]
    hours = Scored.of(played, GROUND, AIM)
    utilisation, latency = hours.mean(hours.working), hours.mean(hours.waiting)
    for objective, weight in (("cost", 0.3), ("balanced", 0.5), ("latency", 0.7)):
        aim = Aim.of(JobSettings(job=RECORDED.job, objective=objective), AIM.path_minutes)  # type: ignore[arg-type]
        assert hours.mean(hours.rewards(aim)) == pytest.approx((1 - weight) * utilisation - weight * latency)
    bound = Aim.of(JobSettings(job=RECORDED.job, objective=LatencyBound(seconds=1e-3)), AIM.path_minutes)
    above = Scored.of(played, GROUND, bound)
    assert above.mean(above.waiting) == 1.0
    never = Aim.of(JobSettings(job=RECORDED.job, objective=LatencyBound(seconds=86_400.0)), AIM.path_minutes)
    assert Scored.of(played, GROUND, never).waiting.max() == 0.0


def test_what_is_expected_holds_in_the_twin_itself() -> None:
    """No stretch that the winner was played in, or that was recorded, departs from it; one with twice the work does."""
    variant = Variant("", load_policy("target-utilisation"), SETTINGS, None)
    played = [play(GROUND, variant, draw=draw, seed=0, told=lambda share: None) for draw in range(2)]
    expected = expectation(played, GROUND, ERROR)
    load = GROUND.load.astype(np.float64)
    for each in played:
        for minutes in STRETCHES:
            waiting = per_record(each.waiting, load, minutes)
            assert np.nanmax(waiting) <= expected.waiting_most
    for window in WINDOWS:
        told = departure(window, expected, 0)
        assert "of work" not in told
    dear = replace(expected, work_least=0.0, work_most=expected.work_least / 2.0)
    assert "of work" in departure(WINDOWS[-1], dear, 0)


def test_only_known_constants_get_into_a_record() -> None:
    """A candidate whose policy cannot have its constants would be one that never answers."""
    assert isinstance(Candidate.of(load_policy("hold"), Tuning(constants={"need": 0.1})).policy, Unavailable)
