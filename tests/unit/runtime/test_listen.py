"""Where an HTTP API listens."""

import asyncio
import socket

import pytest
from aiohttp import web

from contracts.errors import SettingsError
from runtime.listen import listen


def test_a_port_that_is_taken_is_one_line_with_the_option() -> None:
    """And not the operating system's number alone."""

    async def serve(port: int) -> None:
        runner = web.AppRunner(web.Application())
        await runner.setup()
        try:
            await listen(runner, "127.0.0.1", port, option="--port")
        finally:
            await runner.cleanup()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"^--port: cannot listen on 127\.0\.0\.1:{port} \(.+\); name another one$"):
            asyncio.run(serve(port))
