"""Addresses of Redis that are none."""

import pytest

from surescale.contracts.errors import SettingsError
from surescale.services.state.connection import connect


@pytest.mark.parametrize(
    "url",
    [
        "redis://ana:hunter/2@host",
        "redis://ana:6379/hunter@host/0",
        "http://ana:hunter@host",
        "redis://ana:hunter@host:x",
        "redis+sentinel://ana:hunter@one:26379",
        "redis+sentinel://ana:hunter@one:x/view",
        "redis+sentinel://ana:hunter@one,/view/0",
        "redis+sentinel://ana:hunter@one/view/x",
        "redis+sentinel://ana:hunter/2@one:26379/view",
        "redis+sentinel://ana:hunter@/view",
        "redis://ana:hunter@host/0?nonsense=1",
        "redis://ana:hunter@host/0?connection_class=os.system",
        "redis://ana:hunter@host/0?protocol=9",
    ],
)
def test_a_wrong_address_is_refused_without_a_piece_of_its_password(url: str) -> None:
    """Neither as it was given, nor as the library took it apart. The message says how to write such a password."""
    with pytest.raises(SettingsError, match="%2F") as refused:
        connect(url)
    assert "hunter" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://host/0",
        "rediss://ana:h%2F2@host:6379/1",
        "redis://host/0?password=a@b",
        "unix:///run/redis.sock?db=1",
        "redis+sentinel://one,two:26380/view",
        "rediss+sentinel://ana:h%2F2@[::1]:26379/view/3",
    ],
)
def test_a_right_address_is_taken(url: str) -> None:
    """Also one with its password in the query. Nothing is connected yet."""
    connect(url).close()
