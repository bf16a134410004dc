"""The view in Redis, changed in transactions that include the Kafka offsets they cover.

Any number of processes may write: a transaction goes through only if the stored offsets are still those the writer started from.
Keys: `services.state.keys`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

import msgspec
import redis
from redis.client import Pipeline

from surescale.services.state import keys
from surescale.services.state.connection import as_text
from surescale.services.state.keys import Keys
from surescale.services.state.packing import pack
from surescale.services.state.write.operations import AddMember, AddUp, DropField, Operation, Remember, SetField

Positions = dict[tuple[str, int], int]
"""Next offset by (bare topic, partition)."""

# The offsets move last: if the script fails because a key is of another kind, they stay where they are.
_TAKE_IN = """
local positions, floors, counts = KEYS[1], KEYS[2], KEYS[3]
local indexes = {KEYS[4], KEYS[5]}
local added = {}
local function add(count, by) added[count] = (added[count] or 0) + by end

local function remember(timeline, bodies, groups, id, score, body, keep, group, latest_wins, name, adds)
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
-- Write a sum of 0 too: which counts exist must not depend on how records were batched.
-- A count that would overflow stays as it is: the records that claim such numbers must not stop the view.
for count, by in pairs(added) do redis.pcall('HINCRBY', counts, count, string.format('%.0f', by)) end
for _, index in ipairs(indexes) do redis.call('HSET', floors, index, redis.call('SCARD', index)) end
for _, move in ipairs(moves) do redis.call('HSET', positions, move[1], move[2]) end
"""

# Beside the floors stands how many members each index has: one that lost some, or is gone, would leave jobs out in silence.
_LOOK = """
local positions = redis.pcall('HGETALL', KEYS[1])
if positions.err then return {} end
for at = 3, #KEYS do
  local size, told = redis.pcall('SCARD', KEYS[at]), redis.pcall('HGET', KEYS[2], KEYS[at])
  if type(size) ~= 'number' or type(told) ~= 'string' or tonumber(told) ~= size then return {} end
end
return positions
"""

# The mark goes into a job's hash with the job's first record only: a hash that was lost and begun again by a later one lacks it.
_ADD_JOB = """
if redis.call('SADD', KEYS[1], ARGV[1]) == 1 then redis.call('HSET', KEYS[2], 'known', '1') end
"""

# Of each job of the index: the mark in its hash, and as many documents as identities in each timeline.
_AUDIT = """
local prefix, names = ARGV[1], cmsgpack.unpack(ARGV[2])
local jobs = redis.pcall('SMEMBERS', KEYS[1])
if jobs.err then return 0 end
for _, job in ipairs(jobs) do
  if redis.pcall('HEXISTS', prefix .. 'job:' .. job, 'known') ~= 1 then return 0 end
  for _, name in ipairs(names) do
    local ids = redis.pcall('ZCARD', prefix .. name .. ':' .. job)
    local bodies = redis.pcall('HLEN', prefix .. name .. '.bodies:' .. job)
    if type(ids) ~= 'number' or ids ~= bodies then return 0 end
  end
