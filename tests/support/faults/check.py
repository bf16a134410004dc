"""All invariants over what a pipeline left behind. Shares no code with the product."""

from tests.support.faults.control import check_control
from tests.support.faults.findings import Findings
from tests.support.faults.recording import Topics
from tests.support.faults.samples import check_samples

SPAN_MINUTES = 10
TAIL_MINUTES = 15


def checked(topics: Topics, *, span_minutes: int = SPAN_MINUTES, tail_minutes: int = TAIL_MINUTES) -> Findings:
    """Return what the topics say of samples, windows, decisions, outcomes, commands and parallelism."""
    findings = Findings()
    windows = check_samples(topics, findings)
    check_control(topics, findings, windows, span_minutes=span_minutes, tail_minutes=tail_minutes)
    return findings
