"""``surescale recording replay``: decide again what was recorded, here or through a Spark job and an agent of its own.

The command belongs to the local stack because ``--through spark`` starts processes. The replay itself and its tables are in
`services.tools.recording`.
"""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surescale.runtime import options

if TYPE_CHECKING:
    from surescale.contracts.settings import PipelineSettings
    from surescale.policies.policy import Policy
    from surescale.services.tools.recording.format import Recording
    from surescale.services.tools.recording.replay import AgentAnswers, Known, Replayed
    from surescale.services.tools.recording.sources import Source

WIDTH_WITHOUT_TERMINAL = 110


@click.command("replay")
@click.argument("origin", metavar="FILE|TOPIC")
@click.option("--policy", "policies", multiple=True, help="Policy to ask; repeatable (default: the one asked originally).")
@options.policy_folder
@click.option("--job", "jobs", multiple=True, metavar="CLUSTER/NAME", help="Only this job; repeatable.")
@options.span_minutes("that of the recorded rules; a package has its own")
@click.option("--seed", type=int, help="Seed to use if no recorded decision names one.")
@click.option(
    "--through",
    type=click.Choice(["windows", "spark"]),
    default="windows",
    show_default=True,
    help="Decide on the recorded windows here, or send the recorded metrics through the Spark job and the agent (needs Kafka).",
)
@click.option("--full", is_flag=True, help="Show every span and every task.")
@options.as_json
@options.bootstrap
@options.prefix
def command(*, full: bool, as_json: bool, **given: Any) -> None:
    """Let policies decide again on what was recorded.

    Takes a recording, or the topic snapshots or task-metrics, and shows what each policy would have changed.
    """
    import msgspec

    from surescale.services.tools.recording.replay_tables import document, print_answers, print_replay

    asked = _ReplayRequest(**given)
    source, found, answers = _replayed(asked)
    if as_json:
        shown = document(found, answers, source=source.name, through=asked.through)
        click.echo(json.dumps(msgspec.to_builtins(shown), indent=1))
        return
    from surescale.runtime import terminal

    console = terminal.console(WIDTH_WITHOUT_TERMINAL)
    print_replay(found, console, full=full)
    if answers is not None:
        print_answers(answers, console)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReplayRequest:
    """What the command line asks to replay."""

    origin: str
    policies: tuple[str, ...]
    jobs: tuple[str, ...]
    through: str
    seed: int | None
    span_minutes: int | None
    policy_folder: str | None
    bootstrap: str | None
    topic_prefix: str | None

    def settings(self) -> "PipelineSettings":
        """Return the pipeline's settings with the options given."""
        return options.pipeline_settings(
            bootstrap=self.bootstrap, topic_prefix=self.topic_prefix, policy_folder=self.policy_folder, seed=self.seed
        )


def _replayed(asked: _ReplayRequest) -> "tuple[Source, Replayed, AgentAnswers | None]":
    from surescale.services.tools.recording.replay import chosen_policies, learn, replay

    settings, jobs = asked.settings(), frozenset(asked.jobs)
    source = _source(asked, settings)
    known = learn(source, jobs)
    span_minutes = asked.span_minutes or known.span_minutes(settings.span_minutes)
    settings = replace(settings, seed=known.seed(settings.seed), span_minutes=span_minutes)
    policies = chosen_policies(asked.policies, known, settings.policy_folder, span_minutes)
    if asked.through == "spark":
        return source, *_through_spark(source, policies, known, settings, jobs)
    return source, replay(source, policies, known, seed=settings.seed, jobs=jobs), None


def _through_spark(
    source: "Source", policies: "list[Policy]", known: "Known", settings: "PipelineSettings", jobs: frozenset[str]
) -> "tuple[Replayed, AgentAnswers]":
    from surescale.runtime.signals import end_in_order
    from surescale.services.local_stack.replay_through_spark import replay_through_spark
    from surescale.services.local_stack.supervisor import StopRequested

    end_in_order()  # topics are created before any process starts, and removed after the last one ends
    try:
        return replay_through_spark(source, policies, known, replace(settings, policy=policies[0].name), jobs=jobs, say=_say)
    except StopRequested as stop:
        click.echo("stopped; the replay's topics are removed", err=True)
        sys.exit(stop.exit_code)


def _source(asked: _ReplayRequest, settings: "PipelineSettings") -> "Source":
    """Return what to replay. A recording is read through first: a damaged one is refused before anything happens."""
    from surescale.contracts.errors import SettingsError
    from surescale.contracts.topics import CLOCK, DECISIONS, JOB_SETTINGS, SNAPSHOTS, TASK_METRICS
    from surescale.services.tools.recording.sources import FileSource, KafkaSource

    path = Path(asked.origin)
    if path.is_file():
        return FileSource(_checked(path))
    wanted = TASK_METRICS if asked.through == "spark" else SNAPSHOTS
    if asked.origin.removeprefix(settings.topic_prefix) in (SNAPSHOTS, TASK_METRICS):
        return KafkaSource(settings, [JOB_SETTINGS, CLOCK, DECISIONS, wanted], say=_say)
    raise SettingsError(f"FILE|TOPIC: {asked.origin!r} is neither a file nor one of the topics {SNAPSHOTS} and {TASK_METRICS}")


def _checked(path: Path) -> "Recording":
    from surescale.services.tools.recording.format import Recording

    recording = Recording(path)
    recording.check()
    return recording


def _say(line: str) -> None:
    click.echo(line, err=True)
