"""The configuration bound is a bound on rent, and sees what covering single resources does not."""

import random

import pytest

from benchmarks.configuration_bound import configuration_bound
from reproductions.placement.sweeps import small_instances
from surescale.rescaler.placement import Host, PlaceRequest, Task
from surescale.rescaler.placement.exact import candidates
from surescale.rescaler.placement.gap import rent_bound
from surescale.rescaler.placement.problem import problem_of


def test_the_configuration_bound_is_one_too_and_sees_what_does_not_fit_together():
    """It never exceeds the least rent; where two halves of a host do not make a whole, it is above the bound by totals."""
    for request, _ in small_instances(15, random.Random(5)):
        problem = problem_of(request)
        least = min(each.rent_per_s for each in candidates(problem))
        assert configuration_bound(problem) <= least * (1 + 1e-6)
    cluster = tuple(Host(f"h{at}", 10, 10, 4, 1.0) for at in range(6))
    problem = problem_of(PlaceRequest("cetsa", cluster, (Task("large", 4, 6, 1), Task("small", 1, 1, 1))))
    assert configuration_bound(problem) == pytest.approx(4.0)
    assert rent_bound(problem).per_s < 4.0


def test_the_configuration_bound_knows_hosts_that_have_no_room_but_for_slots():
    """A subtask that needs no memory may go where none is left; without that host the bound would pass the least rent."""
    cluster = (Host("full", 4, 8, 4, 1.0, used_memory=8), Host("empty", 4, 8, 4, 10.0))
    problem = problem_of(PlaceRequest("cetsa", cluster, (Task("t", 2, 1.0, 0.0),)))
    assert configuration_bound(problem) <= min(each.rent_per_s for each in candidates(problem)) * (1 + 1e-6)


def test_the_configuration_bound_says_where_nothing_fits():
    """More subtasks than the hosts can take."""
    cluster = (Host("a", 4, 8, 4, 1.0), Host("b", 4, 8, 4, 1.0))
    with pytest.raises(ValueError, match="cannot take"):
        configuration_bound(problem_of(PlaceRequest("cetsa", cluster, (Task("t", 9, 1.0, 1.0),))))
    assert configuration_bound(problem_of(PlaceRequest("cetsa", cluster, (Task("t", 0, 1.0, 1.0),)))) == 0.0
