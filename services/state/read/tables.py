"""Prints the view's documents: as tables and lines for people, as JSON for programs. Reads nothing itself."""

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import UNSET, UnsetType
from rich.console import Console
from rich.table import Table
from rich.text import Text

from surescale.contracts.messages import ConsumerGroup, GroupMember, GroupPartition, GroupWorker, JobTopology, TaskSpec
from surescale.contracts.modes import ModeInForce
from surescale.contracts.plurals import counted
from surescale.contracts.rescaler_state import Condition
from surescale.contracts.summaries import JobMinute, WindowSummary
from surescale.runtime import terminal
from surescale.runtime.instants import to_the_minute, to_the_second
from surescale.runtime.terminal import Column, fitting, middle_cut, plain, that_fit
from surescale.services.state.documents import JobDocument, JobOverview, JobRent, SummedCost
from surescale.services.state.read.decision_lines import amended, progress_line
from surescale.services.state.read.staleness import Stale, at_fault, given_up
from surescale.services.state.read.status import AT_REST, Status
from surescale.services.state.read.words import WORDS, JobFigure, phase_words, reason_words
from surescale.services.state.record_documents import record_in

PARTITIONS_SHOWN = 12  # of a group, unless all are asked for
LABEL_WIDTH = 40  # of a task in a table: SQL makes labels of a hundred letters and more
DAY_MINUTES = 24 * 60
_GOOD_WHEN_TRUE = ("Available", "Balanced", "Owned", "Measured")  # conditions that are good when they hold; all others are bad
_BAD = "bold red"
_URGENT = ("down", "overloaded", "restarting", "unknown", "stalled")
_NOW_STYLE = {"fine": "green", "ended": "dim"} | dict.fromkeys(_URGENT, _BAD)  # all others: yellow


def print_json(document: msgspec.Struct | Sequence[msgspec.Struct]) -> None:
    """Print a document for programs."""
    print(json.dumps(msgspec.to_builtins(document), indent=2))


def print_jobs(jobs: Sequence[JobOverview]) -> None:
    """Print one line per job. Where it does not fit, columns are left out; no name and no figure is cut."""
    console = terminal.console()
    if not jobs:
        console.print(
            "No job is known yet: no topology, window or decision has arrived; `surescale doctor` says what is missing.",
            markup=False,
        )
        return
    columns = (
        Column("JOB", [job.job for job in jobs]),
        *_pipelines(jobs),
        Column("NOW", [_now(job) for job in jobs]),
        Column("MODE", [job.mode for job in jobs], rank=2),
        *(_figures(figure, jobs) for figure in WORDS.figures),
        Column("LAST DECISION", [_last(job) for job in jobs], rank=1),
        Column("POLICY", [job.policy_in_use or "-" for job in jobs], rank=7),
        Column("GATE", [_gate(job.gate_phase, job.wake_up_ms) for job in jobs], rank=4),
        Column("COMPLETE", [_percent(job.completeness) for job in jobs], right=True, rank=7),
    )
    console.print(fitting(columns, console.width))
    ends = [job.window_end_ms for job in jobs if job.window_end_ms is not None]
    if ends:
        console.print(f"as of {to_the_minute(max(ends))} UTC; `surescale job show JOB` shows one job")
    if too_wide := {column.title for column in that_fit(columns, console.width)[1]}:
        console.print(f"too narrow for {', '.join(column.title for column in columns if column.title in too_wide)}")
    for _, stale in at_fault(jobs):
        console.print(plain(stale.words, _BAD))
    if gone := [job.job for job in jobs if job.state == "failed" or given_up(job.stale)]:
        # A line to be copied, so only the terminal may break it.
        console.print(plain(f"gone for good? `surescale job forget {shlex.join(gone)}` ends that"), soft_wrap=True)
    for job in jobs:
        _print_unreadable(console, job.unreadable, job.job)


def _pipelines(jobs: Sequence[JobOverview]) -> Iterator[Column]:
    names = [job.pipeline or "(no prefix)" for job in jobs if job.pipeline is not UNSET]
    if names:  # of all jobs, or of none
        yield Column("PIPELINE", names, rank=1)


def _figures(figure: JobFigure, jobs: Iterable[JobOverview]) -> Column:
    written = {"percent": _percent, "duration": _seconds}.get(figure.form, _number)
    return Column(figure.column, [written(getattr(job, figure.field)) for job in jobs], right=True, rank=figure.rank)


