"""An explained decision as one screen for people. Reads nothing itself."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from services import screens
from services.event_time import to_the_second
from services.explain.document import looked_at
from services.explain.lookup import ENDED
from services.naming import several

ROWS_SHOWN = 8
UNITS_SHOWN = 8

Document = Mapping[str, Any]


def show(explained: Document, console: Console | None = None) -> None:
    """Print the screen."""
    out = console or screens.console()
    out.print(Text(f"{explained['decision_id']}: {explained['action']}", style="bold"))
    out.print(Text(explained["reason"]))
    facts = Table.grid(padding=(0, 2))
    for name, line in _facts(explained):
        facts.add_row(name, Text(line))
    out.print(facts)
    _show_tasks(out, explained)
    _show_course(out, explained)
    if explained["commands"]:
        _show_commands(out, explained["commands"])
    if "recomputed" in explained:
        _show_recomputed(out, explained["recomputed"])


def _facts(explained: Document) -> list[tuple[str, str]]:
    window, policy = explained["window"], explained["policy"]
    load = window["load_records_per_minute"]
    shown_load = "load unknown" if load is None else f"{load:,.0f} records/min (mean of 5 minutes)"
    facts = [
        (
            "window",
            f"{window['minutes_known']} minutes known, {window['completeness']:.0%} complete, "
            f"{shown_load}, up to {to_the_second(explained['span_end_ms'])}",
        ),
        ("policy", f"{policy['name']} ({policy['sha256'][:12] or 'rule'}), seed {explained['seed']}"),
        ("settings", f"version {explained['settings_version']}, topology version {explained['topology_version']}"),
    ]
    if policy["fallback_reason"]:
        facts.insert(2, ("fallback", f"{policy['asked']} was asked: {policy['fallback_reason']}"))
    return facts


def _show_tasks(out: Console, explained: Document) -> None:
    tasks = explained["tasks"]
    changing = [task for task in tasks if task["desired"] != task["current"] or task["proposed"] != task["current"]]
    if not changing:
        out.print(f"None of {len(tasks)} tasks was to change.")
        return
    table = Table("task", "now", "ratio", "proposed", "amended", "desired", "least for load", "looked at (minute, weight)")
    rows = _alike(sorted(changing, key=lambda task: -abs(task["desired"] - task["current"])), _task_figures)
    for figures, alike in rows[:ROWS_SHOWN]:
        looked = looked_at(alike[0], explained["span_end_ms"])
        whose = f"{alike[0]['task']}: " if looked and len(alike) > 1 else ""
        table.add_row(Text(several([task["task"] for task in alike])), *map(Text, figures), Text(f"{whose}{looked}" or "-"))
    out.print(table)
    _say_what_is_left(out, rows)


def _task_figures(task: Document) -> tuple[str, ...]:
    amended = ", ".join(f"{item['rule']} {item['before']} -> {item['after']}" for item in task["amendments"])
    sizes = (str(task["current"]), f"{task['ratio']:.3f}", str(task["proposed"]))
    return (*sizes, amended or "-", str(task["desired"]), str(task["floor"]))


def _alike(
    rows: Iterable[Document], figures: Callable[[Document], tuple[str, ...]]
) -> list[tuple[tuple[str, ...], list[Document]]]:
    """Put what has equal figures into one row, in the order of the first of each."""
    groups: dict[tuple[str, ...], list[Document]] = {}
    for row in rows:
        groups.setdefault(figures(row), []).append(row)
    return list(groups.items())


def _say_what_is_left(out: Console, rows: Sequence[tuple[tuple[str, ...], list[Document]]]) -> None:
    left = sum(len(alike) for _, alike in rows[ROWS_SHOWN:])
    if left:
        out.print(f"and {left} more tasks (--json shows all)")


def _show_course(out: Console, explained: Document) -> None:
    """Print what became of it, line by line in the order of time."""
    steps = [(item["at_ms"], 0, f"{item['status']}: {_outcome(item)}") for item in explained["outcomes"]]
    actions = {command["command_id"]: command["action"] for command in explained["commands"]}
    steps += [(item["at_ms"], 1, f"{actions[item['command_id']]} {_progress(item)}") for item in explained["progress"]]
    steps += [(item["at_ms"], 2, f"engine: {_event(item)}") for item in explained["engine_events"]]
    if not explained["outcomes"]:
        out.print("No outcome yet: the rescaler has not answered.")
    grid = Table.grid(padding=(0, 2))
    for at_ms, _, line in sorted(steps, key=lambda step: step[:2]):
        grid.add_row(to_the_second(at_ms), Text(line))
    out.print(grid)
    gate = explained["gate_now"]
    if gate:
        words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in gate.items() if value is not None)
        out.print(Text(f"gate now: {words}"))


def _show_commands(out: Console, commands: Sequence[Document]) -> None:
    """Print the steps in a line, and what the last of them changes."""
    last = commands[-1]
    kind = " (advice)" if last["advice"] else ""
    steps = ", then ".join(f"{command['command_id']} {command['action']}" for command in commands)
    out.print(Text(f"{steps}{kind}: {last['gate_reason']}, because of {last['gate_cause']}"))
    table = Table("task", "before", "after", "added units", "removed units", "vnodes moved")
    rows = _alike(last["changes"], _change_figures)
    for figures, alike in rows[:ROWS_SHOWN]:
        table.add_row(Text(several([change["task"] for change in alike])), *map(Text, figures))
    if rows:
        out.print(table)
    _say_what_is_left(out, rows)
    if last["placement"]:
        out.print(Text(f"placed by {last['placement']['algorithm']} on {', '.join(last['placement']['hosts'])}"))


def _change_figures(change: Document) -> tuple[str, ...]:
    units = (_units(change["added_units"]), _units(change["removed_units"]))
    return (str(change["before"]), str(change["after"]), *units, str(change["vnodes_moved"]))


def _show_recomputed(out: Console, recomputed: Document) -> None:
    if recomputed["same"]:
        out.print(Text("recomputed: the same bytes", style="green"))
        return
    out.print(Text("recomputed: NOT the same", style="bold red"))
    for line in recomputed["differences"][:ROWS_SHOWN]:
        out.print(Text(f"  {line}"))


def _outcome(outcome: Document) -> str:
    words = [outcome["reason"]]
    if outcome["detail"]:
        words.append(f"({outcome['detail']})")
    if outcome["until_ms"] is not None:
        words.append(f"until {to_the_second(outcome['until_ms'])}")
    if outcome["command_id"]:
        words.append(f"by {outcome['command_id']}")
    return " ".join(words)


def _progress(step: Document) -> str:
    words = [step["status"]]
    if step["learners"]:
        words.append(f"{step['learners']} learners")
    if step["lag_bytes"]:
        words.append(f"{step['lag_bytes'] / 2**20:.0f} MiB behind")
    if step["status"] in ENDED and step["duration_ms"]:
        words.append(f"{step['duration_ms'] / 1000:.0f} s")
    failed = f": {step['code']} {step['detail']}".rstrip() if step["code"] else ""
    return ", ".join(words) + failed


def _event(event: Document) -> str:
    return " ".join(str(event[name]) for name in ("kind", "job", "host", "detail") if event[name])


def _units(units: list[int]) -> str:
    shown = ", ".join(str(unit) for unit in units[:UNITS_SHOWN])
    return f"{shown} and {len(units) - UNITS_SHOWN} more" if len(units) > UNITS_SHOWN else shown or "-"
