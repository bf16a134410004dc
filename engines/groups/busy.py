"""How long members of groups have been busy, from their own metrics in the text format of Prometheus.

A counter of seconds that the file names, or else what Kafka's Java client says of itself: ``poll-idle-ratio-avg``.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from surescale.contracts.figures import known_number
from surescale.engines.groups.chains import Group
from surescale.engines.groups.members import Member, known_client
from surescale.runtime.http import LARGE, ErrorAnswer, NoAnswer, ask
from surescale.runtime.printable import printable

ANSWER_TIMEOUT_S = 1.0
ALL_WITHIN_S = 5.0
"""Whoever has not been asked by then is not asked in this look: silent members must not cost the minute."""
_BYTES_MAX = 4 * 2**20
_ASKED_AT_ONCE = 16
_SHOWN_MAX = 60  # letters of what a member says; all of it is its own choice
_IDLE = "poll_idle_ratio_avg"
"""Ends the name, whatever exporter and rules made it: kafka_consumer_ before it is Micrometer's, consumer_metrics_ JMX's."""
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_CLIENT = re.compile(r'[{,]\s*client_?[iI]d="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Busy:
    """What one member tells of itself.

    Attributes:
        seconds: spent on records since it started; None: unknown.
        share: of the last half to whole minute in which it was at work, by a Java client; None: unknown.
        problem: why they are unknown, with the member's address, in one line; empty where nobody asks.
    """

    seconds: float | None = None
    share: float | None = None
    problem: str = ""


def busy_of(asked: Mapping[str, tuple[Group, tuple[Member, ...]]]) -> dict[str, list[Busy]]:
    """Return what the members of groups tell, by task and in their order. All are asked side by side."""
    until_s = time.monotonic() + ALL_WITHIN_S
    shows = [(group, member) for group, members in asked.values() if group.metrics for member in members]
    if not shows:
        return {task: [Busy()] * len(members) for task, (_, members) in asked.items()}
    asked_for = Counter(_asked_for(*each) for each in shows)
    alike = {each for each, count in asked_for.items() if count > 1}
    with ThreadPoolExecutor(min(len(shows), _ASKED_AT_ONCE)) as pool:
        told = pool.map(lambda each: _ask(each[0], each[1], until_s, _asked_for(*each) in alike), shows)
        return {task: [next(told) if group.metrics else Busy() for _ in members] for task, (group, members) in asked.items()}


def _asked_for(group: Group, member: Member) -> tuple[str | None, str]:
    return member.filled_in(group.metrics), member.client_id


def _ask(group: Group, member: Member, until_s: float, is_one_of_several: bool) -> Busy:
    url = member.filled_in(group.metrics)
    if url is None:
        return _unknown(f"its client id has no number for {group.metrics}", member)
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        return _unknown(f"{url} was not asked, since the members before it took too long", member)
    timeout_s = min(left_s, ANSWER_TIMEOUT_S)
    with LARGE.reading(timeout_s) as place:
        try:
            text = ask(url, timeout_s=timeout_s, bytes_max=_BYTES_MAX, place=place).decode("utf-8", "replace")
        except ErrorAnswer as error:
            return _unknown(f"{url} answers {str(error)[:_SHOWN_MAX]}", member)
        except NoAnswer as error:
            return _unknown(f"{url} does not answer ({str(error)[:_SHOWN_MAX]})", member)
        return _counted(text, group, url, member) if group.busy else _share(text, url, member, is_one_of_several)


def _counted(page: str, group: Group, url: str, member: Member) -> Busy:
    values = values_in(page, group.busy)
    if not values:
        return _unknown(f"{url} has no counter {group.busy}", member)
    figures = [known_number(value) for value in values]
    seconds = None if None in figures else known_number(sum(each for each in figures if each is not None))
    if seconds is None:
        odd = next((value for value, known in zip(values, figures, strict=True) if known is None), "too large a sum")
        return _unknown(f"{url} shows {odd[:_SHOWN_MAX]} for {group.busy}, which is no time", member)
    return Busy(seconds)


def _share(page: str, url: str, member: Member, is_one_of_several: bool) -> Busy:
    """Return what a Java client says of the share of its time in which it was at work: what poll() left."""
    shown = idle_in(page)
    if not shown:
        return _unknown(f"{url} has no {_IDLE} of a Java client; name a counter of seconds by busy", member)
    if is_one_of_several:
        return _unknown(f"{url} cannot tell it from a member with the same client id; give each a client.id of its own", member)
    values = shown.get(member.client_id) or (shown[""] if shown.keys() == {""} else [])
    if len(values) != 1:
        return _unknown(f"{url} has {len(values) or 'no'} series of {_IDLE} with its client id, not one", member)
    idle = known_number(values[0])
    if idle is None or idle > 1.0:
        return _unknown(f"{url} shows {values[0][:_SHOWN_MAX]} for {_IDLE}, which is no share", member)
    return Busy(share=1.0 - idle)


def values_in(page: str, name: str) -> list[str]:
    """Return the values of all series of a counter, e.g. one a topic. In time that grows with the page, whatever is on it."""
    return [value for series, _, value in _series(page) if series == name]


def idle_in(page: str) -> dict[str, list[str]]:
    """Return the values of all series of ``poll-idle-ratio-avg`` by client id; that of a series without one is empty."""
    found: dict[str, list[str]] = {}
    for name, labels, value in _series(page):
        if name.endswith(_IDLE):
            client = _CLIENT.search(labels)
            # JMX puts a client id with letters of its own in quotes.
            written = re.sub(r"\\(.)", r"\1", client[1]) if client else ""
            found.setdefault(known_client(written.removeprefix('"').removesuffix('"')), []).append(value)
    return found


def _series(page: str) -> Iterable[tuple[str, str, str]]:
    """Yield name, labels and value of each line of a page."""
    for line in page.split("\n"):
        series, _, _ = line.strip().partition(" # {")  # an example of OpenMetrics, with a value of its own
        name = _NAME.match(series)
        rest = series[name.end() :] if name else ""
        if name and rest[:1] in ("{", " ", "\t"):
            labels, _, after = rest.rpartition("}")
            yield name[0], labels, (after.split(maxsplit=1) or ["nothing"])[0]  # after it a time may follow


def _unknown(why: str, member: Member) -> Busy:
    return Busy(problem=printable(f"{why} (member {member.client_id[:_SHOWN_MAX]})"))
