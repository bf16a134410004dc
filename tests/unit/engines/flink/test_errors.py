"""Each answer without success becomes its own kind of problem, in one line with the fix."""

import json

import pytest

from surescale.engines.flink.errors import (
    FlinkError,
    FlinkRedirected,
    FlinkRefused,
    FlinkUnavailable,
    NoSuchPath,
    NotAdaptive,
    NotAuthorized,
    NotFlink,
    NotFound,
    problem_of,
)
from surescale.runtime.http_pool import Answer

REQUEST = "GET http://flink:8081/jobs/1"
STACK = "\n\tat org.apache.flink.runtime.Some.method(Some.java:1)\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
DEFAULT_SCHEDULER = (
    "Internal server error.",
    "<Exception on server side:\njava.util.concurrent.CompletionException: java.lang.UnsupportedOperationException: "
    f"The DefaultScheduler does not support updating the job resource requirements.{STACK}"
    "Caused by: java.lang.UnsupportedOperationException: The DefaultScheduler does not support updating the job resource "
    f"requirements.{STACK}\nEnd of exception on server side>",
)
BUSY = (
    "Internal server error.",
    f"<Exception on server side:\norg.apache.pekko.pattern.AskTimeoutException: Ask timed out after [10000 ms].{STACK}"
    "End of exception on server side>",
)
INITIALIZING = (
    "Internal server error.",
    "<Exception on server side:\norg.apache.flink.runtime.dispatcher.UnavailableDispatcherOperationException: Unable to get "
    "JobMasterGateway for initializing job. The requested operation is not available while the JobManager is initializing."
    f"{STACK}End of exception on server side>",
)
UNREACHABLE = (
    "Internal server error.",
    "<Exception on server side:\norg.apache.flink.runtime.rpc.exceptions.RecipientUnreachableException: Could not send message "
    f"from sender [one] to recipient [two], because the recipient is unreachable.{STACK}End of exception on server side>",
)
NO_JOB = (
    "Internal server error.",
    "<Exception on server side:\n"
    f"org.apache.flink.runtime.messages.FlinkJobNotFoundException: Could not find Flink job (1){STACK}",
)
CANCELLED = ("Internal server error.", f"<Exception on server side:\njava.util.concurrent.CancellationException{STACK}")
HANDLER = "org.apache.flink.runtime.rest.handler.RestHandlerException: "


def answer(status: int, *errors: str, content_type: str = "application/json", body: bytes = b"", location: str = "") -> Answer:
    """An answer with Flink's list of errors, or with a body of its own."""
    return Answer(status, "Reason", content_type, location, body or json.dumps({"errors": errors}).encode())


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (answer(404, "org.apache.flink.runtime.rest.NotFoundException: Job 1 not found" + STACK), NotFound, "Job 1 not found"),
        (answer(500, *NO_JOB), NotFound, "Could not find Flink job (1)"),
        (answer(404, "Unable to load requested file /x/jobs/1."), NoSuchPath, "check its version"),
        (answer(400, f"{HANDLER}parallelism 99 exceeds its maximum 64.{STACK}"), FlinkRefused, "parallelism 99 exceeds"),
        (answer(500, *DEFAULT_SCHEDULER), NotAdaptive, "jobmanager.scheduler: adaptive"),
        (answer(500, *BUSY), FlinkUnavailable, "Ask timed out after"),
        (answer(500, *INITIALIZING), FlinkUnavailable, "not available while the JobManager is initializing"),
        (answer(500, *UNREACHABLE), FlinkUnavailable, "because the recipient is unreachable"),
        (answer(503, "Service temporarily unavailable due to an ongoing leader election."), FlinkUnavailable, "leader election"),
        (answer(502, content_type="text/html", body=b"<html>Bad gateway"), FlinkUnavailable, "502"),
        (answer(401, body=b"no"), NotAuthorized, "SURESCALE_ENGINE_TOKEN_FILE"),
        (answer(302, location="https://login.example/in?state=secret"), FlinkRedirected, "https://login.example/in;"),
        (answer(404, content_type="text/html", body=b"<html>nginx"), NotFlink, "a web page"),
        (answer(500, body=b"\xff\xfe"), NotFlink, "SURESCALE_ENGINE_URL"),
    ],
)
def test_each_answer_has_its_class_and_its_fix(given: Answer, kind: type[FlinkError], said: str) -> None:
    """The class is exact, and the message names the request, has one line and no Java stack."""
    problem = problem_of(given, REQUEST)
    assert type(problem) is kind
    assert said in str(problem)
    assert REQUEST in str(problem)
    assert "\n" not in str(problem)
    assert "java:" not in str(problem)
    assert "secret" not in str(problem)


def test_a_refusal_keeps_flinks_own_sentence() -> None:
    """Without the request and without the classes around it."""
    problem = problem_of(answer(500, *DEFAULT_SCHEDULER), REQUEST)
    assert isinstance(problem, NotAdaptive)
    assert problem.reason == "The DefaultScheduler does not support updating the job resource requirements."


def test_nothing_is_refused_to_who_only_asks() -> None:
    """Flink cancels answers that it was about to make of a job that restarts: the next one comes. A change is refused so."""
    assert type(problem_of(answer(500, *CANCELLED), "GET http://flink/jobs/1")) is FlinkUnavailable
    assert type(problem_of(answer(500, *CANCELLED), "PUT http://flink/jobs/1/resource-requirements")) is FlinkRefused


def test_a_long_reason_is_cut() -> None:
    """A refusal that goes on and on stays readable."""
    assert len(str(problem_of(answer(400, HANDLER + "x" * 10_000), REQUEST))) < 600
