"""Prints what would have been decided without a task's figures or a minute's."""

from collections.abc import Mapping, Sequence

from rich.console import Console

from runtime.terminal import Column, fitting, plain, several
from services.recomputation.counterfactual import WithoutFacts


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
