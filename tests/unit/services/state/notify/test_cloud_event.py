"""The form of an event, its id, its signature, and which events a setting names."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from surescale.contracts.errors import SettingsError
from surescale.services.state.notify.settings import KINDS, Notice, NotifySettings, chosen
from surescale.services.state.notify.webhook import cloud_event, event_id, signature, signing_key

NOTICE = Notice("job.down", "sim", "sim/ça va", "sim/ça va@7", "it is down", 60_000, 1_764_000_000_123, {"job": "sim/ça va"})


def test_an_event_is_a_cloud_event_in_structured_mode() -> None:
    """Required attributes are not empty, names are as the specification has them, the source is a URI reference."""
    event = json.loads(cloud_event(NOTICE, "y.main"))
    assert event == {
        "specversion": "1.0",
        "id": event_id(NOTICE),
        "source": "/surescale/y.main/sim",
        "type": "surescale.job.down",
        "subject": "sim/ça va",
        "time": "2025-11-24T16:00:00.123Z",
        "datacontenttype": "application/json",
        "data": {"summary": "it is down", "at": "1970-01-01T00:01:00.000Z", "record": "sim/ça va@7", "job": "sim/ça va"},
    }
    assert all(re.fullmatch(r"[a-z0-9]{1,20}", name) for name in event)


def test_the_id_follows_from_what_happened() -> None:
    """Not from when it is sent; other events have other ids, and all fit into a header."""
    again = replace(NOTICE, summary="other words", appended_ms=9, data={})
    assert event_id(again) == event_id(NOTICE)
    others = [replace(NOTICE, kind="job.recovered"), replace(NOTICE, identity="x"), replace(NOTICE, subject="sim/b")]
    assert len({event_id(each) for each in (NOTICE, *others)}) == 4
    assert re.fullmatch(r"job\.down-[0-9a-f]{32}", event_id(NOTICE))


def test_a_time_that_has_no_date_is_the_last_one_that_has() -> None:
    """Such a time may stand in any record."""
    assert json.loads(cloud_event(replace(NOTICE, at_ms=2**53), "main"))["data"]["at"] == "9999-12-31T23:59:59.000Z"


def test_a_signature_covers_id_time_and_body() -> None:
    """One that changes any of them has another."""
    key = signing_key("whsec_" + "A" * 32)
    given = [("a", 1, b"x"), ("b", 1, b"x"), ("a", 2, b"x"), ("a", 1, b"y")]
    signed = {signature(key, *each)["webhook-signature"] for each in given}
    assert len(signed) == 4


@pytest.mark.parametrize("text", ["", "whsec_", "short", "whsec_AAAA", "no base64!" * 9])
def test_a_file_without_a_key_is_refused(text: str) -> None:
    """And the message says what to write."""
    with pytest.raises(ValueError, match="whsec_"):
        signing_key(text)


def test_nothing_chosen_is_everything() -> None:
    """A star stands for the rest of a name."""
    assert chosen("", "X") == set(KINDS)
    assert chosen("surescale.job.down", "X") == {"job.down"}
    with pytest.raises(SettingsError, match=r"X: there is no event 'job.don'; did you mean job.down\?"):
        chosen("job.down,job.don", "X")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"notify_url": "ftp://x"}, "SURESCALE_NOTIFY_URL: this is not the address"),
        ({"notify_url": "https://user:secret@x"}, "SURESCALE_NOTIFY_URL: this is not the address"),
        ({"notify_events": "job.down"}, "SURESCALE_NOTIFY_EVENTS: notifications are off"),
        ({"notify_url": "http://x", "notify_events": "nope"}, "SURESCALE_NOTIFY_EVENTS: there is no event"),
        ({"notify_url": "http://x", "notify_ca_file": "ca"}, "SURESCALE_NOTIFY_CA_FILE: SURESCALE_NOTIFY_URL uses no TLS"),
        ({"notify_url": "http://x", "notify_timeout_seconds": 0.0}, "must be between 0.1 and 120"),
        ({"notify_url": "http://x", "notify_keep_hours": 999.0}, "must be above 0 and at most 168"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(given: dict[str, object], words: str) -> None:
    """With the setting's name; and no message has an address, which may be a secret."""
    with pytest.raises(SettingsError) as refused:
        NotifySettings(**given)  # type: ignore[arg-type]
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)


def test_the_page_lists_every_event() -> None:
    """With the words of the table, and no other."""
    page = (Path(__file__).parents[5] / "docs/notifications.md").read_text()
    rows = re.findall(r"^\| `([a-z_.]+)` \| (.*) \|$", page, flags=re.MULTILINE)
    assert dict(rows) == KINDS
