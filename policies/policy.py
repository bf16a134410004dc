"""The interface of every policy, learned or not, and the one way to ask a policy."""

from dataclasses import dataclass
from typing import Protocol

from surescale.contracts import settings
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_limits import minutes_known_min
from surescale.contracts.job_settings import SETTINGS
from surescale.policies.answer import Answer, NotReady
from surescale.policies.question import Question

SPAN_MINUTES = settings.SPAN_MINUTES  # of rules, unless a setting says otherwise
SEEN_MINUTES = 2.0  # until growth that waits for no span is under way: one shows the overload, one passes until it is acted on
MINUTES_KNOWN_MIN: int = SETTINGS["minutes_known_min"].default  # no policy is asked earlier, unless the job's settings say so


class Policy(Protocol):
    """Answers a question about one job; ask it through ``ask``.

    Attributes:
        name: its name in settings and releases.
        sha256: hash of the model package, "" for a rule.
        span_minutes: it decides on windows whose end is a multiple of this many minutes.
        floor_applies: whether the guardrail ``floor`` may raise its answer; false for a policy that stands for a person's choice.
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
        """Return whether the measured load may raise the answer."""
        ...

    def answer(self, question: Question) -> Answer:
        """Return the wanted sizes, or say why not. The same question gets the same answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutModel:
    """What every policy has that needs no package: it decides whenever rules do, and the measured load may raise its answer."""

    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = True


def ask(policy: Policy, question: Question) -> Answer:
    """Return a policy's answer, or how many minutes are missing before any policy can be asked."""
    missing = minutes_known_min(question.settings) - question.window.minutes_known
    return NotReady(missing_minutes=missing) if missing > 0 else policy.answer(question)


def is_span_end(window_end_ms: int, span_minutes: int) -> bool:
    """Return whether a policy with this span decides on the window that ends here.

    >>> is_span_end(1_200_000, 10), is_span_end(1_260_000, 10)
    (True, False)
    """
    return window_end_ms % (span_minutes * MINUTE_MS) == 0
