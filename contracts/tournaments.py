"""What a tournament of policies leaves in its release: what it found, and what must stay true for the winner to serve.

They follow the conventions of ``contracts.messages``.
"""

from typing import Annotated

from msgspec import Meta

from contracts.messages import Count, Part, Sentence, Text, TimeMs

Finite = Annotated[float, Meta(ge=-1e9, le=1e9)]
Positive = Annotated[float, Meta(ge=0.0, le=1e9)]


class Expectation(Part, frozen=True, kw_only=True):
    """What the twin predicted of the job under the winner, already widened by the twin's error (``policies.departure``).

    Work is busy subtask-milliseconds per record that comes to the job; waiting is minutes a record waits, by Little's law.
    """

    work_least: Positive
    work_most: Positive
    waiting_most: Positive


class TournamentResult(Part, frozen=True, kw_only=True):
    """Why a tournament released a policy to a job; rewards are means over the hours played."""

    from_ms: TimeMs
    until_ms: TimeMs
    policies: Count
    draws: Count
    reward: Finite
    against: Text  # what served the job before
    against_reward: Finite
    difference: Finite
    difference_low: Finite  # lower end of the 95 % interval
    twin_error: Positive  # of that difference
    why: Sentence
