"""The view in Redis, changed in transactions that include the Kafka offsets they cover.

Any number of processes may write: a transaction goes through only if the stored offsets are still those the writer started from.
Keys: `services.state.keys`.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
import redis
from redis.client import Pipeline

from surescale.contracts.figures import known_count
from surescale.services.state import keys
from surescale.services.state.keys import Keys, pack
from surescale.services.state.text_reader import as_text
from surescale.services.state.write.operations import AddMember, AddUp, DropField, Operation, Remember, SetField

SCAN_WITHIN_S = 100.0
"""No role may be silent for two minutes."""
Positions = dict[tuple[str, int], int]
"""Next offset by (bare topic, partition)."""

# The offsets move last: if the script fails because a key is of another kind, they stay where they are.
_TAKE_IN = """
local positions, floors, counts = KEYS[1], KEYS[2], KEYS[3]
local added = {}
local function add(count, by) added[count] = (added[count] or 0) + by end

local function add_to_day(days, day, sums, keep)
  if #sums == 0 then return end
  for i = 1, #sums do redis.pcall('HINCRBY', days, day .. '.' .. sums[i][1], string.format('%.0f', sums[i][2])) end
  if redis.call('HLEN', days) <= keep * #sums then return end
  for _, field in ipairs(redis.call('HKEYS', days)) do
    if tonumber(string.match(field, '^%d+')) <= day - keep then redis.call('HDEL', days, field) end
  end
end

local function remember(timeline, bodies, groups, days, body, about)
  local id, score, keep, group, latest_wins, name, adds, day, of_day, days_kept = unpack(about)
  local known = redis.call('ZSCORE', timeline, id)
  if not known then
    -- A record below the highest score ever dropped was seen and dropped before.
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
    add_to_day(days, day, of_day, days_kept)
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
  local at, about = unpack(item)
  remember(KEYS[at], KEYS[at + 1], KEYS[at + 2], KEYS[at + 3], ARGV[number + 1], about)
end
for _, sum in ipairs(sums) do add(sum[1], sum[2]) end
-- Write a sum of 0 too: which counts exist must not depend on how records were batched.
-- A count that would overflow stays as it is: the records that claim such numbers must not stop the view.
for count, by in pairs(added) do redis.pcall('HINCRBY', counts, count, string.format('%.0f', by)) end
for _, move in ipairs(moves) do redis.call('HSET', positions, move[1], move[2]) end
"""

# `sizes` says of each key what it is and how many entries it has, of itself too. It is written in the transaction that changes a
# key, which goes through only where the key was as it says: so neither a key that was lost nor one that began anew is taken for
# whole. Nobody has to know which keys there should be.
_SIZES = """
local COUNTS = {hash = 'HLEN', set = 'SCARD', zset = 'ZCARD'}
local function size(key)
  local kind = redis.call('TYPE', key).ok
  return kind .. ' ' .. (COUNTS[kind] and redis.call(COUNTS[kind], key) or 0)
end
local function is_as_told(key)
  return size(key) == (redis.call('HGET', KEYS[1], key) or 'none 0')
end
local function are_as_told(keys)
  if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return 0 end
  for _, key in ipairs(keys) do
    if not is_as_told(key) then return 0 end
  end
  return 1
end
"""

_TELL = f"""{_SIZES}
for at = 2, #KEYS do
  local found = size(KEYS[at])
  if found == 'none 0' then redis.call('HDEL', KEYS[1], KEYS[at]) else redis.call('HSET', KEYS[1], KEYS[at], found) end
