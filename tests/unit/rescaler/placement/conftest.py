"""Small clusters and jobs the placement tests share."""

from collections.abc import Callable

import pytest

from surescale.rescaler.placement import Host, PlaceRequest, Task


@pytest.fixture
def hosts() -> Callable[..., tuple[Host, ...]]:
    """Builds hosts a, b, c, ... with the given prices; four cores, 8 GB and four slots each unless told otherwise."""

    def build(*prices: float, cpu: float = 4.0, memory: float = 8.0, slots: int = 4) -> tuple[Host, ...]:
        return tuple(Host("abcdefghijkl"[at], cpu, memory, slots, price) for at, price in enumerate(prices))

    return build


@pytest.fixture
def request_of() -> Callable[..., PlaceRequest]:
    """Builds a request for one task `t` of so many equal subtasks on the hosts given."""

    def build(algorithm: str, hosts: tuple[Host, ...], count: int, **others: object) -> PlaceRequest:
        cpu, memory = others.pop("cpu", 1.0), others.pop("memory", 1.0)
        return PlaceRequest(algorithm, hosts, (Task("t", count, cpu, memory),), **others)  # type: ignore[arg-type]

    return build
