"""Prints an explained decision on one screen. Reads nothing itself."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from surescale.contracts.commands import Outcome, Progress, RescheduleCommand, SlotMove, TaskChange
from surescale.contracts.decisions import ChangeScore, Decision, PolicyUsed, TaskDecision
from surescale.contracts.messages import EngineEvent
from surescale.contracts.plurals import counted, listed
from surescale.contracts.releases import why_released
from surescale.contracts.rent import DAY_S
from surescale.policies.drift import in_words
from surescale.runtime import terminal
from surescale.runtime.instants import to_the_second
from surescale.runtime.terminal import Column, fitting, plain, several
from surescale.services.recomputation.counterfactual import WithoutFacts
from surescale.services.state.read.decision_lines import amended
from surescale.services.state.read.words import WORDS, cause_words, outcome_in_words, phase_words, reason_words
from surescale.services.tools.explain.explanation import (
    Explained,
    Explanation,
    OwnActExplanation,
    Recomputed,
    heaviest_minutes,
)
from surescale.services.tools.explain.lookup import ENDED, GateNow


def meanings_of(tasks: Iterable[TaskDecision]) -> list[str]:
    """Return a line for each guardrail that amended one of these tasks, in the guardrails' order.

    >>> from surescale.contracts.decisions import Amendment
    >>> amendment = Amendment(rule="total_limit", before=9, after=4)
    >>> meanings_of([TaskDecision(task="a", current=2, ratio=4.5, proposed=9, desired=4, amendments=(amendment,))])
    ["total_limit: the job's total allows no more"]
    """
    named = {amendment.rule for task in tasks for amendment in task.amendments}
    return [f"{rule}: {meaning}" for rule, meaning in WORDS.guardrails.items() if rule in named]


ROWS_SHOWN = 8
UNITS_SHOWN = 8
_QUIET = ("checkpoint_completed",)  # kinds of engine events that every minute brings

T = TypeVar("T")


def show(explained: Explanation | OwnActExplanation, console: Console | None = None, *, attention: bool = False) -> None:
    """Print the screen; ``attention``: also what a learned policy looked at."""
    out = console or terminal.console()
    if isinstance(explained, OwnActExplanation):
        _show_own_act(out, explained)
    else:
        _show_decision(out, explained)
        if attention:
            _show_attention(out, explained)
    _show_course(out, explained)
    if explained.commands:
        _show_commands(out, explained.commands, explained.labels)
    if isinstance(explained, Explanation) and explained.without:
        show_without(out, explained.without, explained.labels)
    if isinstance(explained, Explanation) and isinstance(explained.recomputed, Recomputed):
        _show_recomputed(out, explained.recomputed)


def _show_decision(out: Console, explained: Explanation) -> None:
    decision = explained.decision
    came = outcome_in_words(decision.action, explained.outcomes[-1] if explained.outcomes else None)
    out.print(plain(f"{decision.decision_id}: {came}", "bold"))
    out.print(plain(decision.reason))
    _print_facts(out, _facts(decision, explained.load_minutes))
    _show_candidates(out, decision, explained.slot_price_per_s)
    _show_tasks(out, decision, explained.labels)


def _show_own_act(out: Console, explained: OwnActExplanation) -> None:
    out.print(plain(f"{explained.decision_id}: {explained.own_act.value}, not a policy's decision", "bold"))
    out.print(plain(f"{explained.why[0].upper()}{explained.why[1:]}."))
    facts = [("what", detail) for detail in dict.fromkeys(each.detail for each in explained.outcomes) if detail]
    if explained.look:
        look = explained.look
        words = [look.reason.replace("_", " "), *([look.detail] if look.detail else [])]
        facts.append(("hosts", f"of generation {look.generation}, looked at {to_the_second(look.at_ms)}: {', '.join(words)}"))
        mine = [move for move in look.moves if move.job == explained.job]
        facts.extend(("move", line) for line in _moves(mine))
    facts.append(("started", to_the_second(explained.at_ms)))
    _print_facts(out, facts)


def _moves(moves: Iterable[SlotMove]) -> Iterator[str]:
    """Yield one line for each pair of hosts."""
    units: dict[tuple[str, str], list[int]] = {}
    for move in moves:
        units.setdefault((move.host, move.to_host), []).append(move.unit)
    for (host, to_host), each in units.items():
        yield f"{'unit' if len(each) == 1 else 'units'} {_units(each)} from {host} to {to_host}"


def _print_facts(out: Console, facts: Iterable[tuple[str, str]]) -> None:
    table = Table.grid(padding=(0, 2))
    for name, line in facts:
        table.add_row(name, plain(line))
    out.print(table)


def _facts(decision: Decision, load_minutes: int) -> list[tuple[str, str]]:
    policy, compared, load = decision.policy, decision.compared, decision.load_records_per_minute
    minutes = "the last minute" if load_minutes == 1 else f"mean of {load_minutes} minutes"
    shown_load = "load unknown" if load is None else f"{load:,.0f} records/min ({minutes})"
    facts = [
        (
            "window",
            f"{counted(decision.minutes_known, 'minute')} known, {decision.completeness:.0%} complete, "
            f"{shown_load}, up to {to_the_second(decision.span_end_ms)}",
        ),
        ("policy", f"{policy.name} ({policy.sha256[:12] or 'rule'}), seed {decision.seed}{_chosen_by(policy)}"),
        ("settings", f"version {decision.settings_version}, topology version {decision.topology_version}"),
    ]
    if policy.fallback_reason:
        facts.insert(2, ("fallback", f"{policy.asked} was asked: {policy.fallback_reason}"))
    if decision.drift:
        facts.append(("features", in_words(decision.drift)))
    if compared:
        facts.append(("scores", _scores(compared)))
        facts.append(("", f"score = {compared.unit}; higher is better"))
    return facts


def _chosen_by(policy: PolicyUsed) -> str:
    why = f"; {why_released(policy.release, policy.asked or policy.name)}" if policy.release else ""
    return f"{why}; the tournament's winner does not serve now: {policy.left}" if policy.left else why


def _scores(compared: ChangeScore) -> str:
    present = f"the present {counted(compared.present_subtasks, 'subtask')} {compared.present_score:.4f}"
    gain = compared.score - compared.present_score
    if gain <= 0:
        return f"{present}; no other size scores more"
    enough = "more than" if gain > compared.gain_needed else "less than"
    best = f"{counted(compared.subtasks, 'subtask')} {compared.score:.4f}"
    return f"{best}, {present}: {gain:+.4f}, {enough} the {compared.gain_needed:.4f} that a change must gain"


def _show_candidates(out: Console, decision: Decision, price: float | None) -> None:
    """Print what each size that was compared would cost and suffer."""
    compared, grown = decision.compared, sum(task.desired - task.current for task in decision.tasks)
    if compared is None or compared.candidates is None:
        out.print(plain("No sizes were compared, so there is no curve of rent against late minutes: rules work out one size."))
        return
    candidates, present = compared.candidates, compared.present_subtasks
    sizes, slots = candidates.subtasks, candidates.slots
    chosen = present + grown
    marks = ((present, "present"), (compared.subtasks, "best score"), (chosen, "chosen"))
    paid = slots or sizes  # what rent grows with
    now = dict(zip(sizes, paid, strict=True)).get(present, 0)
    columns = [
        Column("subtasks", [str(size) for size in sizes], right=True),
        Column(
            "rent",
            [f"{each / now - 1:+.0%}" if now and size != present else "" for size, each in zip(sizes, paid, strict=True)],
            right=True,
        ),
        Column("late minutes", [f"{each:.1f}" for each in candidates.late_minutes], right=True),
        Column("", [", ".join(word for marked, word in marks if marked == size) for size in sizes]),
    ]
    if price is not None and slots:
        columns.insert(2, Column("$/day", [f"{each * price * DAY_S:,.2f}" for each in slots], right=True))
    out.print(fitting(columns, out.width))
    if chosen not in sizes:
        out.print(f"chosen: {counted(chosen, 'subtask')}, a size that is none of these, after the guardrails")
    late = f"with records that wait longer than {candidates.late_seconds:g} s, restart included"
    out.print(plain(f"late: of the next {candidates.minutes} minutes, {late}"))
    out.print(plain(f"rent: {_rent(price, bool(slots))}"))


def _rent(price: float | None, in_slots: bool) -> str:
    """Return what the rent of sizes is made of."""
    if not in_slots:
        return "of subtasks; dollars depend on the hosts, which are chosen after the decision"
    if price is None:
        return "of slots; dollars are unknown, since hosts or workers have no price (SURESCALE_PRICES)"
    return f"of slots, at ${price * DAY_S:,.2f} each a day, the price of now"


def _show_tasks(out: Console, decision: Decision, labels: Mapping[str, str]) -> None:
    """Print a row a task: the ones that change first, then the busiest. Tasks that change alike share a row."""
    sized = [task for task in decision.tasks if task.utilisation is not None or task.floor or _is_touched(task)]
    changing = sum(map(_is_touched, sized))
    if not changing:
        out.print(
            "The task was not to change." if len(decision.tasks) == 1 else f"None of {len(decision.tasks)} tasks was to change."
        )
    if not sized:
        return
    sized.sort(key=lambda task: (not _is_touched(task), -abs(task.desired - task.current), -(task.utilisation or 0.0)))
    rows = _alike(sized, lambda task: (*_task_figures(task), "" if _is_touched(task) else task.task))
    shown = rows[:ROWS_SHOWN]
    figures = [sizes for sizes, _ in shown]
    columns = (
        Column("task", [several([labels.get(task.task, task.task) for task in alike]) for _, alike in shown]),
        Column("now", [sizes[0] for sizes in figures], right=True, rank=1),
        Column("busy", [_range([task.utilisation for task in alike]) for _, alike in shown], right=True, rank=2),
        Column("waiting", [_waiting(alike) for _, alike in shown], right=True, rank=3),
        Column("least for load", [sizes[4] for sizes in figures], right=True, rank=2),
        Column("wanted", [sizes[2] for sizes in figures], right=True, rank=4),
        Column("desired", [sizes[3] for sizes in figures], right=True, rank=1),
        Column("amended", [sizes[5] for sizes in figures], rank=1),
        Column("ratio", [sizes[1] for sizes in figures], right=True, rank=5),
    )
    out.print(fitting(columns, out.width))
    _print_how_many_are_left(out, rows)
    for meaning in meanings_of(decision.tasks):
        out.print(plain(meaning))


def _is_touched(task: TaskDecision) -> bool:
    return task.desired != task.current or task.proposed != task.current


def _task_figures(task: TaskDecision) -> tuple[str, ...]:
    sizes = str(task.current), f"{task.ratio:.3f}", str(task.proposed), str(task.desired), str(task.floor or "-")
    return *sizes, amended(task.amendments)


def _range(shares: Iterable[float | None]) -> str:
    known = [share for share in shares if share is not None]
    if not known:
        return "-"
    low, high = f"{min(known):.0%}", f"{max(known):.0%}"
    return low if low == high else f"{low[:-1]}-{high}"


def _waiting(tasks: Iterable[TaskDecision]) -> str:
    """Return the most records that are known to wait for one of the tasks."""
    known = [task.waiting_records for task in tasks if task.waiting_records is not None]
    return f"{max(known):,.0f}" if known else "-"


def _show_attention(out: Console, explained: Explanation) -> None:
    labels, decision = explained.labels, explained.decision
    looked_at = {task.task: heaviest_minutes(task, decision.span_end_ms, labels) for task in decision.tasks}
    if not any(looked_at.values()):
        out.print("no attention: no network had a say in this decision")
    for task, looked in looked_at.items():
        if looked:
            out.print(plain(f"{labels.get(task, task)} looked at (minute, weight): {looked}"))


def _alike(rows: Iterable[T], figures: Callable[[T], tuple[str, ...]]) -> list[tuple[tuple[str, ...], list[T]]]:
    """Put items with equal figures into one row, in the order of the first of each."""
    groups: dict[tuple[str, ...], list[T]] = {}
    for row in rows:
        groups.setdefault(figures(row), []).append(row)
    return list(groups.items())


def _print_how_many_are_left(out: Console, rows: Sequence[tuple[tuple[str, ...], list[T]]]) -> None:
    left = sum(len(alike) for _, alike in rows[ROWS_SHOWN:])
    if left:
        out.print(f"and {counted(left, 'more task')} (--json shows all)")


def _show_course(out: Console, explained: Explained) -> None:
    """Print what led to it and what became of it, one line per event in the order of time."""
    steps = [(item.at_ms, 0, f"{item.status}: {_outcome(item)}") for item in explained.outcomes]
    actions = {command.command_id: command.action for command in explained.commands}
    steps += [(item.at_ms, 1, f"{actions[item.command_id]} {_progress(item, explained.labels)}") for item in explained.progress]
    steps += _events(explained.engine_events)
    if not explained.outcomes:
        out.print("No outcome yet: the rescaler has not answered.")
    grid = Table.grid(padding=(0, 2))
    for at_ms, _, line in sorted(steps, key=lambda step: step[:2]):
        grid.add_row(to_the_second(at_ms), plain(line))
    out.print(grid)
    if explained.gate_now:
        out.print(plain(f"now: {_gate(explained.gate_now)}"))
    if isinstance(explained, Explanation) and explained.next_in_words:
        out.print(plain(f"next decision: {explained.next_in_words}"))


def _gate(gate: GateNow) -> str:
    """Return what the rescaler does about a decision now, until when, and by which command."""
    words = reason_words(gate.waits_because) if gate.waits_because else phase_words(gate.phase)
    until = "" if gate.wakes_up_ms is None else f", until {to_the_second(gate.wakes_up_ms)}"
    return f"{words}{until}{f', by {gate.carries_out}' if gate.carries_out else ''}"


def _show_commands(out: Console, commands: Sequence[RescheduleCommand], labels: Mapping[str, str]) -> None:
    """Print the steps on one line, and what the last one changes."""
    last = commands[-1]
    kind = " (advice)" if last.advice else ""
    steps = ", then ".join(f"{command.command_id} {command.action}" for command in commands)
    out.print(plain(f"{steps}{kind}: {reason_words(last.gate_reason)}; {cause_words(last.gate_cause)}"))
    by_units = last.expected is None  # otherwise the engine chooses the places
    rows = _alike(last.changes, lambda change: _change_figures(change, by_units=by_units))
    shown = rows[:ROWS_SHOWN]
    titles = ("before", "after", *(("added units", "removed units", "vnodes moved") if by_units else ()))
    columns = [Column("task", [several([labels.get(change.task, change.task) for change in alike]) for _, alike in shown])]
    columns += [Column(title, [figures[at] for figures, _ in shown], rank=at) for at, title in enumerate(titles)]
    if rows:
        out.print(fitting(columns, out.width))
    _print_how_many_are_left(out, rows)
    if last.placement:
        out.print(plain(f"placed by {last.placement.algorithm} on {', '.join(last.placement.hosts)}"))


def _change_figures(change: TaskChange, *, by_units: bool) -> tuple[str, ...]:
    units = (_units(change.added_units), _units(change.removed_units), str(change.vnodes_moved))
    return (str(change.before), str(change.after), *(units if by_units else ()))


def _show_recomputed(out: Console, recomputed: Recomputed) -> None:
    if recomputed.same:
        out.print(Text("recomputed: the same bytes", style="green"))
        return
    out.print(Text("recomputed: NOT the same", style="bold red"))
    for line in recomputed.differences[:ROWS_SHOWN]:
        out.print(plain(f"  {line}"))


def _outcome(outcome: Outcome) -> str:
    words = [reason_words(outcome.reason)]
    if outcome.detail:
        words.append(f"({outcome.detail})")
    if outcome.until_ms is not None:
        words.append(f"until {to_the_second(outcome.until_ms)}")
    if outcome.command_id:
        words.append(f"by {outcome.command_id}")
    return " ".join(words)


def _progress(step: Progress, labels: Mapping[str, str]) -> str:
    words: list[str] = [step.status]
    if step.learners:
        words.append(f"{step.learners} learners")
    if step.lag_bytes:
        words.append(f"{step.lag_bytes / 2**20:.0f} MiB behind")
    if step.status in ENDED and step.duration_ms:
        words.append(f"{step.duration_ms / 1000:.0f} s")
    if step.reached:
        words.append(f"{', '.join(f'{labels.get(task, task)} {count}' for task, count in sorted(step.reached.items()))} run")
    if step.waiting_for:
        words.append(f"waiting for {step.waiting_for}")
    if step.waited_ms is not None:
        words.append(f"waited {step.waited_ms / 1000:.1f} s")
    if step.still_ms is not None:
        words.append(f"down for {step.still_ms / 1000:.1f} s")
    why = " ".join(filter(None, (step.code, step.detail)))
    return ", ".join(words) + (f": {why}" if why else "")


def _events(events: Iterable[EngineEvent]) -> Iterator[tuple[int, int, str]]:
    """Yield time, rank and line of each event; events that say the same share the line of the first."""
    alike: dict[str, list[int]] = {}
    for event in events:
        if event.kind not in _QUIET:
            alike.setdefault(_event(event), []).append(event.at_ms)
    for line, times in alike.items():
        more = f" ({len(times)} times, until {to_the_second(times[-1])})" if len(times) > 1 else ""
        yield times[0], 2, f"engine: {line}{more}"


def _event(event: EngineEvent) -> str:
    return " ".join(filter(None, (event.kind.replace("_", " "), event.job, event.host, event.detail)))


def _units(units: Sequence[int]) -> str:
    return listed(map(str, units), UNITS_SHOWN) or "-"


def show_without(out: Console, answers: Sequence[WithoutFacts], labels: Mapping[str, str]) -> None:
    """Print a row an answer, and below why those that differ do."""
    columns = (
        Column("without", [each.without for each in answers]),
        Column("answer", [_sizes(each, labels) for each in answers]),
    )
    out.print(fitting(columns, out.width))
    for each in answers:
        if each.stand_in_reason:
            out.print(plain(f"{each.without}: the rule would have stood in for the policy: {each.stand_in_reason}"))
        elif each.sizes:
            out.print(plain(f"{each.without}: {each.reason}"))


def _sizes(answer: WithoutFacts, labels: Mapping[str, str]) -> str:
    """Return what differs; tasks with the same two sizes share a place."""
    alike: dict[tuple[int, int], list[str]] = {}
    for task, sizes in answer.sizes.items():
        alike.setdefault(sizes, []).append(labels.get(task, task))
    told = [f"{several(names)} {after} instead of {before}" for (before, after), names in alike.items()]
    return f"{answer.action}: {'; '.join(told)}" if told else "the same sizes"
