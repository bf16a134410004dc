"""How long members of groups have been busy, from their own metrics in the text format of Prometheus."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from surescale.contracts.figures import known_number
from surescale.engines.groups.broker import Member
from surescale.engines.groups.chains import Group
from surescale.runtime.http import ErrorAnswer, NoAnswer, ask
from surescale.runtime.printable import printable

ANSWER_TIMEOUT_S = 1.0
ALL_WITHIN_S = 5.0
"""Whoever has not been asked by then is not asked in this look: silent members must not cost the minute."""
_BYTES_MAX = 4 * 2**20
_ASKED_AT_ONCE = 16
_SHOWN_MAX = 60  # letters of what a member says; all of it is its own choice


@dataclass(frozen=True, slots=True)
class Busy:
    """What one member tells of itself.

    Attributes:
        seconds: spent on records since it started; None: unknown.
        problem: why they are unknown, with the member's address, in one line; empty where nobody asks.
    """

    seconds: float | None = None
    problem: str = ""


def busy_of(asked: Mapping[str, tuple[Group, tuple[Member, ...]]]) -> dict[str, list[Busy]]:
    """Return what the members of groups tell, by task and in their order. All are asked side by side."""
    until_s = time.monotonic() + ALL_WITHIN_S
    shows = [(group, member) for group, members in asked.values() if group.metrics for member in members]
    if not shows:
        return {task: [Busy()] * len(members) for task, (_, members) in asked.items()}
    with ThreadPoolExecutor(min(len(shows), _ASKED_AT_ONCE)) as pool:
        told = pool.map(lambda each: _ask(each[0], each[1], until_s), shows)
        return {task: [next(told) if group.metrics else Busy() for _ in members] for task, (group, members) in asked.items()}


def _ask(group: Group, member: Member, until_s: float) -> Busy:
    url = member.filled_in(group.metrics)
    if url is None:
        return _unknown(f"its client id has no number for {group.metrics}", member)
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        return _unknown(f"{url} was not asked, since the members before it took too long", member)
    try:
        page = ask(url, timeout_s=min(left_s, ANSWER_TIMEOUT_S), bytes_max=_BYTES_MAX)
    except ErrorAnswer as error:
        return _unknown(f"{url} answers {str(error)[:_SHOWN_MAX]}", member)
    except NoAnswer as error:
        return _unknown(f"{url} does not answer ({str(error)[:_SHOWN_MAX]})", member)
    values = values_in(page.decode("utf-8", "replace"), group.busy)
    if not values:
        return _unknown(f"{url} has no counter {group.busy}", member)
    figures = [known_number(value) for value in values]
    seconds = None if None in figures else known_number(sum(each for each in figures if each is not None))
    if seconds is None:
        odd = next((value for value, known in zip(values, figures, strict=True) if known is None), "too large a sum")
        return _unknown(f"{url} shows {odd[:_SHOWN_MAX]} for {group.busy}, which is no time", member)
    return Busy(seconds)


def values_in(page: str, name: str) -> list[str]:
    """Return the values of all series of a counter, e.g. one a topic. In time that grows with the page, whatever is on it."""
    found = []
    for line in page.split("\n"):
        series, _, _ = line.strip().partition(" # {")  # an example of OpenMetrics, with a value of its own
        rest = series.removeprefix(name)
        if series.startswith(name) and rest[:1] in ("{", " ", "\t"):
            found += rest.rpartition("}")[2].split(maxsplit=1)[:1] or ["nothing"]  # after it a time may follow
    return found


def _unknown(why: str, member: Member) -> Busy:
    return Busy(None, printable(f"{why} (member {member.client_id[:_SHOWN_MAX]})"))
