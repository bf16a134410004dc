"""Documents of the view as tables and lines for people. Reads nothing itself."""

import json
from typing import Any

from rich.table import Table
from rich.text import Text

from services import screens
from services.event_time import to_the_second
from services.naming import several

Document = dict[str, Any]

_WISHED = ("Available", "Balanced")  # conditions that are well when they hold; of all others the opposite
_ACTION_STYLE = {"act": "bold green", "hold": "dim"}
SILENT_MINUTES_MIN = 15  # less is the way that windows take, at a road's clock that runs fast


def print_json(document: Any) -> None:
    """Print a document for programs."""
    print(json.dumps(document, indent=2))


def print_jobs(jobs: list[Document]) -> None:
    """Print one line per job."""
    if not jobs:
        screens.console().print("No job is known yet: no topology, window or decision has arrived.")
        return
    table = Table("job", "state", "mode", "tasks", "parallelism", "records/min", "complete", "window end", "last", "gate")
    for job in jobs:
        table.add_row(
            Text(job["job"]),
            _state(job["state"], job["silent_minutes"]),
            job["mode"],
            str(job["tasks"]),
            str(job["parallelism"]),
            _number(job["load_records_per_minute"]),
            _percent(job["completeness"]),
            _minute(job["window_end_ms"]),
            " ".join(filter(None, (job["action"], job["outcome"]))) or "-",
            Text(_gate(job["gate_phase"], job["wake_up_ms"])),
        )
    screens.console().print(table)


def print_job(job: Document) -> None:
    """Print one job: facts, tasks, latest decision."""
    console = screens.console()
    topology, window, gate = (job[name] or {} for name in ("topology", "window", "gate"))
    settings, command = job["settings"] or {}, job["command"] or {}
    facts = Table.grid(padding=(0, 2))

    def add(name: str, line: str) -> None:
        facts.add_row(name, Text(line))  # as it is: names may have brackets

    state = _state(topology.get("state"), job["silent_minutes"])
    add("state", f"{state}, generation {_word(topology.get('generation'))}")
    add("mode", f"{settings.get('mode', 'act')}, settings version {settings.get('version', 0)}")
    add("window", _window_line(window))
    add("gate", _gate(gate.get("phase"), gate.get("wake_up_ms"), gate.get("pending_reason")))
    if gate.get("step"):
        add("rescale", gate["step"] + (f", learners were given up: {gate['given_up']}" if gate.get("given_up") else ""))
    if gate.get("standbys"):
        add("standbys", "; ".join(f"unit {each['unit']} on {', '.join(each['hosts'])}" for each in gate["standbys"]))
    add("command", _command_line(command))
    if job["rent"]:
        add("rent", _rent_line(job["rent"]))
    console.print(Text(job["job"], style="bold"), facts, sep="\n")
    if gate.get("conditions"):
        console.print(_conditions(gate))
    if topology:
        console.print(_tasks(topology["tasks"], job["decision"]))
    if job["decision"]:
        console.print(f"{job['decision']['action']}: {job['decision']['reason']}", markup=False)


def print_decisions(job: str, decisions: list[Document]) -> None:
    """Print decisions, the newest first, with what became of each task and of the whole."""
    if not decisions:
        screens.console().print(f"No decision on {job} yet.", markup=False)
        return
    table = Table("span end", "action", "reason", "tasks: current -> desired", "policy", "outcome", "command", show_lines=True)
    for decision in decisions:
        action = decision["action"]
        table.add_row(
            _minute(decision["span_end_ms"]),
            Text(action, style=_ACTION_STYLE.get(action, "")),
            Text(decision["reason"]),
            Text("\n".join(_changes(decision["tasks"])) or "no change"),
            Text(_policy(decision["policy"])),
            Text(_outcome(decision["outcome"])),
            Text(_command_line(decision["command"] or {})),
        )
    screens.console().print(table)


def _conditions(gate: Document) -> Table:
    """How the job is, as in a Kubernetes status; generations say whether that is up to date."""
    generation, seen = _word(gate.get("desired_generation")), _word(gate.get("observed_generation"))
    table = Table("condition", "status", "reason", "since", "message", title_justify="left")
    table.title = f"conditions at generation {generation}, observed {seen}"
    for each in gate["conditions"]:
        status = Text(str(each["status"]), style="" if each["status"] == (each["type"] in _WISHED) else "yellow")
        table.add_row(each["type"], status, each["reason"], _minute(each["last_transition_ms"]), Text(each["message"]))
    return table


