"""The view in Redis against one that is rebuilt from Kafka. Shares no code with the product."""

from typing import Any

import redis

from tests.support.faults.findings import Findings

SAME_VIEW = "Redis equals its rebuild"


def dumped(url: str) -> dict[str, Any]:
    """Return every key of a Redis with its value."""
    client = redis.Redis.from_url(url)
    try:
        names = (key for key in sorted(client.keys("*")) if not key.endswith(b"kept"))  # a time: no record says it
        return {key.decode("utf-8", "backslashreplace"): _value(client, key) for key in names}
    finally:
        client.close()


def check_views(grown: dict[str, Any], rebuilt: dict[str, Any], findings: Findings) -> None:
    """Compare two dumps, key by key."""
    findings.expect(bool(rebuilt), SAME_VIEW, "view", "the rebuilt view is empty")
    for key in sorted(set(grown) | set(rebuilt)):
        before, after = _unlike(grown.get(key, "absent"), rebuilt.get(key, "absent"))
        findings.expect(before == after, SAME_VIEW, key, f"{str(before)[:200]}, rebuilt: {str(after)[:200]}")


def _unlike(before: Any, after: Any) -> tuple[Any, Any]:
    """Return two values without the fields that both have alike."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return before, after
    fields = [field for field in sorted(set(before) | set(after)) if before.get(field) != after.get(field)]
    return tuple({field: each[field] for field in fields if field in each} for each in (before, after))


def _value(client: "redis.Redis", key: bytes) -> Any:
    kind = client.type(key)
    if kind == b"hash":
        return client.hgetall(key)
    if kind == b"set":
        return sorted(client.smembers(key))
    if kind == b"zset":
        return client.zrange(key, 0, -1, withscores=True)
    return client.get(key)
