"""Random placement requests, for hypothesis: clusters, DAGs, options, and placements that run already."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from surescale.rescaler.placement import ALGORITHMS, Edge, History, Host, Network, Params, PlaceRequest, Subtask, Task

quick = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])

amounts = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0, 1.3, 2.0, 3.5])


@st.composite
def hosts(draw, most=7):
    """Some hosts, with background use, history, zones, drained ones among them."""
    found = []
    for at in range(draw(st.integers(1, most))):
        history = History(
            cost=draw(st.none() | st.floats(0, 10)),
            tuples=draw(st.none() | st.sampled_from([0.0, 1.0, 100.0])),
            busy=tuple(draw(st.lists(st.floats(0, 1), max_size=2))),
        )
        cpu, memory = draw(st.sampled_from([1.0, 2.0, 4.0, 8.0])), draw(st.sampled_from([2.0, 4.0, 8.0]))
        found.append(
            Host(f"h{at}", cpu, memory, draw(st.integers(0, 5)), draw(st.sampled_from([0.0, 1.0, 1.5, 2.0, 7.0])),
                 zone=draw(st.sampled_from("xy")), used_cpu=draw(st.sampled_from([0.0, 0.5, 3.0])),
                 used_slots=draw(st.integers(0, 1)), history=history)
        )  # fmt: skip
    return tuple(found)


@st.composite
def requests(draw, most_hosts=7, most_tasks=4, most_width=6):
    """A whole request: hosts, a DAG, options, and sometimes a placement that runs already."""
    count = draw(st.integers(1, most_tasks))
    tasks = tuple(Task(f"t{at}", draw(st.integers(0, most_width)), draw(amounts), draw(amounts)) for at in range(count))
    edges = []
    for left in range(count):
        for right in range(left + 1, count):
            if draw(st.booleans()):
                same = tasks[left].parallelism == tasks[right].parallelism
                pattern = draw(st.sampled_from(["all", "forward"] if same else ["all"]))
                edges.append(Edge(f"t{left}", f"t{right}", draw(st.sampled_from([0.0, 1e4, 1e6])), 200.0, pattern))
    cluster = draw(hosts(most_hosts))
    names = [host.id for host in cluster] + ["gone"]
    running = draw(
        st.dictionaries(st.builds(Subtask, st.sampled_from([task.id for task in tasks]), st.integers(0, 8)),
                        st.sampled_from(names), max_size=10)
    )  # fmt: skip
    params = Params(
        threshold=draw(st.sampled_from([0.5, 0.8, 1.0])),
        threshold_scope=draw(st.sampled_from(["lba-ce", "all"])),
        order=draw(st.sampled_from(["interleaved", "topological"])),
        lba_pick=draw(st.sampled_from(["first", "spread"])),
        cold_start=draw(st.sampled_from(["estimate", "rr"])),
        mode=draw(st.sampled_from([None, "fresh", "incremental"])),
    )
    algorithm, seed = draw(st.sampled_from(ALGORITHMS)), draw(st.integers(0, 2**64 - 1))
    return PlaceRequest(algorithm, cluster, tasks, tuple(edges), Network(0.1, 0.5, 2.0), seed, params, running)
