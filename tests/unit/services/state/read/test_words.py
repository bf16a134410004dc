"""Every word that a program may write has a meaning for people, and nothing else is in the table."""

from typing import get_args

from surescale.rescaler.control.outcomes import OutcomeReason
from surescale.rescaler.gate_model import Cause, GateReason, Phase
from surescale.services.state.read.status import Status
from surescale.services.state.read.words import WORDS


def test_every_word_is_in_the_table() -> None:
    """A new phase, reason, cause or state gets its words here."""
    assert set(WORDS.phases) == set(Phase)
    assert set(WORDS.reasons) == {*OutcomeReason, *GateReason}
    assert set(WORDS.causes) == set(Cause)
    assert set(WORDS.states) == set(get_args(Status))


def test_words_are_plain() -> None:
    """No underscores and no names of phases."""
    every = [words for group in (WORDS.phases, WORDS.reasons, WORDS.causes, WORDS.guardrails) for words in group.values()]
    assert not [words for words in every if "_" in words or words[0].isupper() or words.endswith(".")]
