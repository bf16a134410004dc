"""The black-box commands `gate`, `reschedule` and `assign`: documents, exit codes, error codes and places."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from surescale.rescaler.cli import assign, documents, gate, reschedule
from surescale.rescaler.cli.documents import read_input

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"
COMMANDS: dict[str, click.Command] = {
    "gate": gate.command,
    "reschedule": reschedule.command,
    "assign": assign.command,
}
REQUESTS = sorted(path for name in COMMANDS for path in EXAMPLES.glob(f"{name}-*.request.json"))
FIRST = {"gate": "gate-checkpoint", "reschedule": "reschedule-scale-out", "assign": "assign-takeover"}


def ask(name: str, text: str | bytes, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of a command."""
    result = CliRunner().invoke(COMMANDS[name], list(options), input=text)
    return result.exit_code, json.loads(result.stdout)


def document(name: str) -> dict[str, Any]:
    """The command's first example."""
    return json.loads((EXAMPLES / f"{FIRST[name]}.request.json").read_text())


def changed(name: str, path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """The first example with ``value`` at ``path``; `DELETE` takes the key away."""
    result = copy.deepcopy(document(name))
    target: Any = result
    for key in path[:-1]:
        target = target[key]
    if value is DELETE:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return result


DELETE = object()


def error(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The error with which the document is refused, without its message."""
    code, answer = ask(name, json.dumps(given))
    assert (code, answer["ok"]) == (2, False)
    assert answer["error"].pop("message")
    return answer["error"]


def meaning(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with its free order taken away and the words of a message left out."""
    answer = copy.deepcopy(answer)
    answer.get("error", {}).pop("message", None)
    if "moves" in answer:
        answer["moves"].sort(key=lambda move: sorted(str(item) for item in move.items()))
    return answer


@pytest.mark.parametrize("request_path", REQUESTS, ids=lambda path: path.name.removesuffix(".request.json"))
def test_example(request_path: Path) -> None:
    """Every example of the documentation gets the answer that stands beside it."""
    expected = json.loads(request_path.with_name(request_path.name.replace("request", "response")).read_text())
    code, answer = ask(request_path.name.split("-")[0], request_path.read_text())
    assert (code, meaning(answer)) == (0 if expected["ok"] else 2, meaning(expected))


def test_there_are_examples_of_every_command() -> None:
    """The test above has something to do."""
    assert {path.name.split("-")[0] for path in REQUESTS} == set(COMMANDS)


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", b"\xff\xfe", '{"slots": NaN}', "[" * 100_000, '{"a": 1} 2'])
@pytest.mark.parametrize("name", list(COMMANDS))
def test_text_that_is_no_json(name: str, text: str | bytes) -> None:
    """Anything but JSON is named as such."""
    code, answer = ask(name, text)
    assert (code, answer["error"]["code"]) == (2, "INVALID_JSON")


@pytest.mark.parametrize("text", ["[]", "null", "7", '"x"', "{}"])
@pytest.mark.parametrize("name", list(COMMANDS))
def test_documents_of_another_shape(name: str, text: str) -> None:
    """JSON of another shape is invalid input."""
    code, answer = ask(name, text)
    assert (code, answer["error"]["code"]) == (2, "INVALID_INPUT")


@pytest.mark.parametrize("name", list(COMMANDS))
def test_unknown_keys_are_ignored(name: str) -> None:
    """A document may carry more than is asked for."""
    assert ask(name, json.dumps(document(name) | {"comment": [1]}))[0] == 0


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("mode",), DELETE, "mode"),
        (("mode",), "running", "mode"),
        (("mode",), ["waiting"], "mode"),
        (("params",), [], "params"),
        (("targets",), DELETE, "targets"),
        (("targets",), {}, "targets"),
        (("targets", "f"), 3, "targets"),
        (("targets", "f", "lower"), 0, "targets"),
        (("targets", "f", "lower"), 3, "targets"),
        (("targets", "f", "upper"), DELETE, "targets"),
        (("targets", "f", "upper"), 2.0, "targets"),
        (("current",), DELETE, "current"),
        (("current",), {"g": 2}, "current"),
        (("current", "f"), True, "current"),
        (("mode",), "waiting", "current"),
        (("slots",), -1, "slots"),
        (("slots",), None, "slots"),
        (("events",), DELETE, "events"),
        (("events", 0), 5, "events[0]"),
        (("events", 1, "t"), 9999, "events[1]"),
        (("events", 0, "t"), -1, "events[0]"),
        (("events", 1, "t"), DELETE, "events[1]"),
        (("events", 2, "type"), "checkpoint", "events[2]"),
        (("events", 1, "slots"), DELETE, "events[1]"),
        (("events", 0, "targets"), {"g": {"lower": 1, "upper": 1}}, "events[0]"),
        (("events", 0, "targets", "f", "lower"), 9, "events[0]"),
        (("events", 3, "ok"), 1, "events[3]"),
        (("end",), 77_999, "end"),
        (("end",), "later", "end"),
    ],
)
def test_gate_names_the_field(path: tuple[str | int, ...], value: object, field: str) -> None:
    """What is wrong in a gate's document is named by parameter, key or event."""
    assert error("gate", changed("gate", path, value)) == {"code": "INVALID_INPUT", "field": field}