end
return 1
"""

_SET_NEWEST = """
local known = redis.call('HGET', KEYS[1], ARGV[1])
if not known or (cjson.decode(known).record.version or 0) <= tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
"""


class ViewStore:
    """Writes the keys of one pipeline's view.

    Every method raises redis.RedisError when Redis is away.
    """

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self.client, self.key = client, Keys(prefix)
        self._text = as_text(client)
        self._take_in, self._look = client.register_script(_TAKE_IN), client.register_script(_LOOK)
        self._add_job, self._audit = client.register_script(_ADD_JOB), client.register_script(_AUDIT)
        self._indexes = [self.key(keys.JOBS), self.key(keys.CLUSTERS)]
        self._set_newest = client.register_script(_SET_NEWEST)

    def positions(self) -> Positions | None:
        """Return the offsets that the view covers, None if there is no view, or none that is whole."""
        return self._positions(self.client)

    def begin(self, positions: Positions, before: Positions | None) -> bool:
        """Replace the whole view with an empty one at these offsets; False if another writer has moved it from ``before``."""

        def begin(pipe: Pipeline) -> None:
            pipe.delete(*self.own_keys(), self.key(keys.POSITIONS))
            pipe.hset(self.key(keys.FLOORS), mapping=dict.fromkeys(self._indexes, 0))
            pipe.hset(self.key(keys.POSITIONS), mapping=dict(_places(positions)))

        return self._change(before, begin)

    def write(self, operations: Sequence[Operation], positions: Positions, before: Positions) -> bool:
        """Apply operations and move to ``positions``, all or nothing; False if the view is no longer at ``before``.

        If a key is of another kind than the view's, the view is given up, so that it is built anew.
        """

        def apply(pipe: Pipeline) -> None:
            for operation in operations:
                self._apply(pipe, operation)
            self._finish(pipe, operations, positions)

        try:
            return self._change(before, apply)
        except redis.ResponseError as error:
            if "WRONGTYPE" not in str(error):
                raise
            self.give_up()
            return False

    def is_whole(self) -> bool:
        """Say whether every job of the index has its keys. Takes a dozen questions a job, in Redis."""
        said = msgspec.msgpack.encode(keys.TIMELINES)
        return bool(self._audit(keys=[self.key(keys.JOBS)], args=[self.key(""), said]))

    def give_up(self) -> None:
        """Let whoever writes next build the view anew: it may have lost keys."""
        self.client.delete(self.key(keys.POSITIONS))

    def flush(self) -> int:
        """Delete every key of this view and of no other; return how many there were."""
        own = list(self.own_keys())
        return int(self.client.delete(*own)) if own else 0

    def dump(self) -> dict[str, object]:
        """Return the whole view as plain data, so that two views can be compared."""
        readers: dict[str, Callable[[str], object]] = {
            "hash": self._text.hgetall,
            "set": self._text.smembers,
            "zset": lambda key: self.client.zrange(key, 0, -1, withscores=True),
        }
        return {key: readers[self._text.type(key)](key) for key in sorted(self.own_keys())}

    def own_keys(self) -> Iterator[str]:
        """Yield every key of this view and of no other."""
        return filter(self.key.is_own, self._text.scan_iter(match=self.key.pattern("*"), count=1000))

    def _change(self, before: Positions | None, change: Callable[[Pipeline], object]) -> bool:
        key = self.key(keys.POSITIONS)
        with self.client.pipeline() as pipe:
            pipe.watch(key)
            if self._positions(pipe) != before:
                return False
            pipe.multi()
            change(pipe)
            try:
                pipe.execute()
            except redis.WatchError:
                return False
        return True

    def _positions(self, client: redis.Redis) -> Positions | None:
        names = [self.key(keys.POSITIONS), self.key(keys.FLOORS), *self._indexes]
        said = iter(cast(Sequence[str], self._look(keys=names, client=client)))
        return _positions(dict(zip(said, said, strict=True)))

    def _apply(self, pipe: Pipeline, operation: Operation) -> None:
        match operation:
            case SetField(key, field, value, None):
                pipe.hset(self.key(key), field, value)
            case SetField(key, field, value, int(version)):
                self._set_newest(keys=[self.key(key)], args=[field, value, version], client=pipe)
            case DropField(key, field):
                pipe.hdel(self.key(key), field)
            case AddMember(keys.JOBS, member):
                self._add_job(keys=[self.key(keys.JOBS), self.key(keys.job(member))], args=[member], client=pipe)
            case AddMember(key, member):
                pipe.sadd(self.key(key), member)

    def _finish(self, pipe: Pipeline, operations: Sequence[Operation], positions: Positions) -> None:
        """Remember and count, then move the offsets, in one call: packed together, each costs a quarter of a call."""
        names = [keys.POSITIONS, keys.FLOORS, keys.COUNTS, keys.JOBS, keys.CLUSTERS]
        places: dict[tuple[str, str], int] = {}
        items = [operation for operation in operations if isinstance(operation, Remember)]
        packed = []
        for item in items:
            owner = (item.timeline, item.owner)
            at = places.get(owner)
            if at is None:
                at = places[owner] = len(names) + 1  # Lua counts from 1
                names += [keys.timeline(*owner), keys.bodies(*owner), keys.groups(*owner)]
            packed.append((at, item.id, item.score, item.keep, item.group, item.latest_wins, item.timeline, item.adds))
        sums = [(operation.count, operation.by) for operation in operations if isinstance(operation, AddUp)]
        said = msgspec.msgpack.encode((packed, sums, _places(positions)))
        bodies = [pack(item.body) for item in items]  # not packed: Redis' msgpack knows text only
        self._take_in(keys=[self.key(name) for name in names], args=[said, *bodies], client=pipe)


def _places(positions: Positions) -> list[tuple[str, int]]:
    return [(f"{topic}/{partition}", offset) for (topic, partition), offset in positions.items()]


def _positions(stored: Mapping[str, str]) -> Positions | None:
    """Return the offsets, None if there are none or somebody else has written there."""
    found = {}
    for place, offset in stored.items():
        topic, _, partition = place.rpartition("/")
        if not (partition.isdecimal() and offset.isdecimal()):
            return None
        found[topic, int(partition)] = int(offset)
    return found or None