def print_job(job: JobDocument, *, wide: bool = False) -> None:
    """Print one job: facts, conditions, tasks, groups, latest decision.

    ``wide``: labels of tasks as long as they are, and all partitions of its groups that are known.
    """
    console = terminal.console()
    facts = Table.grid(padding=(0, 2))
    for name, line in _facts(job):
        facts.add_row(name, plain(line))
    console.print(plain(job.job, "bold"), facts, sep="\n")
    if job.conditions:
        gate = record_in(job.gate)
        generation, seen = (_word(gate.desired_generation), _word(gate.observed_generation)) if gate else ("-", "-")
        console.print(f"conditions at generation {generation}, observed {seen}", markup=False)
        console.print(_conditions(job.conditions, console.width))
    if job.topology:
        console.print(_tasks(job.topology.record, job, console.width, LABEL_WIDTH if not wide else None))
        for group in job.topology.record.groups:
            _print_group(console, group, PARTITIONS_SHOWN if not wide else len(group.partitions))
    if decision := record_in(job.decision):
        console.print(plain(f"{decision.action}: {decision.reason}"))
        load = _number(decision.load_records_per_minute)
        console.print(plain(f"decided at {to_the_minute(decision.span_end_ms)} UTC on a load of {load} records/min"))
    _print_unreadable(console, job.unreadable, job.job)


def _print_unreadable(console: Console, parts: Sequence[str] | UnsetType, of: str) -> None:
    if parts:
        line = f"{of}: {', '.join(parts)} cannot be read and is left out; `surescale job list --rebuild` builds the view again"
        console.print(plain(line))


def _facts(job: JobDocument) -> Iterable[tuple[str, str]]:
    topology, gate, window = record_in(job.topology), record_in(job.gate), record_in(job.window)
    state = _word(topology.state if topology else None)
    named = f"submission {topology.epoch}" if topology and topology.epoch else ""
    restarts, window_end_ms = (window.restarts, window.window_end_ms) if window else (None, None)
    resting = next((each.message for each in gate.conditions if each.reason == AT_REST), "") if gate else ""
    now = now_words(job.status, job.stale, restarts, window_end_ms, topology.began_ms if topology else None)
    yield "now", resting or now if job.status == "resting" else now
    yield "state", f"{state}, {named or f'generation {_word(topology.generation if topology else None)}'}"
    yield "mode", _mode(job)
    yield "window", _window_line(window)
    if window:
        yield "health", _health_line(job, window.minute)
    if job.next_in_words:
        yield "decision", job.next_in_words
    waits_because = gate.pending.reason if gate and gate.pending else None
    yield "gate", _gate(gate.phase, gate.wakes_up_ms, waits_because) if gate else _gate(None, None)
    if gate and gate.underway and gate.underway.step:
        given_up = gate.underway.given_up
        yield "rescale", gate.underway.step + (f", learners were given up: {given_up}" if given_up else "")
    if gate and gate.standbys:
        yield "standbys", "; ".join(f"unit {each.unit} on {', '.join(each.hosts)}" for each in gate.standbys)
    yield "command", progress_line(job.command) or "-"
    if job.rent:
        yield "rent", _rent_line(job.rent)


def _mode(job: JobDocument) -> str:
    if job.settings and job.mode_set_by == "settings":
        return f"{job.mode}, settings version {job.settings.record.version}"
    return str(ModeInForce(job.mode, job.mode_set_by))


def _conditions(every: Sequence[Condition], width: int) -> Table:
    """Return how the job is, as in a Kubernetes status."""
    styles = ["" if each.status == (each.type in _GOOD_WHEN_TRUE) else "yellow" for each in every]
    columns = (
        Column("condition", [each.type for each in every], rank=1),
        Column("status", [Text(_status(each.status), style=style) for each, style in zip(every, styles, strict=True)], rank=1),
        Column("reason", [each.reason for each in every], rank=4),
        Column("since", [_minute(each.last_transition_ms) for each in every], rank=3),
        Column("message", [each.message for each in every]),
    )
    return fitting(columns, width)


def _tasks(topology: JobTopology, job: JobDocument, width: int, label_width: int | None) -> Table:
    """Return the tasks that can be scaled, by the names that people know them by, with their newest minute."""
    wanted = {task.task: task for task in job.decision.record.tasks} if job.decision else {}
    minutes = {minute.task: minute for minute in job.minute_by_task}
    labels = _labels(topology, label_width)
    tasks = [task for task in topology.tasks if task.scalable]
    most = {each.task: each.most_in_words for each in job.bounds}
    last = [wanted.get(task.task) for task in tasks]
    minute = [minutes.get(task.task) for task in tasks]
    columns = (
        Column("task", [labels[task.task] for task in tasks]),
        Column("now", [_running(task) for task in tasks], right=True, rank=1),
        Column("desired", [_word(each.desired if each else None) for each in last], right=True, rank=1),
        Column("least", [_word(each.floor or None if each else None) for each in last], right=True, rank=2),
        Column("busy", [_percent(each.utilisation if each else None) for each in minute], right=True, rank=1),
        Column("waiting", [_number(each.backlog if each else None) for each in minute], right=True, rank=2),
        Column("at most", [most.get(task.task, "-") for task in tasks], right=True, rank=3),
        Column("amended", [amended(each.amendments) if each else "" for each in last], rank=4),
        Column("kind", ["stateful" if task.stateful else "-" for task in tasks], rank=5),
        Column("upstream", [", ".join(labels.get(each, each) for each in task.upstream) for task in tasks], rank=7),
        Column("configured", [_word(task.configured_parallelism) for task in tasks], right=True, rank=6),
    )
    return fitting(columns, width)