def test_gate_runs_to_the_last_event_by_default() -> None:
    """Without an end, timers run up to and including the last event."""
    phases = ask("gate", json.dumps(changed("gate", ("end",), DELETE)))[1]["phases"]
    assert phases[-1] == {"t": 78000, "mode": "executing", "phase": "Cooldown"}


def test_gate_refuses_a_parameter_by_the_name_given() -> None:
    """An old name is reported as it was written."""
    given = changed("gate", ("params",), {"scaling-interval.min": "30s"})
    assert error("gate", given) == {"code": "INVALID_PARAM", "field": "scaling-interval.min"}


def test_gate_counts_failed_checkpoints_and_triggers() -> None:
    """Every type of event reaches the gate."""
    given = document("gate") | {
        "slots": 4,
        "events": [
            {"t": 10000, "type": "target", "targets": {"f": {"lower": 3, "upper": 4}}},
            {"t": 31000, "type": "checkpoint_failed"},
            {"t": 32000, "type": "checkpoint_failed"},
            {"t": 33000, "type": "rescaled", "ok": True},
            {"t": 34000, "type": "trigger"},
        ],
    }
    assert [t["cause"] for t in ask("gate", json.dumps(given))[1]["transitions"]] == ["checkpoint_failures"]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("cluster",), DELETE, {"code": "INVALID_INPUT", "field": "cluster"}),
        (("cluster", "generation"), DELETE, {"code": "INVALID_INPUT", "field": "cluster"}),
        (("cluster", "vnodes"), 0, {"code": "INVALID_INPUT", "field": "cluster"}),
        (("cluster", "workers", 0, "state"), "gone", {"code": "INVALID_INPUT", "field": "cluster"}),
        (("cluster", "workers", 0, "parallel_units"), [1, "2"], {"code": "INVALID_INPUT", "field": "cluster"}),
        (("cluster", "fragments", 0, "distribution"), "x", {"code": "INVALID_INPUT", "field": "cluster", "fragment": 10}),
        (("cluster", "fragments", 0, "mapping"), "x", {"code": "INVALID_INPUT", "field": "cluster", "fragment": 10}),
        (("expected_generation",), "7", {"code": "INVALID_INPUT", "field": "expected_generation"}),
        (("expected_generation",), 6, {"code": "STALE_GENERATION"}),
        (("request",), {"reschedules": {}}, {"code": "INVALID_INPUT", "field": "desired"}),
        (("desired",), DELETE, {"code": "INVALID_INPUT", "field": "desired"}),
        (("desired",), [], {"code": "INVALID_INPUT", "field": "desired"}),
        (("desired", "10"), 3, {"code": "INVALID_INPUT", "field": "desired", "fragment": 10}),
        (("desired", "10"), {}, {"code": "INVALID_INPUT", "field": "desired", "fragment": 10}),
        (("desired", "ten"), {"parallelism": 1}, {"code": "INVALID_INPUT", "field": "desired"}),
        (("desired", "10", "parallelism"), "3", {"code": "INVALID_PARALLELISM", "fragment": 10}),
        (("desired", "10", "parallelism"), 2.0, {"code": "INVALID_PARALLELISM", "fragment": 10}),
        (("desired", "12", "parallelism"), 2, {"code": "SINGLETON_SCALE", "fragment": 12}),
        (("desired", "404"), {"parallelism": 1}, {"code": "FRAGMENT_NOT_FOUND", "fragment": 404}),
    ],
)
def test_reschedule_names_code_and_fragment(path: tuple[str | int, ...], value: object, expected: dict[str, object]) -> None:
    """What is wrong with a reschedule is named by code and, where there is one, by fragment."""
    assert error("reschedule", changed("reschedule", path, value)) == expected