end
redis.call('HSET', KEYS[1], KEYS[1], '')
redis.call('HSET', KEYS[1], KEYS[1], size(KEYS[1]))
"""

_ARE_AS_TOLD = f"{_SIZES} return are_as_told(KEYS)"

_IS_WHOLE = f"""{_SIZES}
if are_as_told(KEYS) == 0 then return 0 end
return are_as_told(redis.call('HKEYS', KEYS[1]))
"""

_SET_NEWEST = """
local known = redis.call('HGET', KEYS[1], ARGV[1])
if not known or (cjson.decode(known).record.version or 0) <= tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
"""


_OF_ALL = (keys.SIZES, keys.JOBS, keys.CLUSTERS, keys.CLOCKS, keys.COUNTS, keys.FLOORS, keys.TOPICS)


class ViewStore:
    """Writes the keys of one pipeline's view.

    Every method raises redis.RedisError when Redis is away.

    Attributes:
        topics: what tells the topics that are written from others of their names; empty: they are not told apart.
    """

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self.client, self.key = client, Keys(prefix)
        self.topics: Mapping[str, str] = {}
        self._take_in, self._set_newest = client.register_script(_TAKE_IN), client.register_script(_SET_NEWEST)
        self._tell, self._are_as_told = client.register_script(_TELL), client.register_script(_ARE_AS_TOLD)
        self._is_whole = client.register_script(_IS_WHOLE)

    def positions(self) -> Positions | None:
        """Return the offsets that the view covers, None if there is no view, or one that lacks jobs or clusters."""
        found = self._positions(self.client)
        return found if found is not None and self._is_intact(self.client, map(self.key, _OF_ALL)) else None

    def made_of(self) -> Mapping[str, str]:
        """Return what tells the topics of which the view was made; empty for that of an older version."""
        return self._hash(self.client, keys.TOPICS)

    def begin(self, positions: Positions, before: Positions | None) -> bool:
        """Replace the whole view with an empty one at these offsets; False if another writer has moved it from ``before``."""
        with self._watched() as pipe:
            if self.positions() != before:
                return False
            own = list(self.own_keys())
            pipe.multi()
            pipe.delete(*own, self.key(keys.POSITIONS))
            pipe.hset(self.key(keys.POSITIONS), mapping=dict(_places(positions)))
            if self.topics:
                pipe.hset(self.key(keys.TOPICS), mapping=dict(self.topics.items()))
            self._tell(keys=[self.key(keys.SIZES), self.key(keys.TOPICS)], client=pipe)
            return _goes_through(pipe)

    def write(self, operations: Sequence[Operation], positions: Positions, before: Positions) -> bool:
        """Apply operations and move to ``positions``, all or nothing; False if the view is no longer at ``before``, or of others.

        If a key that they change has lost entries or is of another kind, the view is given up, so that it is built anew.
        """
        changed = sorted(map(self.key, _changed_by(operations)))
        with self._watched(*changed) as pipe:
            if self._positions(pipe) != before or (self.topics and self._hash(pipe, keys.TOPICS) != self.topics):
                return False
            if not self._is_intact(pipe, changed):
                self.give_up()
                return False
            pipe.multi()
            for operation in operations:
                self._apply(pipe, operation)
            self._finish(pipe, operations, positions)
            self._tell(keys=[self.key(keys.SIZES), *changed], client=pipe)
            return _goes_through(pipe)

    def keep(self, at_ms: int) -> None:
        """Say that the view held all that Kafka had at a time of the wall's clock."""
        self.client.set(self.key(keys.KEPT), at_ms)

    def is_whole(self) -> bool:
        """Say whether every key has all its entries. Asks two questions a key, in Redis."""
        return bool(self._is_whole(keys=[self.key(keys.SIZES)]))

    def give_up(self) -> None:
        """Let whoever writes next build the view anew: it may have lost keys."""
        self.client.delete(self.key(keys.POSITIONS))

    def flush(self) -> int:
        """Delete every key of this view and of no other; return how many there were."""
        own = list(self.own_keys())
        return int(self.client.delete(*own)) if own else 0

    def own_keys(self) -> Iterator[str]:
        """Yield every key of this view and of no other."""
        ends_s, cursor = time.monotonic() + SCAN_WITHIN_S, 0
        while True:
            cursor, found = self.client.scan(cursor, match=self.key.pattern("*"), count=1000)
            yield from filter(self.key.is_own, map(str, found))
            if cursor == 0:
                return
            if time.monotonic() > ends_s:
                raise redis.InvalidResponse(f"its keys have no end within {SCAN_WITHIN_S:g} s")

    @contextmanager
    def _watched(self, *changed: str) -> Iterator[Pipeline]:
        """Watch the offsets and keys: a transaction goes through only if nobody has changed or dropped one since."""
        with self.client.pipeline() as pipe:
            pipe.watch(self.key(keys.POSITIONS), *changed)
            yield pipe

    def _is_intact(self, client: redis.Redis, names: Iterable[str]) -> bool:
        return bool(self._are_as_told(keys=[self.key(keys.SIZES), *names], client=client))

    def _positions(self, client: redis.Redis) -> Positions | None:
        return _positions(self._hash(client, keys.POSITIONS))

    def _hash(self, client: redis.Redis, name: str) -> Mapping[str, str]:
        """Return a hash, empty if there is none."""
        try:
            return as_text(client).hgetall(self.key(name))
        except redis.ResponseError as error:
            if "WRONGTYPE" not in str(error):
                raise
            return {}

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
        """Remember and count, then move the offsets, in one call: packed together, each costs a quarter of a call."""
        names = [keys.POSITIONS, keys.FLOORS, keys.COUNTS]
        places: dict[tuple[str, str], int] = {}
        items = [operation for operation in operations if isinstance(operation, Remember)]
        packed = []
        for item in items:
            owner = (item.timeline, item.owner)
            at = places.get(owner)
            if at is None:
                at = places[owner] = len(names) + 1  # Lua counts from 1
                names += _of_timeline(item)
            about = (item.id, item.score, item.keep, item.group, item.latest_wins, item.timeline, item.adds)
            packed.append((at, (*about, item.day, item.of_day, keys.DAYS_KEPT)))
        sums = [(operation.count, operation.by) for operation in operations if isinstance(operation, AddUp)]
        said = msgspec.msgpack.encode((packed, sums, _places(positions)))
        bodies = [pack(item.body) for item in items]  # not packed: Redis' msgpack knows text only
        self._take_in(keys=[self.key(name) for name in names], args=[said, *bodies], client=pipe)


def _changed_by(operations: Iterable[Operation]) -> set[str]:
    """Return the names of the keys that operations change, apart from the offsets."""
    found = {keys.FLOORS, keys.COUNTS}
    for operation in operations:
        match operation:
            case SetField(key) | DropField(key) | AddMember(key):
                found.add(key)
            case Remember():
                found.update(_of_timeline(operation))
    return found


def _of_timeline(item: Remember) -> tuple[str, str, str, str]:
    owner = (item.timeline, item.owner)
    return keys.timeline(*owner), keys.bodies(*owner), keys.groups(*owner), keys.days(item.owner)


def _goes_through(pipe: Pipeline) -> bool:
    try:
        pipe.execute()
    except redis.WatchError:
        return False
    return True


def _places(positions: Positions) -> list[tuple[str, int]]:
    return [(f"{topic}/{partition}", offset) for (topic, partition), offset in positions.items()]


def _positions(stored: Mapping[str, str]) -> Positions | None:
    """Return the offsets, None if there are none or somebody else has written there."""
    found = {}
    for place, offset in stored.items():
        topic, _, partition = place.rpartition("/")
        number, at = known_count(partition), known_count(offset)
        if number is None or at is None:
            return None
        found[topic, number] = at
    return found or None