def _tasks(tasks: list[Document], decision: Document | None) -> Table:
    wanted = {task["task"]: task for task in (decision or {}).get("tasks", [])}
    table = Table("task", "upstream", "now", "wanted", "at most", "configured", "kind", "amended")
    for task in tasks:
        last = wanted.get(task["task"], {})
        kind = [word for word, holds in (("fixed", not task.get("scalable", True)), ("stateful", task.get("stateful"))) if holds]
        table.add_row(
            Text(task["task"]),
            Text(", ".join(task.get("upstream", []))),
            str(task.get("parallelism", 1)),
            _word(last.get("desired")),
            _word(task.get("max_parallelism")),
            _word(task.get("configured_parallelism")),
            ", ".join(kind) or "-",
            Text(_amendments(last.get("amendments", [])) or "-"),
        )
    return table


def _changes(tasks: list[Document]) -> list[str]:
    """Name the tasks that change, or that a guardrail touched; those that change alike share a line."""
    alike: dict[str, list[str]] = {}
    for task in tasks:
        amended = _amendments(task.get("amendments", []))
        if task["current"] != task["desired"] or amended:
            change = f"{task['current']} -> {task['desired']}{f' ({amended})' if amended else ''}"
            alike.setdefault(change, []).append(task["task"])
    return [f"{several(names)}: {change}" for change, names in alike.items()]


def _amendments(amendments: list[Document]) -> str:
    return ", ".join(f"{item['rule']} {item['before']} -> {item['after']}" for item in amendments)


def _policy(policy: Document) -> str:
    if policy.get("fallback_reason"):
        return f"{policy['name']} for {policy['asked']}: {policy['fallback_reason']}"
    return str(policy["name"])


def _outcome(outcome: Document | None) -> str:
    if outcome is None:
        return "none yet"
    words = f"{outcome['status']}: {outcome['reason']}"
    return f"{words} until {_minute(outcome['until_ms'])}" if outcome.get("until_ms") is not None else words


def _command_line(command: Document) -> str:
    if not command:
        return "-"
    progress = command.get("progress", [])
    last = progress[-1]["status"] if progress else "sent"
    if last == "warming":
        last = (
            f"warming {progress[-1].get('learners', 0)} learners, {(progress[-1].get('lag_bytes') or 0) / 2**20:.0f} MiB behind"
        )
    return f"{command['command_id']} {command.get('action', 'commit')} {'advice' if command.get('advice') else last}"


def _window_line(window: Document) -> str:
    if not window:
        return "none yet"
    return (
        f"{window['minutes_known']} of {window['window_minutes']} minutes up to {_minute(window['window_end_ms'])}, "
        f"{_percent(window['completeness'])} complete, {_number(window['load_records_per_minute'])} records/min"
    )


def _rent_line(rent: Document) -> str:
    line = f"${rent['per_day']:.2f} a day for {', '.join(rent['hosts']) or 'no host'}"
    if rent["saved_round_robin_per_day"] is None:
        return line
    saved, default = rent["saved_round_robin_per_day"], rent["saved_default_per_day"]
    return f"{line}; by {rent['algorithm']}, ${saved:.2f} less than round robin, ${default:.2f} less than Flink's default"


def _gate(phase: str | None, wake_up_ms: int | None, reason: str | None = None) -> str:
    words = [_word(phase), *([f"({reason})"] if reason else [])]
    if wake_up_ms is not None:
        words.append(f"until {_minute(wake_up_ms)}")
    return " ".join(words)


def _minute(at_ms: int | None) -> str:
    return "-" if at_ms is None else to_the_second(at_ms)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _state(state: str | None, silent_minutes: int | None) -> str:
    """Return the state that the job's last topology told, and whether nothing has come since: a job that left tells no more."""
    if silent_minutes is None or silent_minutes < SILENT_MINUTES_MIN:
        return _word(state)
    return f"{_word(state)}, silent for {silent_minutes} min"


def _word(value: object) -> str:
    return "-" if value is None else str(value)