def test_reschedule_without_changes_is_a_noop() -> None:
    """Nothing changes, not even the generation."""
    _, answer = ask("reschedule", json.dumps(changed("reschedule", ("desired", "10", "parallelism"), 2)))
    assert (answer["noop"], answer["generation"], answer["request"]) == (True, 7, {"reschedules": {}})


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("version",), DELETE, {"code": "INVALID_INPUT", "field": "version"}),
        (("version",), "V3", {"code": "INVALID_VERSION", "field": "version"}),
        (("balancing_factor",), -0.1, {"code": "INVALID_FACTOR", "field": "balancing_factor"}),
        (("balancing_factor",), "1", {"code": "INVALID_FACTOR", "field": "balancing_factor"}),
        (("params",), 3, {"code": "INVALID_INPUT", "field": "params"}),
        (("params", "acceptable_lag"), -1, {"code": "INVALID_PARAM", "field": "acceptable_lag"}),
        (("params", "acceptable_lag"), None, {"code": "INVALID_PARAM", "field": "acceptable_lag"}),
        (("params", "num_standbys"), 1.5, {"code": "INVALID_PARAM", "field": "num_standbys"}),
        (("params", "max_learners"), 0, {"code": "INVALID_PARAM", "field": "max_learners"}),
        (("hosts",), {}, {"code": "INVALID_INPUT", "field": "hosts"}),
        (("hosts",), [], {"code": "NO_ELIGIBLE_HOST"}),
        (("hosts", 0, "id"), 1, {"code": "INVALID_INPUT", "field": "hosts"}),
        (("hosts", 0, "id"), "h2", {"code": "DUPLICATE_HOST", "host": "h2"}),
        (("hosts", 0, "state"), "gone", {"code": "INVALID_INPUT", "field": "hosts", "host": "h1"}),
        (("hosts", 0, "new"), 1, {"code": "INVALID_INPUT", "field": "hosts", "host": "h1"}),
        (("hosts", 0, "capacity"), 1.0, {"code": "INVALID_CAPACITY", "host": "h1"}),
        (("hosts", 0, "capacity"), 0, {"code": "INVALID_CAPACITY", "host": "h1"}),
        (("tasks", 0), 3, {"code": "INVALID_INPUT", "field": "tasks"}),
        (("tasks", 0, "id"), None, {"code": "INVALID_INPUT", "field": "tasks"}),
        (("tasks", 0, "id"), "b", {"code": "DUPLICATE_TASK", "task": "b"}),
        (("tasks", 0, "active"), DELETE, {"code": "INVALID_INPUT", "field": "tasks", "task": "a"}),
        (("tasks", 0, "active"), 3, {"code": "INVALID_INPUT", "field": "tasks", "task": "a"}),
        (("tasks", 0, "learners"), DELETE, {"code": "INVALID_INPUT", "field": "tasks", "task": "a"}),
        (("tasks", 0, "learners", 0), "h2", {"code": "INVALID_INPUT", "field": "tasks", "task": "a"}),
        (("tasks", 0, "learners", 0, "host"), None, {"code": "INVALID_INPUT", "field": "tasks", "task": "a"}),
        (("tasks", 0, "learners", 0, "lag"), DELETE, {"code": "INVALID_LAG", "task": "a", "host": "h2"}),
        (("tasks", 0, "learners", 0, "lag"), -1, {"code": "INVALID_LAG", "task": "a", "host": "h2"}),
        (("tasks", 0, "learners", 0, "lag"), 1.5, {"code": "INVALID_LAG", "task": "a", "host": "h2"}),
        (("tasks", 0, "learners", 0, "host"), "h1", {"code": "REPLICA_CONFLICT", "task": "a", "host": "h1"}),
    ],
)
def test_assign_names_code_and_place(path: tuple[str | int, ...], value: object, expected: dict[str, object]) -> None:
    """What is wrong with an assignment is named by code and by field, task or host."""
    assert error("assign", changed("assign", path, value)) == expected


def test_assign_reads_the_factor_as_a_decimal() -> None:
    """0.1 over ten tasks on one host gives exactly eleven, which binary fractions would miss."""
    tasks = [{"id": str(n), "active": "h", "learners": [], "standbys": []} for n in range(10)]
    given = {"version": "V2", "balancing_factor": 0.1, "hosts": [{"id": "h"}], "tasks": tasks}
    assert ask("assign", json.dumps(given))[1]["load"]["h"]["high"] == 11


def test_assign_watch_plays_rounds_until_nothing_moves() -> None:
    """Learners become ready between rounds, and the moves are shown as tables."""
    result = CliRunner().invoke(assign.command, ["--watch", "9"], input=json.dumps(document("assign")))
    assert result.exit_code == 0
    assert [word for word in ("learn", "promote", "round 2", "round 3: 0 moves") if word in result.stdout] == [
        "learn",
        "promote",
        "round 2",
        "round 3: 0 moves",
    ]
    assert "round 4" not in result.stdout


