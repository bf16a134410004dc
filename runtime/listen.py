"""Opens the port of one of our HTTP APIs. A port that cannot be opened becomes one readable line."""

import ssl

from aiohttp import web

from contracts.errors import SettingsError, reason_of


async def listen(runner: web.AppRunner, host: str, port: int, *, option: str, context: ssl.SSLContext | None = None) -> None:
    """Serve a runner's application at an address, with TLS if there is a context; port 0 picks a free one.

    Raises:
        SettingsError: the address cannot be used; the message names the option.
    """
    try:
        await web.TCPSite(runner, host, port, ssl_context=context).start()
    except OSError as error:
        raise SettingsError(f"{option}: cannot listen on {host}:{port} ({reason_of(error)}); name another one") from None
