"""The door of KEDA's port, before a server of its own."""

import asyncio
from pathlib import Path

import pytest

from surescale.services.state.keda import door
from surescale.services.state.keda.door import Door
from tests.support.waiting import PATIENT_S

MUCH = 64 * 2**20
"""More than the kernel keeps for a connection."""


@pytest.mark.parametrize("ends", [True, False])
def test_who_takes_nothing_of_its_answers_keeps_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    """However much waits for it, and whether or not the server has ended the connection meanwhile."""
    monkeypatch.setattr(door, "TAKES_WITHIN_S", 0.2)
    begun = list[bool]()

    def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"answer" if begun else bytes(MUCH))
        begun.append(True)
        if ends:
            writer.close()

    async def crowded() -> bytes:
        inner = await asyncio.start_unix_server(talk, tmp_path / "inner")
        opened = Door(str(tmp_path / "inner"), 10, 1)
        port = await opened.open("127.0.0.1", 0)
        _, deaf = await asyncio.open_connection("127.0.0.1", port, limit=1)
        answer = b""
        while answer != b"answer":
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                answer = await reader.read(6)
            except ConnectionError:
                await asyncio.sleep(0.02)
            writer.close()
        deaf.close()
        await opened.close()
        inner.close()
        return answer

    assert asyncio.run(asyncio.wait_for(crowded(), PATIENT_S)) == b"answer"
