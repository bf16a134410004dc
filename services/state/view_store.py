"""The view in Redis: keys of one prefix, changed in transactions that carry the Kafka offsets they stand for.

Any number of processes may write: a transaction goes through only if the offsets are still those that the writer started from.
Keys: ``docs/state.md``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import redis
from redis.client import Pipeline

from contracts.errors import SettingsError
from contracts.settings import without_password
from services.state.operations import AddMember, AddUp, DropField, Operation, Remember, SetField

REDIS_TIMEOUT_S = 5.0
POSITIONS = "positions"
TIMELINES = ("windows", "decisions", "outcomes", "commands", "progress", "balances", "events", "dead-letters")
_SINGLE = ("jobs", "clusters", "clocks", "counts", "floors", POSITIONS)
_OWNED = ("job", "cluster", *(f"{name}{part}" for name in TIMELINES for part in ("", ".bodies", ".groups")))

Positions = dict[tuple[str, int], int]
"""Next offset by (bare topic, partition)."""

# The offsets move last: a script that breaks off, because a key is of another kind, leaves them where they are.
_TAKE_IN = """
local positions, floors, counts = KEYS[1], KEYS[2], KEYS[3]
local added = {}
local function add(count, by) added[count] = (added[count] or 0) + by end

local function remember(timeline, bodies, groups, id, score, body, keep, group, latest_wins, name, adds)
  local known = redis.call('ZSCORE', timeline, id)
  if not known then
    -- What lies before everything that was ever dropped has been seen and dropped.
    local floor = redis.call('HGET', floors, timeline)
    if floor and score < tonumber(floor) then known = 'dropped' end
  end
  if known then
    if not latest_wins then return add('duplicates.' .. name, 1) end
    if known == 'dropped' then return end
    local before = redis.call('HGET', groups, id)
    if before then add(before, -1) end
  else
    for i = 1, #adds do add(adds[i][1], adds[i][2]) end
  end
  redis.call('ZADD', timeline, score, id)
  redis.call('HSET', bodies, id, body)
  add(group, 1)
  if latest_wins then redis.call('HSET', groups, id, group) end
  while redis.call('ZCARD', timeline) > keep do
    local dropped = redis.call('ZPOPMIN', timeline)
    redis.call('HDEL', bodies, dropped[1])
    redis.call('HDEL', groups, dropped[1])
    redis.call('HSET', floors, timeline, dropped[2])
  end
end

local items, sums, moves = unpack(cmsgpack.unpack(ARGV[1]))
for number, item in ipairs(items) do
  local at, id, score, keep, group, latest_wins, name, adds = unpack(item)
  remember(KEYS[at], KEYS[at + 1], KEYS[at + 2], id, score, ARGV[number + 1], keep, group, latest_wins, name, adds)
