"""How long a member of a group has been busy, from its own metrics in the text format of Prometheus."""

from concurrent.futures import ThreadPoolExecutor

from prometheus_client.parser import text_string_to_metric_families

from engines.groups.broker import Member
from engines.groups.chains import Group
from runtime.http import open_url

ANSWER_TIMEOUT_S = 1.0
_BYTES_MAX = 4 * 2**20
_ASKED_AT_ONCE = 16


def busy_seconds(group: Group, members: tuple[Member, ...]) -> list[float | None]:
    """Return the seconds that each member has spent on records since it started; None: it does not tell.

    Members are asked side by side. Several series of the counter, e.g. one a topic, are added up.
    """
    if not group.metrics or not members:
        return [None] * len(members)
    with ThreadPoolExecutor(min(len(members), _ASKED_AT_ONCE)) as pool:
        return list(pool.map(lambda member: _fetch(member.filled_in(group.metrics), group.busy), members))


def _fetch(url: str, name: str) -> float | None:
    try:
        with open_url(url, timeout_s=ANSWER_TIMEOUT_S) as answer:
            text = answer.read(_BYTES_MAX).decode("utf-8", "replace")
        found = [
            sample.value for family in text_string_to_metric_families(text) for sample in family.samples if sample.name == name
        ]
    except (OSError, ValueError):
        return None
    return sum(found) if found else None
