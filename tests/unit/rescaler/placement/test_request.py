"""The request of place/1: every wrong field is named by its path."""

import copy
import json
import time

import pytest

from surescale.rescaler.placement import RequestError, Subtask, parse_json, parse_request

SOUND = {
    "schema": "place/1",
    "algorithm": "cetsa",
    "cluster": {"hosts": [{"id": "a", "cpu": 4, "memory": 8, "slots": 4, "price": 1}]},
    "job": {
        "tasks": [{"id": "s", "parallelism": 1, "cpu": 1, "memory": 1}, {"id": "t", "parallelism": 2, "cpu": 1, "memory": 1}]
    },
}


def changed(path, value):
    """The sound request with one field set; a path step is a key or a list position."""
    request = copy.deepcopy(SOUND)
    at = request
    for step in path[:-1]:
        at = at.setdefault(step, {}) if isinstance(step, str) else at[step]
    at[path[-1]] = value
    return request


def complaints(document):
    """What is said about a bad request."""
    with pytest.raises(RequestError) as caught:
        parse_request(document)
    return caught.value.complaints


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("schema",), "place/2", "schema"),
        (("algorithm",), "magic", "algorithm"),
        (("algorithm",), ["cetsa"], "algorithm"),
        (("seed",), -1, "seed"),
        (("seed",), 1.5, "seed"),
        (("params",), [], "params"),
        (("params", "treshold"), 0.8, "params.treshold"),
        (("params", "threshold"), 0, "params.threshold"),
        (("params", "threshold"), 1.01, "params.threshold"),
        (("params", "alpha"), 0.7, "params.alpha"),
        (("params", "wec_weights"), [1, 0], "params.wec_weights"),
        (("params", "wec_weights"), [0.5, 0.5, float("nan")], "params.wec_weights[2]"),
        (("params", "order"), "random", "params.order"),
        (("params", "lba_pick"), True, "params.lba_pick"),
        (("params", "cold_start"), 1, "params.cold_start"),
        (("params", "mode"), "warm", "params.mode"),
        (("params", "exec_time_s"), -1, "params.exec_time_s"),
        (("params", "busy_floor"), 2, "params.busy_floor"),
        (("cluster", "hosts"), {}, "cluster.hosts"),
        (("cluster", "hosts"), [7], "cluster.hosts[0]"),
        (("cluster", "hosts", 0, "id"), "", "cluster.hosts[0].id"),
        (("cluster", "hosts", 0, "cpu"), 0, "cluster.hosts[0].cpu"),
        (("cluster", "hosts", 0, "cpu"), "4", "cluster.hosts[0].cpu"),
        (("cluster", "hosts", 0, "cpu"), True, "cluster.hosts[0].cpu"),
        (("cluster", "hosts", 0, "cpu"), 1e-300, "cluster.hosts[0].cpu"),
        (("cluster", "hosts", 0, "memory"), float("inf"), "cluster.hosts[0].memory"),
        (("cluster", "hosts", 0, "memory"), None, "cluster.hosts[0].memory"),
        (("cluster", "hosts", 0, "slots"), 1.5, "cluster.hosts[0].slots"),
        (("cluster", "hosts", 0, "slots"), 10**12, "cluster.hosts[0].slots"),
        (("cluster", "hosts", 0, "price"), float("nan"), "cluster.hosts[0].price"),
        (("cluster", "hosts", 0, "price"), 1e300, "cluster.hosts[0].price"),
        (("cluster", "hosts", 0, "price"), 10**400, "cluster.hosts[0].price"),
        (("cluster", "hosts", 0, "zone"), 3, "cluster.hosts[0].zone"),
        (("cluster", "hosts", 0, "used"), {"cpu": -1}, "cluster.hosts[0].used.cpu"),
        (("cluster", "hosts", 0, "used"), {"slots": -1}, "cluster.hosts[0].used.slots"),
        (("cluster", "hosts", 0, "history"), {"cost": -1}, "cluster.hosts[0].history.cost"),
        (("cluster", "hosts", 0, "history"), {"busy": [0.5, 1.5]}, "cluster.hosts[0].history.busy[1]"),
        (("cluster", "network"), {"distance": {"same_zone": -1}}, "cluster.network.distance.same_zone"),
        (("job", "tasks", 0, "id"), "a/b", "job.tasks[0].id"),
        (("job", "tasks", 1, "id"), "s", "job.tasks[1].id"),
        (("job", "tasks", 1, "parallelism"), -1, "job.tasks[1].parallelism"),
        (("job", "tasks", 1, "parallelism"), 10**9, "job.tasks[1].parallelism"),
        (("job", "tasks", 1, "cpu"), -0.1, "job.tasks[1].cpu"),
        (("job", "tasks", 1, "rho_cpu"), 0.1, "job.tasks[1].rho_cpu"),
        (("job", "edges"), [{"from": "s", "to": "u"}], "job.edges[0].to"),
        (("job", "edges"), [{"from": "s"}], "job.edges[0].to"),
        (("job", "edges"), [{"from": "s", "to": "t", "pattern": "forward"}], "job.edges[0].pattern"),
        (("job", "edges"), [{"from": "s", "to": "s"}], "job.edges"),
        (("job", "edges"), [{"from": "s", "to": "t"}, {"from": "t", "to": "s"}], "job.edges"),
        (("placement",), [], "placement"),
        (("placement",), {"u/0": "a"}, 'placement["u/0"]'),
        (("placement",), {"s": "a"}, 'placement["s"]'),
        (("placement",), {"s/01": "a"}, 'placement["s/01"]'),
        (("placement",), {"s/-1": "a"}, 'placement["s/-1"]'),
        (("placement",), {"s/0": 1}, 'placement["s/0"]'),
    ],
)
def test_a_wrong_field_is_named_by_its_path(path, value, named):
    """One wrong field: the first complaint starts with its path."""
    assert complaints(changed(path, value))[0].startswith(f"{named}: ")