end
for _, sum in ipairs(sums) do add(sum[1], sum[2]) end
-- A sum of 0 is written too: which counts there are must not depend on how records fell into batches.
for count, by in pairs(added) do redis.call('HINCRBY', counts, count, by) end
for _, move in ipairs(moves) do redis.call('HSET', positions, move[1], move[2]) end
"""


_SET_NEWEST = """
local known = redis.call('HGET', KEYS[1], ARGV[1])
if not known or (cjson.decode(known).record.version or 0) <= tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
"""


def connect(redis_url: str) -> redis.Redis:
    """Return a client; it connects when it is first used.

    Raises:
        SettingsError: the address is none of Redis.
    """
    try:
        return redis.Redis.from_url(
            redis_url, decode_responses=True, socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S
        )
    except ValueError as error:
        raise SettingsError(f"redis_url: {without_password(redis_url)!r} is no address of Redis: {error}") from None


class ViewStore:
    """Reads and writes the keys ``surescale:{prefix}...`` of one road.

    Every method raises redis.RedisError when Redis is away.
    """

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self.client: Any = client  # redis-py's types answer bytes or str, whatever decode_responses says
        self._prefix = f"surescale:{prefix}"
        singles, owned = "|".join(_SINGLE), "|".join(map(re.escape, _OWNED))
        self._own_key = re.compile(rf"{re.escape(self._prefix)}(?:(?:{singles})|(?:{owned}):.+)\Z", re.DOTALL)
        self._take_in = client.register_script(_TAKE_IN)
        self._set_newest = client.register_script(_SET_NEWEST)

    def key(self, name: str) -> str:
        """Return the full key of a name."""
        return self._prefix + name

    def positions(self) -> Positions | None:
        """Return the offsets that the view stands for, None when there is no view."""
        return _positions(self.client.hgetall(self.key(POSITIONS)))

    def begin(self, positions: Positions, before: Positions | None) -> bool:
        """Replace the whole view by an empty one at these offsets; False if another writer moved it from ``before`` meanwhile."""

        def begin(pipe: Pipeline) -> None:
            pipe.delete(*self.own_keys(), self.key(POSITIONS))
            pipe.hset(self.key(POSITIONS), mapping=dict(_places(positions)))

        return self._change(before, begin)

    def write(self, operations: Sequence[Operation], positions: Positions, before: Positions) -> bool:
        """Apply operations and move on to ``positions``, all or nothing; False if the view is no longer at ``before``."""

        def apply(pipe: Pipeline) -> None:
            for operation in operations:
                self._apply(pipe, operation)
            self._finish(pipe, operations, positions)

        return self._change(before, apply)

    def flush(self) -> int:
        """Delete every key of this view and of no other, and return how many there were."""
        keys = list(self.own_keys())
        return int(self.client.delete(*keys)) if keys else 0

    def dump(self) -> dict[str, Any]:
        """Return the whole view as plain data, to compare two of them."""
        readers = {"hash": self.client.hgetall, "set": self.client.smembers, "zset": self._timeline}
        return {key: readers[self.client.type(key)](key) for key in sorted(self.own_keys())}

    def _timeline(self, key: str) -> list[tuple[str, float]]:
        return self.client.zrange(key, 0, -1, withscores=True)

    def own_keys(self) -> Iterator[str]:
        """Yield every key of this view and of no other."""
        pattern = re.sub(r"([*?\[\]\\])", r"\\\1", self._prefix) + "*"
        return (key for key in self.client.scan_iter(match=pattern, count=1000) if self._own_key.match(key))

    def _change(self, before: Positions | None, change: Callable[[Pipeline], object]) -> bool:
        key = self.key(POSITIONS)
        with self.client.pipeline() as pipe:
            pipe.watch(key)
            if _positions(pipe.hgetall(key)) != before:
                return False
            pipe.multi()
            change(pipe)
            try:
                pipe.execute()
            except redis.WatchError:
                return False
        return True

    def _apply(self, pipe: Pipeline, operation: Operation) -> None:
        match operation:
            case SetField(key, field, value, None):
                pipe.hset(self.key(key), field, value)
            case SetField(key, field, value, int(version)):
                self._set_newest(keys=[self.key(key)], args=[field, value, version], client=pipe)
            case DropField(key, field):
                pipe.hdel(self.key(key), field)
            case AddMember(key, member):
                pipe.sadd(self.key(key), member)

    def _finish(self, pipe: Pipeline, operations: Sequence[Operation], positions: Positions) -> None:
        """Remember and count, then move the offsets, by one call: packed at once, this costs a quarter of a call each."""
        keys = [self.key(name) for name in (POSITIONS, "floors", "counts")]
        places: dict[tuple[str, str], int] = {}
        items = [operation for operation in operations if isinstance(operation, Remember)]
        packed = []
        for item in items:
            owner = (item.timeline, item.owner)
            at = places.get(owner)
            if at is None:
                at = places[owner] = len(keys) + 1  # Lua counts from 1
                keys += [self.key(f"{item.timeline}{part}:{item.owner}") for part in ("", ".bodies", ".groups")]
            packed.append((at, item.id, item.score, item.keep, item.group, item.latest_wins, item.timeline, item.adds))
        sums = [(operation.count, operation.by) for operation in operations if isinstance(operation, AddUp)]
        said = msgspec.msgpack.encode((packed, sums, _places(positions)))
        bodies = [item.body for item in items]  # as they are: Redis' msgpack knows text only
        self._take_in(keys=keys, args=[said, *bodies], client=pipe)


def _places(positions: Positions) -> list[tuple[str, int]]:
    return [(f"{topic}/{partition}", offset) for (topic, partition), offset in positions.items()]


def _positions(stored: Mapping[str, str]) -> Positions | None:
    found = {}
    for place, offset in stored.items():
        topic, _, partition = place.rpartition("/")
        found[topic, int(partition)] = int(offset)
    return found or None
