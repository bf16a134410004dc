"""Which partition a key lies in, as Kafka's clients compute it (`contracts.topics` makes librdkafka do the same)."""

_MASK = 0xFFFFFFFF
_MIX = 0x5BD1E995
_SEED = 0x9747B28C


def partition_of(key: str, partitions: int) -> int:
    """Return a key's partition as Kafka's clients compute it: ``(murmur2(key) & 0x7fffffff) % partitions``."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions


def murmur2(key: bytes) -> int:
    """Return Austin Appleby's 32-bit MurmurHash2 with Kafka's seed, unsigned."""
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
