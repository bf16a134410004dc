"""The certificate that the HTTP API shows, when what it lies on does not answer."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surescale.services.state import access
from surescale.services.state.access import ServedCertificate
from tests.support.secure_broker import make_certificates


def test_a_look_at_a_certificate_that_comes_too_late_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was changed meanwhile is taken by the next look, and a look that finds it damaged is told once."""
    make_certificates(tmp_path)
    shown = tmp_path / "broker.pem"
    served = ServedCertificate(str(shown), str(tmp_path / "broker-key.pem"))

    def late(look: Callable[[], Any], *_: str) -> Any:
        look()
        raise OSError("no end in time")

    shown.write_text("damaged")
    with monkeypatch.context() as silent:
        silent.setattr(access, "in_time", late)
        assert asyncio.run(served.refresh()) == "no end in time"
    found = [asyncio.run(served.refresh()) for _ in range(2)]
    assert "PEM" in str(found[0])
    assert found[1] is None
