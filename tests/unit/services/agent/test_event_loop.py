"""An event loop that may hang: it is waited for, but not for ever."""

import asyncio
import threading

import pytest

from surescale.services.agent.worker import run_in_own_loop


def apart(serving: object, *, stop: threading.Event, ending: threading.Event, within_s: float = 0.3) -> bool:
    """Run a coroutine; both ends of it may take as long."""
    return run_in_own_loop(serving, stop=stop, ending=ending, stop_within_s=within_s, end_within_s=2 * within_s)  # type: ignore[arg-type]


def test_what_ends_is_waited_for_and_its_error_is_raised() -> None:
    """Also one that the waiting itself knows."""

    async def ends() -> None:
        await asyncio.sleep(0)

    async def fails() -> None:
        raise TimeoutError("ours")

    never = threading.Event()
    assert apart(ends(), stop=never, ending=never) is True
    with pytest.raises(TimeoutError, match="ours"):
        apart(fails(), stop=never, ending=never)


@pytest.mark.parametrize("why", ["stop", "ending"])
def test_what_hangs_is_left_behind(why: str) -> None:
    """Even if it holds up its event loop."""
    events = {"stop": threading.Event(), "ending": threading.Event()}
    began, over = threading.Event(), threading.Event()

    async def hangs() -> None:
        began.set()
        over.wait()

    def tell() -> None:
        began.wait()
        events[why].set()

    threading.Thread(target=tell).start()
    assert apart(hangs(), **events) is False
    assert events[why].is_set()
    over.set()
