"""What a check found, and how checks are run."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import msgspec

Verdict = Literal["ok", "warning", "problem"]
SKEW_S_MAX = 2.0
"""Above the second that an HTTP date leaves out."""
Check = Callable[[], Iterable["Finding"]]


class Finding(msgspec.Struct, frozen=True):
    """One line of the report. ``remedy`` says what to do, and is empty if all is well."""

    verdict: Verdict
    subject: str
    detail: str
    remedy: str = ""


def run_checks(checks: Sequence[tuple[str, Check]]) -> list[Finding]:
    """Return all findings, in order. A check that cannot even be made is a problem of its own and stops no other check."""
    found: list[Finding] = []
    for subject, check in checks:
        try:
            found.extend(check())
        except Exception as error:
            found.append(Finding("problem", subject, str(error) or type(error).__name__, "see the message"))
    return found


def is_well(findings: Iterable[Finding]) -> bool:
    """Return whether there is no problem; warnings are allowed."""
    return all(finding.verdict != "problem" for finding in findings)


def in_words(seconds: float) -> str:
    """Return a length of time for people.

    >>> in_words(0.4), in_words(90), in_words(7200), in_words(200_000)
    ('0 s', '90 s', '120 min', '56 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3 * 3600 else f"{seconds / 3600:.0f} h"


def skew(subject: str, skew_s: float) -> Iterator[Finding]:
    """Yield a warning if a clock is so many seconds ahead of this machine's, or behind it, that figures would suffer."""
    if abs(skew_s) > SKEW_S_MAX:
        detail = f"its clock is {abs(skew_s):.1f} s {'ahead of' if skew_s > 0 else 'behind'} this machine's"
        yield Finding("warning", f"{subject} clock", detail, "let both follow one time server (NTP)")
