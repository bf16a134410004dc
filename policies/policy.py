"""The port that every policy fits, learned or not."""

from typing import Protocol

from contracts.clock import MINUTE_MS
from contracts.messages import JobSettings
from contracts.windows import Window
from policies.proposal import Answer

SPAN_MINUTES = 10


class Policy(Protocol):
    """Something that answers a window.

    Attributes:
        name: what settings and releases call it.
        sha256: hash of the model package, "" for a rule.
        span_minutes: it is asked at windows whose end is a multiple of this many minutes.
        floor_applies: whether the guardrail ``floor`` may lift its wish; false where it stands for a human's fixed choice.
    """

    @property
    def name(self) -> str:
        """Return the policy's name."""
        ...

    @property
    def sha256(self) -> str:
        """Return the hash of the model package, "" for a rule."""
        ...

    @property
    def span_minutes(self) -> int:
        """Return the minutes between two decisions."""
        ...

    @property
    def floor_applies(self) -> bool:
        """Return whether the measured load may lift the answer."""
        ...

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return ratios, or say why not. The same arguments give the same answer."""
        ...


def is_span_end(window_end_ms: int, span_minutes: int) -> bool:
    """Return whether a policy with this span decides on the window that ends here.

    >>> is_span_end(1_200_000, 10), is_span_end(1_260_000, 10)
    (True, False)
    """
    return window_end_ms % (span_minutes * MINUTE_MS) == 0
