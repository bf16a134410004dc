"""A replay as tables for people and as a document for programs. Decides nothing."""

from collections.abc import Iterator, Sequence

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from surescale.runtime.instants import to_the_minute
from surescale.runtime.terminal import several
from surescale.services.tools.recording.diff import Agreement, PolicyTally, SpanDiff, TaskTarget
from surescale.services.tools.recording.replay import AgentAnswers, Replayed

NOTHING = "·"
DIFFERENCES_SHOWN = 5
OPEN_LOOP = "open loop: each span starts from the size that was recorded, and answers take effect at once"


class AsItRan(msgspec.Struct, frozen=True, kw_only=True):
    """What the pipeline itself did over the same minutes."""

    rescales: int
    minutes: int
    minutes_over_capacity: int
    subtask_minutes: int


class ReplayDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A replay for programs; ``agent`` is set only if an agent answered."""

    source: str
    through: str
    jobs: list[str]
    from_ms: int | None
    until_ms: int | None
    windows: int
    refused: int
    policies: list[PolicyTally]
    as_it_ran: AsItRan
    spans: list[SpanDiff]
    agent: AgentAnswers | msgspec.UnsetType = msgspec.UNSET


def document(found: Replayed, answers: AgentAnswers | None = None, *, source: str, through: str) -> ReplayDocument:
    """Return a replay for programs."""
    ran = found.ran
    return ReplayDocument(
        source=source,
        through=through,
        jobs=found.jobs,
        from_ms=found.first_ms,
        until_ms=found.last_ms,
        windows=found.windows,
        refused=found.refused,
        policies=found.policies,
        as_it_ran=AsItRan(
            rescales=ran.rescales,
            minutes=ran.minutes,
            minutes_over_capacity=ran.minutes_over_capacity,
            subtask_minutes=ran.subtask_minutes,
        ),
        spans=found.spans,
        agent=answers or msgspec.UNSET,
    )


def print_replay(found: Replayed, console: Console, *, full: bool = False) -> None:
    """Print each job's spans side by side, then the figures of each policy."""
    names = [tally.policy for tally in found.policies]
    for job in found.jobs:
        spans = [span for span in found.spans if span.job == job]
        runs = [[span] for span in spans] if full else [run for run in _runs(spans) if run[0].tasks]
        if runs:
            console.print(_job_table(job, runs, names, full))
        quiet = len(spans) - sum(map(len, runs))
        if quiet:
            line = f"{job}: {quiet} of {len(spans)} spans without any change are left out"
            console.print(line, style="dim", highlight=False, markup=False)
    console.print(_figures_table(found))
    for tally in found.policies:
        package = f" ({tally.sha256[:12]})" if tally.sha256 else ""
        console.print(f"{escape(tally.policy)}{package}: {agreement_line(tally.recorded)}", highlight=False)
        for difference in tally.recorded.differences[:DIFFERENCES_SHOWN]:
            line = f"  {difference.decision_id} differs in {', '.join(difference.fields)}"
            console.print(line, highlight=False, markup=False)
    if found.refused:
        console.print(f"{found.refused} windows do not parse or cannot be decided on; they are left out", highlight=False)


def print_answers(answers: AgentAnswers, console: Console) -> None:
    """Print how the agent's own decisions compare."""
    console.print(f"the agent made {answers.decisions} decisions on the Spark job's windows", highlight=False)
    console.print(f"  recorded: {agreement_line(answers.recorded)}", highlight=False)
    console.print(f"  decided here: {agreement_line(answers.directly)}", highlight=False)


def agreement_line(agreement: Agreement) -> str:
    """Return one sentence on how decisions compare with the recorded ones."""
    compared = agreement.same + agreement.different
    if not compared and not agreement.other_hash and not agreement.unmatched:
        return "it has no recorded decisions to compare with"
    words = []
    if compared and not agreement.different:
        words.append(f"[green]replays to the same decisions, byte for byte: {agreement.same} of {compared}[/green]")
    elif compared:
        words.append(f"[red]{agreement.different} of {compared} decisions differ from the recorded ones[/red]")
    if agreement.other_hash:
        words.append(f"{agreement.other_hash} recorded decisions were made by another package of that name and are not compared")
    if agreement.unmatched:
        words.append(f"{agreement.unmatched} recorded decisions have no window here")
    return "; ".join(words)


