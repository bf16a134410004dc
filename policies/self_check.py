"""Tries a newly loaded policy on an idle job, so that a policy that cannot answer is refused once and not at every window."""

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.windows import FIGURE, Window, blank_figures, unknown_hours
from surescale.policies.answer import RawAnswer
from surescale.policies.features import DAY_MS
from surescale.policies.onnx_sessions import Errors, cannot_be_run
from surescale.policies.package import PackageRejected
from surescale.policies.policy import MINUTES_KNOWN_MIN, Policy, ask
from surescale.policies.question import Question


def check_answers(policy: Policy, minutes: int, errors: Errors) -> None:
    """Ask a policy about a window of this many minutes.

    Raises:
        PackageRejected: it does not answer, or raises one of ``errors``.
    """
    try:
        answer = ask(policy, Question.of(window_at_rest(max(minutes, MINUTES_KNOWN_MIN)), JobSettings(job="a/job"), 0))
    except errors as error:
        raise PackageRejected(f"{policy.name}: {cannot_be_run(error)}") from None
    if not isinstance(answer, RawAnswer):
        raise PackageRejected(f"{policy.name}: it cannot answer about a job at rest: {getattr(answer, 'reason', 'not ready')}")


def window_at_rest(minutes: int) -> Window:
    """Return a window of a job whose two tasks get a record a second and are half busy; its days are unknown."""
    figures = blank_figures(minutes, 2)
    for name, value in {
        "records_in": 60.0, "records_out": 60.0, "busy_ms": 30_000.0, "idle_ms": 30_000.0, "parallelism": 1.0, "coverage": 1.0,
    }.items():  # fmt: skip
        figures[..., FIGURE[name]] = value
    tasks = (TaskSpec(task="a"), TaskSpec(task="b", upstream=("a",)))
    topology = JobTopology(job="a/job", version=0, at_ms=0, tasks=tasks)
    return Window("a/job", 8 * DAY_MS, figures, topology, unknown_hours())
