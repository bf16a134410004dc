"""Dead letters."""

from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import PAYLOAD_BYTES_MAX, Coordinates, dead_letter

AT = Coordinates("snapshots", 3, 42)
ERROR = RecordRejected("unknown_layout", "layout", "there is no layout 9")


def test_a_dead_letter_names_place_reason_and_field() -> None:
    """What was refused can be found again by its coordinates; the message does not repeat the field."""
    letter = dead_letter(AT, b"junk", ERROR, refused_by="agent")
    assert (letter.topic, letter.partition, letter.offset, letter.refused_by) == ("snapshots", 3, 42, "agent")
    assert (letter.reason, letter.field, letter.message) == ("unknown_layout", "layout", "there is no layout 9")
    assert letter.payload == "junk"


def test_a_dead_letter_keeps_the_beginning_of_a_large_record_as_text() -> None:
    """Bytes that are no text become replacement characters, one for one here."""
    letter = dead_letter(AT, b"\xffabc" * PAYLOAD_BYTES_MAX, ERROR, refused_by="agent")
    assert letter.payload.startswith("�abc")
    assert len(letter.payload) == PAYLOAD_BYTES_MAX


def test_a_dead_letter_of_an_empty_record_has_no_beginning() -> None:
    """A record without a value is refused like any other."""
    assert dead_letter(AT, None, ERROR, refused_by="agent").payload == ""
