"""In which partition a key lies: Kafka's murmur2 partitioner, for records that must lie where another key would.

The rescaler's memory has one key per record and must still lie together with its cluster's other topics.
"""

_MASK = 0xFFFFFFFF
_MIX = 0x5BD1E995
_SEED = 0x9747B28C


def partition_of(key: str, partitions: int) -> int:
    """Partition of a record with this key: ``(murmur2(key) & 0x7fffffff) % partitions``, as Kafka's own clients compute it."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions


def murmur2(key: bytes) -> int:
    """Austin Appleby's 32-bit MurmurHash2 with Kafka's seed, unsigned."""
    whole = len(key) // 4 * 4
    value = _SEED ^ len(key)
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _MIX & _MASK
        word = (word ^ word >> 24) * _MIX & _MASK
        value = value * _MIX & _MASK ^ word
    if rest := key[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * _MIX & _MASK
    value = (value ^ value >> 13) * _MIX & _MASK
    return value ^ value >> 15
