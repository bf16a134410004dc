"""Parallelism by task: compared, and put into words."""

from collections.abc import Mapping


def covers(state: Mapping[str, int], target: Mapping[str, int]) -> bool:
    """Say whether every task of a target has its parallelism; other tasks may have any."""
    return all(state.get(task) == count for task, count in target.items())


def in_words(parallelism: Mapping[str, int]) -> str:
    """Return ``count=3, parse=1``."""
    return ", ".join(f"{task}={count}" for task, count in sorted(parallelism.items()))
