"""Which of several state services tells the webhook: the one that holds a lease in Redis, which it renews."""

import os
import secrets
import socket

import redis

RENEWED_EVERY_S = 3.0
HELD_FOR_S = 15.0
"""Without being renewed: so long events wait after the holder was killed."""
NAME = "notifier"


class Lease:
    """One that this process takes when nobody has it. Without Redis everything stays as it was last known.

    So a service that is alone tells on while Redis is away, and the one that stood by goes on standing by. A service that starts
    meanwhile takes itself for the holder: an event that comes twice is better than one that never does.
    """

    def __init__(self, client: "redis.Redis", key: str) -> None:
        """Hold nothing yet."""
        self._client, self._key = client, key
        self._me = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
        self.is_known, self.is_ours = False, False

    def renew(self) -> None:
        """Take it or keep it, if nobody else has it."""
        held_ms = round(HELD_FOR_S * 1000)
        try:
            is_ours = bool(self._client.set(self._key, self._me, nx=True, px=held_ms)) or self._kept(held_ms)
            if not is_ours and not 0 <= self._client.pttl(self._key) <= held_ms:
                self._client.pexpire(self._key, held_ms)  # no service holds it for longer: it would never be given back
        except redis.RedisError:
            is_ours = self.is_ours or not self.is_known
        else:
            self.is_known = True
        self.is_ours = is_ours

    def release(self) -> None:
        """Let another one take it at once."""
        try:
            if self.is_ours:
                self._kept(0)
        except redis.RedisError:
            pass  # it ends by itself
        self.is_ours = False

    def _kept(self, for_ms: int) -> bool:
        """Keep what is ours for so long, 0: no more, and say whether it is: another one may take it while we look."""
        with self._client.pipeline() as pipe:
            pipe.watch(self._key)  # type: ignore[no-untyped-call]
            if pipe.get(self._key) != self._me:
                return False
            pipe.multi()
            pipe.pexpire(self._key, for_ms)
            try:
                return bool(pipe.execute()[0])
            except redis.WatchError:
                return False
