"""A new policy tried on a job at rest, so that what cannot answer is refused once and not at every window. Reads no package."""

import numpy as np

from contracts.messages import JobSettings, JobTopology, TaskSpec
from contracts.windows import FIGURE, FIGURES, Window, unknown_hours
from policies.package import PackageRejected
from policies.policy import Policy
from policies.proposal import RawAnswer
from policies.rules.reading import MINUTES_KNOWN_MIN
from policies.runtime import Errors, cannot_be_run

DAY_MS = 24 * 60 * 60_000


def check_answers(policy: Policy, minutes: int, errors: Errors) -> None:
    """Ask a policy about a window of so many minutes.

    Raises:
        PackageRejected: it has no answer, or raises one of ``errors``.
    """
    try:
        answer = policy.answer(window_at_rest(max(minutes, MINUTES_KNOWN_MIN)), JobSettings(job="a/job"), 0)
    except errors as error:
        raise PackageRejected(f"{policy.name}: {cannot_be_run(error)}") from None
    if not isinstance(answer, RawAnswer):
        raise PackageRejected(f"{policy.name}: it cannot answer a job at rest: {getattr(answer, 'reason', 'not ready')}")


def window_at_rest(minutes: int) -> Window:
    """Return a window of a job of two tasks that get a record a second and are half busy; nothing is known of its days."""
    figures = np.zeros((minutes, 2, len(FIGURES)), dtype=np.float32)
    for name, value in {
        "records_in": 60.0, "records_out": 60.0, "busy_ms": 30_000.0, "idle_ms": 30_000.0, "parallelism": 1.0, "coverage": 1.0,
    }.items():  # fmt: skip
        figures[..., FIGURE[name]] = value
    tasks = (TaskSpec(task="a"), TaskSpec(task="b", upstream=("a",)))
    topology = JobTopology(job="a/job", version=0, at_ms=0, tasks=tasks)
    return Window("a/job", 8 * DAY_MS, figures, topology, unknown_hours())
