"""Reading in batches, with a client that notes how it was asked."""

from typing import Any

import pytest

from surescale.contracts.settings import PipelineSettings
from surescale.runtime.kafka import batch, creation


class _Client:
    """A consumer that holds some messages and notes how long it was told to wait for them."""

    def __init__(self, *held: str) -> None:
        self._held = list(held)
        self.waits: list[float] = []

    def poll(self, timeout: float) -> str | None:
        """Return the first message."""
        self.waits.append(timeout)
        return self._held.pop(0) if self._held else None

    def consume(self, num_messages: int, timeout: float) -> list[str]:
        """Return messages up to a number."""
        self.waits.append(timeout)
        found, self._held = self._held[:num_messages], self._held[num_messages:]
        return found


@pytest.mark.parametrize(("limit", "found"), [(10, ["a", "b", "c"]), (2, ["a", "b"]), (1, ["a"])])
def test_a_batch_waits_for_its_first_message_alone(limit: int, found: list[str]) -> None:
    """What has arrived behind it is taken along, up to the limit."""
    client: Any = _Client("a", "b", "c")
    assert batch(client, limit, 0.5) == found
    assert client.waits == [0.5, 0]


def test_nothing_has_arrived() -> None:
    """The client is not asked again."""
    client: Any = _Client()
    assert batch(client, 10, 0.5) == []
    assert client.waits == [0.5]


@pytest.mark.parametrize(
    ("prefix", "typed"), [("", "`surescale topics create`"), ("y.", "`surescale topics create --prefix y.`")]
)
def test_the_command_that_creates_topics_has_the_prefix(prefix: str, typed: str) -> None:
    """Else it would create other topics than those that are missing."""
    assert creation(PipelineSettings(topic_prefix=prefix)) == typed
