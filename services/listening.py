"""Where an HTTP API of ours listens; a port that cannot be had is one readable line."""

from aiohttp import web

from contracts.errors import SettingsError, reason_of


async def listen(runner: web.AppRunner, host: str, port: int, *, option: str) -> None:
    """Serve a runner's application at an address; port 0: a free one.

    Raises:
        SettingsError: the address cannot be had; the message names the option.
    """
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise SettingsError(f"{option}: {host}:{port} cannot be listened on ({reason_of(error)}); name another one") from None
