"""The lease of who tells the webhook, on a Redis of one key. On a real one: ``tests/integration/test_notifications.py``."""

import contextlib
from typing import Any, cast

import pytest

from surescale.services.state.notify.lease import HELD_FOR_S, Lease


class OneKey:
    """As much of Redis as a lease takes, with a clock that a test sets."""

    def __init__(self, value: str, left_ms: int) -> None:
        """``left_ms``: until the key is gone; -1: it stays."""
        self.value, self.left_ms = value, left_ms

    def set(self, _key: str, value: str, *, nx: bool, px: int) -> bool | None:
        """Set the key if it is not there."""
        if nx and self.value:
            return None
        self.value, self.left_ms = value, px
        return True

    def pipeline(self) -> Any:
        """Return what a transaction is made with."""
        return contextlib.nullcontext(self)

    def watch(self, _key: str) -> None:
        """Do nothing: nobody else is there."""

    def get(self, _key: str) -> str:
        """Return what the key holds."""
        return self.value

    def pttl(self, _key: str) -> int:
        """Return how long the key stays."""
        return self.left_ms

    def pexpire(self, _key: str, for_ms: int) -> bool:
        """Say how long the key stays."""
        self.left_ms = for_ms
        return True


@pytest.mark.parametrize("left_ms", [-1, 10**15])
def test_a_lease_that_would_never_end_ends(left_ms: int) -> None:
    """Whoever may write to Redis could keep every service from telling anything, and none would say so."""
    store = OneKey("somebody", left_ms)
    lease = Lease(cast(Any, store), "key")
    lease.renew()
    assert not lease.is_ours
    assert store.left_ms == HELD_FOR_S * 1_000
    store.left_ms = 5_000
    lease.renew()
    assert store.left_ms == 5_000
    store.value = ""
    lease.renew()
    assert lease.is_ours
