"""What a look costs grows with the job's vertices, and no faster."""

from tests.support.wide_flink import cost_of_a_look


def test_a_look_takes_a_request_for_each_vertex_and_six_more() -> None:
    """One of the six is for the only source; subtasks cost none. Eight times the vertices take about 8 times as many calls.

    Something quadratic would take 64 times as many.
    """
    few, many = cost_of_a_look(25, 100, looks=1), cost_of_a_look(200, 800, looks=1)
    assert (few.requests, many.requests) == (31, 206)
    assert many.calls < 12 * few.calls, (few, many)
