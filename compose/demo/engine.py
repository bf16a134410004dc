"""Runs the simulated engine for other containers: it listens on loopback only, so a door on all addresses leads to it.

The arguments are those of ``surescale engine``. The door listens on DOOR_PORT.
"""

import asyncio
import contextlib
import os
import sys
import threading

from services.cli import main as surescale

ENGINE_PORT = int(os.environ.get("SURESCALE_HEALTH_PORT", "8090"))  # the engine's API has /health, too
DOOR_PORT = int(os.environ.get("DOOR_PORT", "8091"))


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await source.read(65_536):
            sink.write(chunk)
            await sink.drain()
    with contextlib.suppress(OSError):
        sink.close()


async def _lead_through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", ENGINE_PORT)
    except OSError:  # the engine is not up yet: whoever knocks tries again
        writer.close()
        return
    await asyncio.gather(_carry(reader, inner_writer), _carry(inner_reader, writer))


async def _keep_door() -> None:
    server = await asyncio.start_server(_lead_through, "0.0.0.0", DOOR_PORT)
    await server.serve_forever()


def main() -> None:
    """Open the door in a thread that ends with the process, and become the engine."""
    threading.Thread(target=lambda: asyncio.run(_keep_door()), name="door", daemon=True).start()
    sys.argv[1:] = ["engine", "--port", str(ENGINE_PORT), *sys.argv[1:]]
    surescale()


if __name__ == "__main__":
    main()
