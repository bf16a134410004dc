"""What `surescale doctor` prints where nothing answers."""

import os
import subprocess
import sys
from pathlib import Path

from surescale.runtime.ports import LOOPBACK, free_port

SURESCALE = Path(sys.executable).with_name("surescale")


def test_a_broker_that_is_away_is_one_finding_that_fits_the_terminal() -> None:
    """librdkafka's own lines about every try stay away, and long findings break between words, below their beginning."""
    away = f"{LOOPBACK}:{free_port()}"
    said = subprocess.run(
        [SURESCALE, "doctor", "--bootstrap", away, "--redis", f"redis://{away}/0", "--engine-url", f"http://{away}"],
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (said.returncode, said.stderr) == (1, "")
    lines = said.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    (broker,) = (line for line in lines if line.startswith("problem  kafka "))
    margin = broker.index(away)
    assert all(line[:margin].isspace() for line in lines if not line.startswith(("ok", "warning", "problem")))
