"""What placement reads: sound requests survive the wire, garbage is answered or refused and never a crash."""

import json
from math import inf, isfinite

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from surescale.rescaler.cli.place import command
from surescale.rescaler.placement import Params, PlaceRequest, RequestError, document, parse_json, parse_request, place, to_json
from tests.support.placement_requests import quick, requests
from tests.support.reach import reached, reaches

wild = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([inf, -inf, 10**400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)

SOUND = {
    "schema": "place/1",
    "algorithm": "lba-ce",
    "seed": 1,
    "params": {"lba_pick": "spread", "exec_time_s": 5, "wec_weights": [0.2, 0.3, 0.5]},
    "cluster": {
        "hosts": [
            {"id": "a", "cpu": 4, "memory": 8, "slots": 4, "price": 1, "zone": "x", "used": {"cpu": 1, "slots": 1},
             "history": {"cost": 3, "tuples": 7, "busy": [0.2, 0.4]}},
            {"id": "b", "cpu": 8, "memory": 8, "slots": 4, "price": 2},
        ],
        "network": {"price_per_gb": 0.01, "distance": {"same_zone": 1, "cross_zone": 2}},
    },
    "job": {
        "tasks": [
            {"id": "s", "parallelism": 2, "rho_cpu": 0.001, "memory": 1, "source_rate": 100},
            {"id": "t", "parallelism": 2, "cpu": 1, "memory": 1},
        ],
        "edges": [{"from": "s", "to": "t", "records_per_s": 10, "pattern": "forward"}],
    },
    "placement": {"s/0": "a", "t/5": "gone"},
}  # fmt: skip


def places_of(value, path=()):
    """Every path into a JSON document."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for step, child in steps for inner in places_of(child, (*path, step)))]


def with_change(path, value):
    """The sound request with one place, of any kind, replaced."""
    if not path:
        return value
    changed = json.loads(json.dumps(SOUND))
    at = changed
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return changed


def is_strict_json(text):
    """Parses, and holds no NaN or infinity."""
    json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    return True


@reaches("answer", "refusal")
@given(st.sampled_from(places_of(SOUND)), wild)
def test_any_one_wild_value_is_answered_or_refused(path, value):
    """Whatever stands in one place: a strict JSON answer, or an error that names a path; never a crash."""
    document_or_complaints = read(with_change(path, value))
    if isinstance(document_or_complaints, PlaceRequest):
        reached("answer")
        answer = place(document_or_complaints)
        assert is_strict_json(to_json(document(answer)))
        assert isfinite(answer.load.std)
    else:
        reached("refusal")
        assert all(": " in complaint for complaint in document_or_complaints)


def read(value):
    """The request, or the complaints about it."""
    try:
        return parse_request(value)
    except RequestError as error:
        return error.complaints


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")) | wild.map(
    lambda value: json.dumps(value).encode()
))  # fmt: skip
def test_any_bytes_are_a_bad_request(data):
    """Garbage on standard input: exit status 2, one JSON object out, one line of explanation."""
    outcome = CliRunner().invoke(command, ["-"], input=data)
    assert outcome.exit_code == 2
    assert json.loads(outcome.stdout)["status"] == "error"
    assert outcome.stderr.startswith("surescale: ")


@quick
@given(requests())
def test_any_sound_request_survives_the_wire(request):
    """A request written as JSON is read back as it was."""
    assert parse_json(json.dumps(on_the_wire(request))) == request


def on_the_wire(request):
    """The JSON document of a request."""
    return {
        "schema": "place/1",
        "algorithm": request.algorithm,
        "seed": request.seed,
        "params": {name: getattr(request.params, name) for name in Params.__dataclass_fields__},
        "cluster": {
            "hosts": [
                {"id": host.id, "cpu": host.cpu, "memory": host.memory, "slots": host.slots, "price": host.price,
                 "zone": host.zone, "used": {"cpu": host.used_cpu, "slots": host.used_slots},
                 "history": {"cost": host.history.cost, "tuples": host.history.tuples, "busy": host.history.busy}}
                for host in request.hosts
            ],
            "network": {"price_per_gb": 0.1, "distance": {"same_zone": 0.5, "cross_zone": 2.0}},
        },
        "job": {
            "tasks": [
                {"id": task.id, "parallelism": task.parallelism, "cpu": task.cpu, "memory": task.memory}
                for task in request.tasks
            ],
            "edges": [
                {"from": edge.source, "to": edge.target, "records_per_s": edge.records_per_s,
                 "bytes_per_record": edge.bytes_per_record, "pattern": edge.pattern}
                for edge in request.edges
            ],
        },
        "placement": {str(sub): host for sub, host in request.placement.items()},
    }  # fmt: skip
