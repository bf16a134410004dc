"""New secrets of Kafka: which clients are given them, and what does not count as a change."""

import gc
import logging
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from surescale.contracts.settings import PipelineSettings
from surescale.runtime import kafka_rotation
from surescale.runtime.kafka_rotation import PASSWORD, SecretFiles, ended_by_new_secrets, fixed_secrets, follow_password
from surescale.runtime.kafka_security import credentials
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for new secrets more often."""
    monkeypatch.setattr(kafka_rotation, "LOOK_EVERY_S", 0.05)


class Client:
    """Notes the passwords that it is given."""

    def __init__(self, given: list[tuple[str, str]]) -> None:
        self.given = given

    def take(self, username: str, password: str) -> None:
        """Take another password."""
        self.given.append((username, password))


@pytest.fixture
def settings(tmp_path: Path) -> PipelineSettings:
    """A client with a password in a file of its own."""
    (tmp_path / "password").write_text("one\n")
    return PipelineSettings(
        kafka_security_protocol="SASL_PLAINTEXT", kafka_username="ana", kafka_password_file=str(tmp_path / "password")
    )


def test_a_client_gets_each_password_once_and_none_that_cannot_be_read(
    settings: PipelineSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An empty file, as some tools leave it for a moment, and one that is gone leave the last password in use."""
    client, given = Client([]), credentials(settings)
    assert given is not None
    follow_password(settings, given, client, Client.take)
    (tmp_path / "password").write_text("")
    wait_until(lambda: "the file is empty; the last password stays in use" in caplog.text, 20, "the empty file")
    (tmp_path / "password").write_bytes(b"two\0\0")
    wait_until(lambda: "cannot be read (it is not text)" in caplog.text, 20, "a file that is half written")
    (tmp_path / "password").unlink()
    wait_until(lambda: "cannot be read (no such file or directory)" in caplog.text, 20, "no file")
    assert client.given == []
    (tmp_path / "password").write_text("two\n")
    wait_until(lambda: client.given == [("ana", "two")], 20, "the new password")
    (tmp_path / "password").write_text("three\n")
    wait_until(lambda: client.given == [("ana", "two"), ("ana", "three")], 20, "the next one")
    assert "three" not in caplog.text


def test_a_client_made_just_before_a_change_gets_it_at_once(settings: PipelineSettings, tmp_path: Path) -> None:
    """It was noticed for another client, before this one was known."""
    first, late, given = Client([]), Client([]), credentials(settings)
    assert given is not None
    follow_password(settings, given, first, Client.take)
    (tmp_path / "password").write_text("two\n")
    wait_until(lambda: first.given == [("ana", "two")], 20, "the new password")
    follow_password(settings, given, late, Client.take)
    assert late.given == [("ana", "two")]


def test_nobody_keeps_a_client_alive_for_its_password(settings: PipelineSettings, tmp_path: Path) -> None:
    """A client that nobody uses must close its sockets."""
    told: list[tuple[str, str]] = []
    client, other, given = Client(told), Client([]), credentials(settings)
    assert given is not None
    for each in (client, other):
        follow_password(settings, given, each, Client.take)
    del client, each
    gc.collect()
    (tmp_path / "password").write_text("two\n")
    wait_until(lambda: len(other.given) == 1, 20, "the new password")
    assert told == []


def test_files_have_changed_once_they_stay_as_they_are(settings: PipelineSettings, tmp_path: Path) -> None:
    """Not while they are written, nor while one is away, nor when the old contents are back."""
    files, password = SecretFiles(settings, PASSWORD), tmp_path / "password"
    assert files.changed() == ()
    password.write_text("two\n")
    assert files.changed() == ()
    password.unlink()
    assert [files.changed(), files.changed()] == [(), ()]
    password.write_text("one\n")
    assert [files.changed(), files.changed()] == [(), ()]
    password.write_text("two\n")
    assert [files.changed(), files.changed()] == [(), ("SURESCALE_KAFKA_PASSWORD_FILE",)]
    files.accept()
    assert files.changed() == ()


def test_which_secrets_only_a_new_client_can_use(settings: PipelineSettings) -> None:
    """A password is taken over, so a role that has nothing else is never ended."""
    assert fixed_secrets(settings) == ()
    tokens = replace(
        settings,
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="OAUTHBEARER",
        kafka_username="",
        kafka_password_file="",
        kafka_ca_file="ca.pem",
        kafka_oauth_client_id="ana",
        kafka_oauth_client_secret_file="secret",
        kafka_oauth_token_url="https://issuer/token",
    )
    assert fixed_secrets(tokens) == ("kafka_ca_file", "kafka_oauth_client_secret_file")
    stop = threading.Event()
    with ended_by_new_secrets(settings, stop, logging.getLogger("test")):
        assert not [each for each in threading.enumerate() if each.name == "kafka-secrets"]
    assert not stop.is_set()