def _print_group(console: Console, group: ConsumerGroup, most: int) -> None:
    """Print what the broker tells of a consumer group, with at most so many partitions: those in which most waits."""
    console.print(plain(_group_line(group)))
    ranked = sorted(group.partitions, key=lambda each: (each.lag is not None, -(each.lag or 0)))
    shown = sorted(ranked[:most], key=lambda each: (each.topic, each.partition))
    hidden = len(group.partitions) - len(shown)
    if shown:
        console.print(_partitions(shown, console.width))
    if hidden:
        console.print(f"{counted(hidden, 'more partition')} in which less waits; --wide shows them", markup=False)
    if group.partitions_left_out:
        console.print(f"{counted(group.partitions_left_out, 'more partition')} in which less waits, not kept", markup=False)
    if group.members:
        console.print(_members(group.members, console.width))
    if group.members_left_out:
        console.print(f"{counted(group.members_left_out, 'more member')}, not kept", markup=False)
    if group.workers:
        console.print(_workers(group.workers, console.width))
    if group.workers_left_out:
        console.print(f"{counted(group.workers_left_out, 'more worker')}, not kept", markup=False)


def _partitions(shown: Sequence[GroupPartition], width: int) -> Table:
    columns = (
        Column("partition", [f"{each.topic}[{each.partition}]" for each in shown]),
        Column("member", ["nobody" if each.subtask is None else str(each.subtask) for each in shown], right=True, rank=2),
        Column("end", [_word(each.end) for each in shown], right=True, rank=4),
        Column("committed", [_word(each.committed) for each in shown], right=True, rank=4),
        Column("waiting", [_number(each.lag) for each in shown], right=True, rank=1),
        Column("in/min", [_number(each.arrived_per_minute) for each in shown], right=True, rank=3),
        Column("read/min", [_number(each.read_per_minute) for each in shown], right=True, rank=2),
        Column("stands since", ["" if each.stands_since_ms is None else _minute(each.stands_since_ms) for each in shown], rank=3),
        Column("unknown because", [each.problem for each in shown]),
    )
    return fitting(columns, width)


def _members(members: Sequence[GroupMember], width: int) -> Table:
    columns = (
        Column("member", [str(each.subtask) for each in members], right=True, rank=1),
        Column("client", [each.client_id for each in members]),
        Column("host", [each.host for each in members], rank=3),
        Column("partitions", [str(each.partitions) for each in members], right=True, rank=1),
        Column("waiting", [_number(each.lag) for each in members], right=True, rank=1),
        Column("read/min", [_number(each.read_per_minute) for each in members], right=True, rank=2),
    )
    return fitting(columns, width)


def _workers(workers: Sequence[GroupWorker], width: int) -> Table:
    columns = (
        Column("worker", [str(each.index) for each in workers], right=True, rank=1),
        Column("pid", [_word(each.pid) for each in workers], right=True, rank=1),
        Column("started", [_minute(each.started_ms) for each in workers], rank=3),
        Column("failed starts", [str(each.failures or "") for each in workers], right=True, rank=2),
        Column("how", ["ending" if each.is_ending else each.failure for each in workers]),
        Column("log", [each.log for each in workers]),
    )
    return fitting(columns, width)


def _group_line(group: ConsumerGroup) -> str:
    topics = ", ".join(group.topics) or "no topic yet"
    words = f"group {group.group}: {group.state}, {topics}"
    unknown = f"what waits in {counted(group.lag_unknown, 'partition')} is unknown" if group.lag_unknown else ""
    if group.lag is None:
        return f"{words}; {unknown or 'what waits is unknown'}"
    waits = f"{counted(group.lag, 'record')} waiting" if group.lag else "nothing waits"
    if group.lag:
        waits += ", the oldest for " + ("longer than it was watched" if group.oldest_ms is None else _seconds(group.oldest_ms))
    return "; ".join(filter(None, (words, waits, unknown)))


def _labels(topology: JobTopology, width: int | None) -> dict[str, str]:
    """Return the label of each task, cut in the middle to a width unless another one would look the same."""
    whole = {task.task: task.label or task.task for task in topology.tasks}
    if width is None:
        return whole
    cut = {task: middle_cut(label, width) for task, label in whole.items()}
    seen = Counter(cut.values())
    return {task: label if seen[label] == 1 else whole[task] for task, label in cut.items()}