@pytest.mark.parametrize("missing", ["schema", "algorithm", "cluster", "job"])
def test_a_missing_required_field_is_named(missing):
    """Required keys are asked for by name."""
    request = {key: value for key, value in SOUND.items() if key != missing}
    assert complaints(request)[0].startswith(f"{missing}: is missing")


def test_duplicate_host_ids_name_both():
    """The second host carries the complaint, and says which came first."""
    request = changed(("cluster", "hosts"), [SOUND["cluster"]["hosts"][0]] * 2)
    assert complaints(request) == ("cluster.hosts[1].id: 'a' is already the id of cluster.hosts[0]; ids must be unique",)


def test_all_wrong_fields_are_named_at_once():
    """One reading finds every mistake."""
    request = changed(("cluster", "hosts", 0, "cpu"), -1)
    request["job"]["tasks"][0]["memory"] = "much"
    assert [each.split(":")[0] for each in complaints(request)] == ["cluster.hosts[0].cpu", "job.tasks[0].memory"]


def test_too_many_subtasks_are_refused_before_any_is_made():
    """The sum of parallelism has a limit of its own."""
    task = {"cpu": 1, "memory": 1, "parallelism": 600_000}
    assert complaints(changed(("job", "tasks"), [{**task, "id": "x"}, {**task, "id": "y"}]))[0].startswith("job.tasks: ask for")


def test_unknown_keys_outside_params_are_ignored():
    """A request may carry what other readers need."""
    request = changed(("cluster", "hosts", 0, "colour"), "red")
    assert parse_request(request | {"comment": 1}) == parse_request(SOUND)


def test_null_optional_fields_take_their_defaults():
    """Null means not given."""
    request = changed(("params", "exec_time_s"), None) | {"seed": None, "placement": None}
    assert parse_request(request) == parse_request(SOUND)


def test_rho_turns_rates_into_demands():
    """A source uses its own rate, another task the sum of its incoming edges, both over the parallelism."""
    tasks = [
        {"id": "s", "parallelism": 2, "rho_cpu": 0.001, "memory": 1, "source_rate": 3000},
        {"id": "t", "parallelism": 4, "rho_cpu": 0.002, "rho_memory": 0.004},
    ]
    edge = {"from": "s", "to": "t", "records_per_s": 500}
    request = parse_request(changed(("job",), {"tasks": tasks, "edges": [edge, edge]}))
    assert [(task.cpu, task.memory) for task in request.tasks] == [(1.5, 1.0), (0.5, 1.0)]


def test_rho_without_any_rate_asks_for_the_source_rate():
    """A source needs its own rate."""
    task = {"id": "s", "parallelism": 2, "rho_cpu": 0.001, "memory": 1}
    assert complaints(changed(("job", "tasks"), [task]))[0].startswith("job.tasks[0].source_rate: is missing")


def test_placement_keys_become_subtasks():
    """Hosts that are gone and indices beyond the parallelism are welcome."""
    request = parse_request(changed(("placement",), {"s/0": "gone", "t/17": "a"}))
    assert request.placement == {Subtask("s", 0): "gone", Subtask("t", 17): "a"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{", "not valid JSON"),
        (b"\xff\xfe\xfd", "not valid JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"seed": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"seed": 1, "seed": 2}', "given twice"),
        (b"7", "must be an object"),
        (b"", "not valid JSON"),
    ],
)
def test_a_broken_document_is_refused(text, said):
    """Not JSON, too deep, too long a number, a repeated key, not an object."""
    with pytest.raises(RequestError, match=said):
        parse_json(text)


def test_infinity_and_nan_in_the_text_are_named():
    """JSON's extensions and overflowing literals reach the field's own check."""
    text = json.dumps(SOUND).replace('"cpu": 4', '"cpu": 1e999')
    with pytest.raises(RequestError, match=r"cluster\.hosts\[0\]\.cpu: must be a finite number"):
        parse_json(text)


def test_the_one_key_given_twice_is_found_among_many():
    """In one walk: a document of fifty thousand keys must not hold the command for half a minute."""
    entries = ",".join(f'"t/{at}":"a"' for at in range(50_000))
    began = time.process_time()
    with pytest.raises(RequestError, match="the key 't/49999' is given twice"):
        parse_json(f'{{"placement":{{{entries},"t/49999":"a"}}}}')
    assert time.process_time() - began < 5.0
