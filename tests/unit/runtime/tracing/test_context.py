"""The header ``traceparent``: what is well formed comes back, and nothing else does any harm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.runtime.tracing.context import TraceContext, context_of, parsed

GOOD = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

contexts = st.builds(TraceContext, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())


@given(contexts)
def test_what_is_handed_on_is_read_again(context: TraceContext) -> None:
    """As a list of pairs and as a mapping, beside other headers."""
    headers = [("minute", b"7"), *context.headers()]
    assert context_of(headers) == context
    assert context_of(dict(headers)) == context


@given(st.one_of(st.binary(max_size=200), st.text(max_size=80), st.none(), st.integers()))
def test_any_value_is_a_place_or_none(value: object) -> None:
    """Whatever somebody wrote, nothing raises, and what is accepted can be handed on."""
    found = parsed(value)
    assert found is None or parsed(found.headers()[0][1]) == found


@given(st.integers(0, 54), st.integers(0, 255))
def test_one_wrong_byte_never_raises(at: int, byte: int) -> None:
    """It makes another place, or none."""
    found = parsed(GOOD[:at] + bytes([byte]) + GOOD[at + 1 :])
    assert found is None or (found.trace_id and found.span_id)


@pytest.mark.parametrize(
    "bad",
    [
        GOOD.upper(),
        GOOD + b"-00",  # version 00 has nothing after it
        b"ff" + GOOD[2:],
        b"00-" + b"0" * 32 + GOOD[35:],
        GOOD[:36] + b"0" * 16 + b"-01",
        GOOD.replace(b"-", b"_"),
        GOOD * 100_000,
        b"",
    ],
)
def test_what_the_specification_forbids_is_no_place(bad: bytes) -> None:
    """Capitals, zeros, version ff, something after version 00."""
    assert parsed(bad) is None


def test_a_later_version_counts_as_far_as_this_one_knows() -> None:
    """What it adds comes after a dash."""
    assert parsed(b"01" + GOOD[2:] + b"-what-comes-next") == parsed(GOOD)
    assert parsed(b"01" + GOOD[2:] + b"x") is None


def test_two_headers_of_that_name_are_none() -> None:
    """Nobody knows which one to believe."""
    assert context_of([("traceparent", GOOD), ("traceparent", GOOD)]) is None


def test_a_sampled_trace_stays_sampled() -> None:
    """And one that is not stays unsampled; other flags do not count."""
    assert [parsed(GOOD[:-2] + flags).is_sampled for flags in (b"00", b"01", b"03")] == [False, True, True]  # type: ignore[union-attr]