def _running(task: TaskSpec) -> str:
    """Return what runs, and of how many if slots are missing; of a task at rest, nothing."""
    if task.required == 0:
        return "0"
    short = task.required is not None and task.parallelism < task.required
    return f"{task.parallelism} of {task.required}" if short else str(task.parallelism)


def _window_line(window: WindowSummary | None) -> str:
    if window is None:
        return "none yet"
    return (
        f"{window.minutes_known} of {window.window_minutes} minutes up to {_minute(window.window_end_ms)}, "
        f"{_percent(window.completeness)} complete, {_number(window.load_records_per_minute)} records/min"
    )


def _health_line(job: JobDocument, minute: JobMinute) -> str:
    tasks = [each for each in job.minute_by_task if each.utilisation is not None]
    busiest = max(tasks, key=lambda each: each.utilisation or 0.0).task if tasks else None
    labels = {task.task: task.label for task in job.topology.record.tasks if task.label} if job.topology else {}
    named = f"busiest task {labels.get(busiest, busiest)}" if busiest else "busiest task"
    down = "" if minute.ran is None else f"ran {_percent(minute.ran)} of the minute, "
    waits = f"{_number(minute.backlog)} records waiting, latency {_seconds(minute.latency_ms)}"
    return f"{named} {_percent(minute.utilisation)}, {down}{waits}"


def _rent_line(rent: JobRent) -> str:
    if rent.slots is not None:
        line = f"${rent.per_day:.2f} a day for {counted(rent.slots, 'slot')}"
        saved = rent.saved_configured_per_day
        more = "" if saved is None else f"{_than(saved)} than at its author's size"
        lines = [f"{line}{more}", *(_summed_line(each, name) for each, name in _sums(rent)), rent.frees_no_host]
        return "; ".join(filter(None, lines))
    line = f"${rent.per_day:.2f} a day for {', '.join(rent.hosts) or 'no host'}"
    saved, default = rent.saved_round_robin_per_day, rent.saved_default_per_day
    if saved is None or default is None:
        return line
    return f"{line}; by {rent.algorithm}, ${saved:.2f} less than round robin, ${default:.2f} less than Flink's default"


def _sums(rent: JobRent) -> Iterator[tuple[SummedCost, str]]:
    """Yield the last full day, and the month if it is more than that."""
    if len(rent.days) > 1:
        yield rent.days[1], f"on {rent.days[1].since}"
    if rent.month is not None and len(rent.days) > 1:
        yield rent.month, "in the last 30 days"


def _summed_line(cost: SummedCost, when: str) -> str:
    saved = "" if cost.saved_configured is None else _than(cost.saved_configured)
    known = f"{cost.minutes / 60:.0f} h" if cost.minutes < 2 * DAY_MINUTES else f"{cost.minutes / DAY_MINUTES:.1f} days"
    return f"{when} ${cost.dollars:.2f}{saved} ({known} known)"


def _than(saved: float) -> str:
    return f", ${abs(saved):.2f} {'less' if saved >= 0 else 'more'}"


def _status(holds: bool | None) -> str:
    return "Unknown" if holds is None else str(holds)


def _now(job: JobOverview) -> Text:
    shown = now_words(job.status, job.stale, job.restarts, job.window_end_ms, job.began_ms)
    return plain(shown, _NOW_STYLE.get(job.status, "yellow"))


def now_words(status: Status, stale: Stale | None, restarts: int | None, window_end_ms: int | None, began_ms: int | None) -> str:
    """Return how a job is for people: the word, and since when or how often."""
    match status:
        case "unknown" | "stalled" if stale is not None:
            return stale.words
        case "resting":
            return "at rest"
        case "restarting":
            return f"restarting, {restarts} in 10 min"
        case "unmeasured" if window_end_ms is not None:
            return f"no figures at {to_the_minute(window_end_ms)[-5:]}"
        case "unmeasured":
            return "no figures yet" + ("" if began_ms is None else f", since {to_the_minute(began_ms)[-5:]}")
    return status


def _last(job: JobOverview) -> str:
    return "-" if job.decided_ms is None else f"{to_the_minute(job.decided_ms)[-5:]} {job.came}"


def _gate(phase: str | None, wake_up_ms: int | None, reason: str | None = None) -> str:
    words = [reason_words(reason) if reason else phase_words(phase)]
    if wake_up_ms is not None:
        words.append(f"until {_minute(wake_up_ms)}")
    return " ".join(words)


def _minute(at_ms: int | None) -> str:
    return "-" if at_ms is None else to_the_second(at_ms)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value / 1000.0:,.1f} s"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _word(value: object) -> str:
    return "-" if value is None else str(value)
