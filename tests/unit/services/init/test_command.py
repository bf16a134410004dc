"""What `init` can know to be wrong of its options is said before it asks anybody."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from surescale.services.init.command import command

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--group", "a", "--group", "b", "--command", "python w.py"], "--command: starts the workers of one group; name it"),
        (["--cluster", "a/b"], "SURESCALE_CLUSTER: 'a/b' is not a name; set one without slashes"),
        (["--redis", "nowhere"], "SURESCALE_REDIS_URL: 'nowhere' is not an address of Redis"),
        (["--flink", "nowhere"], "SURESCALE_ENGINE_URL: 'nowhere' is not the address of an engine"),
        (["--bootstrap", "kafka"], "SURESCALE_BOOTSTRAP: 'kafka' is not a Kafka broker; set host:port"),
    ],
)
def test_a_wrong_option_is_named_before_kafka_is_asked(words: list[str], said: str, tmp_path: Path) -> None:
    """Nobody listens where Kafka should be, and that is not what is said; no file is written."""
    out = tmp_path / "surescale.toml"
    done = CliRunner().invoke(command, ["--yes", "--bootstrap", NOBODY, "--out", str(out), *words])
    assert str(done.exception).startswith(said)
    assert not out.exists()
