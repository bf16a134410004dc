"""What a webhook's answers mean, on a real HTTP server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.runtime.http_pool import Answer
from surescale.services.state.notify.settings import NotifySettings
from surescale.services.state.notify.webhook import KeyUnreadable, Webhook, reply_to
from tests.support import webhook_receiver
from tests.support.webhook_receiver import KEY, Receiver, a_receiver, answer, drip, flood, hang_up

BODY = json.dumps({"id": "a", "type": "surescale.job.down"}).encode()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver on this machine."""
    with a_receiver() as made:
        yield made


def webhook(receiver: Receiver, **changes: object) -> Webhook:
    """Towards that receiver."""
    usual = {"notify_url": receiver.url, "notify_private": True, "notify_timeout_seconds": 1.0}
    return Webhook(NotifySettings(**usual | changes))  # type: ignore[arg-type]


def test_an_event_is_sent_with_its_token_and_signature(receiver: Receiver, tmp_path: Path) -> None:
    """Both read again for each event, so a rotated one takes effect at once."""
    token, key = tmp_path / "token", tmp_path / "key"
    token.write_text("t0ken\n")
    key.write_text(f"{KEY}\n")
    sender = webhook(receiver, notify_token_file=str(token), notify_key_file=str(key))
    assert sender.send("a", BODY).verdict == "delivered"
    token.write_text("other")
    assert sender.send("a", BODY).verdict == "delivered"
    key.write_text("whsec_" + "B" * 44)
    assert sender.send("a", BODY).status == "4xx", "the receiver verifies signatures"
    first, second, _ = (headers for headers, _ in receiver.requests)
    assert (first["authorization"], second["authorization"]) == ("Bearer t0ken", "Bearer other")
    assert first["content-type"] == "application/cloudevents+json; charset=utf-8"
    sender.close()


@pytest.mark.parametrize("hostile", [drip, flood, hang_up], ids=["drip", "flood", "hang-up"])
def test_a_hostile_answer_costs_an_attempt(receiver: Receiver, hostile: webhook_receiver.Answer) -> None:
    """No longer than the time for one, and no more memory than for a small answer; the next attempt goes through."""
    receiver.answers = [hostile, webhook_receiver.TAKE]
    sender = webhook(receiver)
    reply = sender.send("a", BODY)
    assert (reply.verdict, reply.status) == ("failed", "none")
    assert sender.send("a", BODY).verdict == "delivered"
    sender.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
def test_an_address_of_this_machine_gets_nothing_unless_it_is_allowed(receiver: Receiver, host: str) -> None:
    """Whatever it is called: the address that a name resolves to counts. Not even a connection is made."""
    sender = webhook(receiver, notify_url=f"http://{host}:{receiver.port}/x?token=secret", notify_private=False)
    reply = sender.send("a", BODY)
    assert (reply.verdict, reply.status, receiver.requests) == ("failed", "none", [])
    assert "is of this machine or of a private network; set SURESCALE_NOTIFY_PRIVATE=true" in reply.words
    assert "secret" not in reply.words
    sender.close()


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    """It could lead anywhere, with the token; the words say what to do and give no secret away."""
    receiver.answers = [answer(302, Location="http://127.0.0.1:1/else?token=x")]
    reply = webhook(receiver).send("a", BODY)
    assert (reply.verdict, reply.status, len(receiver.requests)) == ("failed", "3xx", 1)
    assert reply.words == (
        f"http://127.0.0.1:{receiver.port} answers 302 Found: redirects are not followed; set SURESCALE_NOTIFY_URL to where it "
        "leads (127.0.0.1:1)"
    )


@pytest.mark.parametrize(
    ("status", "retry_after", "verdict", "wait_s"),
    [
        (200, "", "delivered", None),
        (202, "", "delivered", None),
        (400, "", "refused", None),
        (415, "", "refused", None),
        (401, "", "failed", None),
        (404, "", "failed", None),
        (429, "7", "failed", 7.0),
        (503, "99999", "failed", 300.0),
        (503, "Wed, 21 Oct 2015 07:28:00 GMT", "failed", None),
        (503, "-1", "failed", None),
    ],
)
def test_what_an_answer_means(status: int, retry_after: str, verdict: str, wait_s: float | None) -> None:
    """What will never be taken is not sent again; what an operator may repair is."""
    reply = reply_to(Answer(status, "R", "", "", b"", retry_after), "http://h")
    assert (reply.verdict, reply.wait_s) == (verdict, wait_s)


def test_a_key_that_vanishes_fails_the_attempt_and_is_named(receiver: Receiver, tmp_path: Path) -> None:
    """Nothing is sent unsigned; at the start it is an error."""
    sender = webhook(receiver, notify_key_file=str(tmp_path / "key"))
    with pytest.raises(KeyUnreadable, match="SURESCALE_NOTIFY_KEY_FILE"):
        sender.check()
    reply = sender.send("a", BODY)
    assert reply.verdict == "failed"
    assert reply.words.startswith("SURESCALE_NOTIFY_KEY_FILE: ")
    assert receiver.requests == []