def _job_table(job: str, runs: Sequence[Sequence[SpanDiff]], names: Sequence[str], full: bool) -> Table:
    table = Table("span end", "task", "now", title=escape(job), title_justify="left")
    table.columns[2].justify = "right"
    for name in names:
        table.add_column(name, justify="right")
    for alike in runs:
        first = alike[0]
        verdicts = [_verdict(action, desired) for action, desired in zip(first.actions, first.desired, strict=True)]
        rows = [("[bold]all[/bold]", str(first.current), *verdicts), *_task_rows(first, full)]
        for number, row in enumerate(rows):
            table.add_row(_when(alike, number), *row)
        table.add_section()
    return table


def _runs(spans: Sequence[SpanDiff]) -> list[list[SpanDiff]]:
    """Group consecutive spans with the same answers: a target that is repeated is shown once."""
    runs: list[list[SpanDiff]] = []
    for span in spans:
        before = runs[-1][-1] if runs else None
        if before is not None and (before.actions, before.current, before.tasks) == (span.actions, span.current, span.tasks):
            runs[-1].append(span)
        else:
            runs.append([span])
    return runs


def _when(alike: Sequence[SpanDiff], row: int) -> str:
    """Return the first column's text: when the first span ends, and below it when the last one does."""
    first, last = to_the_minute(alike[0].span_end_ms), to_the_minute(alike[-1].span_end_ms)
    if row == 0:
        return first
    until = last[11:] if last[:10] == first[:10] else last[5:]
    return f"to {until}, {len(alike)} spans" if row == 1 and len(alike) > 1 else ""


def _task_rows(span: SpanDiff, full: bool) -> Iterator[tuple[str, ...]]:
    """Yield the tasks that policies change. Unless ``full``, equal changes share a row, and so do tasks all policies agree on."""
    alike = [] if full or len(span.actions) == 1 else [target for target in span.tasks if len(set(target.desired)) == 1]
    groups: dict[object, list[TaskTarget]] = {}
    for target in span.tasks:
        if target not in alike:
            groups.setdefault(target.task if full else (target.current, target.desired), []).append(target)
    for targets in groups.values():
        wanted = (_wanted(targets[0], desired) for desired in targets[0].desired)
        yield (escape(several([target.task for target in targets])), str(targets[0].current), *wanted)
    if alike:
        sums = (str(sum(target.desired[index] or 0 for target in alike)) for index in range(len(span.actions)))
        yield (f"{len(alike)} tasks alike", str(sum(target.current for target in alike)), *sums)


def _verdict(action: str | None, desired: int | None) -> str:
    if action is None:
        return ""
    return f"[bold]act → {desired}[/bold]" if action == "act" else "hold"


def _wanted(target: TaskTarget, desired: int | None) -> str:
    if desired is None:
        return ""
    if desired == target.current:
        return NOTHING
    return f"[green]↑ {desired}[/green]" if desired > target.current else f"[cyan]↓ {desired}[/cyan]"


def _figures_table(found: Replayed) -> Table:
    span = f"{to_the_minute(found.first_ms or 0)} to {to_the_minute(found.last_ms or 0)}"
    table = Table(title=f"{found.windows} windows, {span}; {OPEN_LOOP}", title_justify="left")
    table.add_column("policy", no_wrap=True)
    stood_in = any(tally.fallbacks for tally in found.policies)
    for name in ("decisions", "acts", "rescales", "minutes over capacity", "subtasks", *(["by the rule"] if stood_in else [])):
        table.add_column(name, justify="right")
    for tally in found.policies:
        cells = (
            tally.decisions,
            tally.acts,
            tally.rescales,
            _over(tally),
            _mean(tally),
            *([tally.fallbacks] if stood_in else []),
        )
        table.add_row(escape(tally.policy), *map(str, cells))
    table.add_row(escape(found.ran.policy), "", "", str(found.ran.rescales), _over(found.ran), _mean(found.ran), style="dim")
    return table


def _over(tally: PolicyTally) -> str:
    return f"{tally.minutes_over_capacity} of {tally.minutes}"


def _mean(tally: PolicyTally) -> str:
    return f"{tally.subtask_minutes / tally.minutes:.1f}" if tally.minutes else "-"