def test_assign_watch_shows_names_as_they_are() -> None:
    """Brackets are no markup, and what a terminal would obey is escaped."""
    given = json.dumps(changed("assign", ("tasks", 0, "id"), "in[/x]\x1b[2J"))
    result = CliRunner().invoke(assign.command, ["--watch", "9"], input=given)
    assert (result.exit_code, result.exception) == (0, None)
    assert r"in[/x]\x1b[2J" in result.stdout
    assert "\x1b" not in result.stdout


def test_assign_watch_refuses_like_a_single_round() -> None:
    """Errors keep their form and exit code."""
    assert ask("assign", "{}", "--watch", "2")[1]["error"]["code"] == "INVALID_INPUT"


def message(name: str, given: dict[str, Any]) -> str:
    """The sentence with which the document is refused."""
    return str(ask(name, json.dumps(given))[1]["error"]["message"])


@pytest.mark.parametrize(
    ("name", "changes", "paths"),
    [
        ("gate", {"mode": "running", "slots": -1, "events": [{"t": "now", "type": "x"}]},
         ["mode", "slots", "events[0].t", "events[0].type"]),
        ("gate", {"events": [{"t": 1}, {"t": 2, "type": "slots"}]}, ["events[0].type", "events[1].slots"]),
        ("reschedule", {"cluster": {"generation": None}, "desired": {"ten": {}}},
         ["cluster.generation", "cluster.workers", "cluster.fragments", "desired"]),
        ("assign", {"hosts": [{"id": 1}], "tasks": [{"id": "a"}]}, ["hosts[0].id", "tasks[0].active", "tasks[0].learners"]),
    ],
)  # fmt: skip
def test_all_wrong_fields_are_named_at_once(name: str, changes: dict[str, Any], paths: list[str]) -> None:
    """One reading finds every mistake, in the document's order."""
    said = [each.partition(": ")[0] for each in message(name, document(name) | changes).split("; ") if ": " in each]
    assert [path for path in said if path in paths] == paths


def test_what_an_event_without_a_type_needs_nobody_knows() -> None:
    """Only the type is asked for, and not what one of the types would need."""
    said = message("gate", document("gate") | {"events": [{"t": 1}]})
    assert "events[0].type" in said
    assert "events[0].slots" not in said


def test_a_long_list_of_mistakes_is_cut() -> None:
    """Twenty are spelled out, the others counted."""
    said = message("assign", document("assign") | {"hosts": [3] * 30})
    assert said.count("must be an object") == 20
    assert said.endswith("more")


@pytest.mark.parametrize("name", list(COMMANDS))
def test_a_file_gives_the_answer_that_standard_input_gives(name: str) -> None:
    """FILE, a dash, or neither."""
    path = EXAMPLES / f"{FIRST[name]}.request.json"
    text = path.read_text()
    assert ask(name, "", str(path)) == ask(name, text, "-") == ask(name, text)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_a_file_that_is_not_there_is_a_wrong_command_line(name: str) -> None:
    """The error names the file, and nothing is answered."""
    result = CliRunner().invoke(COMMANDS[name], ["nowhere.json"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nowhere.json" in result.stderr


@pytest.mark.parametrize("name", list(COMMANDS))
def test_a_command_starts_light(name: str) -> None:
    """No command imports what it does not need, so that it answers at once."""
    # assign makes hundreds of thousands of objects, which msgspec makes lighter; its import costs some 25 ms.
    heavy = {"numpy", "rich", "msgspec", "faust", "confluent_kafka"} - ({"msgspec"} if name == "assign" else set())
    program = (
        f"import sys; from surescale.rescaler.cli.{name} import command; "
        f"heavy = {heavy!r} & set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=EXAMPLES.parents[1], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("name", list(COMMANDS))
def test_a_real_process_answers(name: str) -> None:
    """Through a pipe, one document in and one out."""
    program = f"from surescale.rescaler.cli.{name} import command; command()"
    given = json.dumps(document(name)).encode()
    done = subprocess.run([sys.executable, "-c", program], cwd=EXAMPLES.parents[1], input=given, capture_output=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (0, True)


@pytest.mark.parametrize("key", ["9" * 5_000, "-" + "9" * 5_000])
def test_a_fragment_id_that_is_no_number_any_more_is_refused(key: str) -> None:
    """By the same one line as any other key that is none."""
    code, answer = ask("reschedule", json.dumps(changed("reschedule", ("desired",), {key: {"parallelism": 1}})))
    assert (code, answer["error"]["code"], answer["error"]["field"]) == (2, "INVALID_INPUT", "desired")
    assert len(answer["error"]["message"]) < 200


def test_a_document_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a device: it would fill the memory."""
    monkeypatch.setattr(documents, "INPUT_BYTES_MAX", 2**20)
    with open("/dev/zero", "rb") as endless, pytest.raises(click.ClickException, match="more than 1 MiB"):
        read_input(endless)
