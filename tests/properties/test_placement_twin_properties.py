"""Placement against plain loops: the figures it reports, and what its algorithms choose."""

from dataclasses import replace
from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from surescale.rescaler.placement import place
from tests.support.naive_placement import Naive, naive_communication, naive_load, naive_std
from tests.support.placement_requests import quick, requests


@quick
@given(requests())
def test_reported_figures_equal_a_recomputation(request):
    """Rent, loads, deviations and traffic again from the assignment, pair by pair."""
    answer = place(request)
    host_of = {host.id: host for host in request.hosts}
    used = set(answer.assignment.values())
    assert isclose(answer.cost.resource_per_s, sum(host_of[name].price for name in used), rel_tol=1e-12)
    loads = {host.id: naive_load(request, answer, host) for host in request.hosts}
    assert all(isclose(use.load, load, abs_tol=1e-12) for use, load in zip(answer.hosts, loads.values(), strict=True))
    assert isclose(answer.load.std, naive_std(loads.values()), abs_tol=1e-9)
    assert isclose(answer.load.std_used, naive_std([loads[name] for name in sorted(used)]), abs_tol=1e-9)
    assert isclose(answer.cost.communication_per_s, naive_communication(request, answer), rel_tol=1e-9, abs_tol=1e-15)


@quick
@given(requests(), st.sampled_from(["cetsa", "ff", "rr", "default", "gs-bfd"]))
def test_fast_algorithms_equal_their_naive_twins(request, algorithm):
    """Segment trees and columns give what plain loops give."""
    params = replace(request.params, cold_start="estimate", mode="fresh")
    fresh = replace(request, algorithm=algorithm, params=params, placement={})
    naive = Naive(fresh)
    assert place(fresh).assignment == (naive.run() if naive.stl() else {})
