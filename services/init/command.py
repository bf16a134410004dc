"""``surescale init``: asks what is there, or takes it from options, and writes the file that `surescale up` runs from."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from surescale.contracts.errors import SettingsError, SurescaleError
from surescale.contracts.plurals import counted
from surescale.runtime import options

if TYPE_CHECKING:
    from surescale.contracts.job_settings import Mode
    from surescale.contracts.settings import PipelineSettings
    from surescale.services.init.answers import FoundGroup, Plan

T = TypeVar("T")
_NO_WORKERS = "--mode: act needs something that starts workers; add --command, or begin with advise"
_ONE_GROUP = "--command: starts the workers of one group; name it with --group, and add the others to the file"
_KAFKA = "127.0.0.1:9092"
_WRITTEN = frozenset({"ENGINE", "CLUSTER", "BOOTSTRAP", "REDIS_URL", "POLICY", "SPAN_MINUTES", "ENGINE_URL", "FILE", "ACTUATOR",
                      "WORKERS_FOLDER", "GROUPS_FILE"})  # fmt: skip


@click.command("init")
@options.bootstrap
@click.option("--group", "groups", multiple=True,
              help="Consumer group to scale, repeatable; each becomes a job (default: all that have members).")  # fmt: skip
@click.option(
    "--command", "start_with", help="Command that starts one worker of the only group; without it there is only advice."
)
@click.option("--flink", help="Address of Flink's REST API: scale its jobs instead, http://host:port.")
@options.redis_url
@options.cluster
@click.option("--mode", type=click.Choice(["observe", "advise", "act"]), default="advise", show_default=True,
              help="What surescale may do to the jobs from the start.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default="surescale.toml", show_default=True,
              help="The file to write.")  # fmt: skip
@click.option("--yes", "-y", is_flag=True, help="Ask nothing: take the options and the defaults, also over an older file.")
def command(
    bootstrap: str | None,
    groups: tuple[str, ...],
    start_with: str | None,
    flink: str | None,
    redis_url: str | None,
    cluster: str | None,
    mode: "Mode",
    out: Path,
    yes: bool,
) -> None:
    """Write the file from which `surescale up` starts everything.

    Asks where Kafka is and what is to be scaled, and checks each answer at once. Without a terminal, and with --yes, it asks
    nothing. Without an address of Redis, `up` starts one of its own. Changes nothing but the file. Variables SURESCALE_... that
    are set now, such as those of Kafka's credentials, go into it.
    """
    from surescale.contracts.settings import PipelineSettings, from_environment
    from surescale.runtime.atomic_files import check_folder, write_atomically
    from surescale.services.init import answers
    from surescale.services.init.answers import Plan, file_of
    from surescale.services.local_stack.java import find_java

    asks = not yes and sys.stdin.isatty()
    if mode == "act" and flink is None and not start_with and not asks:
        raise SettingsError(_NO_WORKERS)
    if flink is not None and (groups or start_with):
        raise SettingsError("--flink: scales the jobs of Flink, not groups; leave out --group and --command")
    if start_with and len(groups) > 1:
        raise SettingsError(_ONE_GROUP)
    check_folder(out, option="--out")
    if out.exists() and not yes and not (asks and click.confirm(f"{out} already exists; overwrite it?")):
        raise SettingsError(f"--out: {out} already exists; give --yes to overwrite it, or name another file")
    cluster = cluster or os.environ.get("SURESCALE_CLUSTER") or ("kafka" if flink is None else "flink")
    redis_url = redis_url or os.environ.get("SURESCALE_REDIS_URL")
    answers.check_form(bootstrap, cluster, flink, redis_url)
    _quiet()
    find_java()  # the Spark job needs it
    usual = os.environ.get("SURESCALE_BOOTSTRAP", _KAFKA)
    bootstrap = _answer("Kafka (host:port)", bootstrap, usual, answers.checked_kafka, asks)
    _say("ok", f"Kafka at {bootstrap} answers")
    settings: dict[str, str | int] = {"bootstrap": bootstrap, **_variables()}
    found: tuple[FoundGroup, ...] = ()
    words: tuple[str, ...] = ()
    jobs: list[str] = []
    if flink is not None:
        findings, jobs = answers.checked_flink(flink, cluster)
        for finding in findings:
            _say("ok", finding.detail) if finding.verdict == "ok" else _say("warning", f"{finding.detail}; {finding.remedy}")
        settings["engine_url"] = flink
    else:
        found = _groups(from_environment(PipelineSettings, bootstrap=bootstrap), groups, asks)
        words = _command(start_with, found, asks)
        if words:
            settings |= {"actuator": "processes", "workers_folder": "workers"}
    if mode == "act" and flink is None and not words:
        raise SettingsError(_NO_WORKERS)
    if redis_url is None and asks:
        redis_url = click.prompt("Redis (empty: up starts one)", "", show_default=False)
    own_redis = not redis_url
    settings["redis_url"] = answers.own_redis_url() if own_redis else _answer("Redis", redis_url, "", answers.checked_redis, asks)
    _say("ok", "`surescale up` will start a Redis of its own" if own_redis else "Redis answers")
    settings |= answers.free_http_port()
    plan = Plan(cluster, settings, own_redis, mode, found, words, jobs, flink is not None)
    write_atomically(out, file_of(plan), option="--out", mode=0o600)  # an address of Redis may hold a password
    click.echo("\n".join(_what_follows(plan, out)))


def _groups(settings: "PipelineSettings", given: tuple[str, ...], asks: bool) -> "tuple[FoundGroup, ...]":
    """Return the groups that are to be jobs, with a line for each."""
    from surescale.runtime.printable import printable
    from surescale.services.init import answers

    live = answers.live_groups(settings)
    offered = answers.typed(live)
    if not offered and not given:
        raise SettingsError(f"--group: no group at {settings.bootstrap} has members; start consumers, or name a group")
    if asks and not given:
        click.echo(printable(f"groups with members: {', '.join(live)}"))
    every = ",".join(offered[: answers.GROUPS_MAX])

    def check(text: str) -> "tuple[FoundGroup, ...]":
        names = [name.strip() for name in text.split(",") if name.strip()]
        return answers.checked_groups(settings, names, live)

    found = answers.checked_groups(settings, given, live) if given else _answer("Groups to scale", None, every, check, asks)
    for group in found:
        _say("ok", group.in_words())
    return found


def _command(given: str | None, groups: "tuple[FoundGroup, ...]", asks: bool) -> tuple[str, ...]:
    """Return the words of the command that starts a worker; empty: none."""
    from surescale.services.init import answers

    if given and len(groups) > 1:
        raise SettingsError(_ONE_GROUP)
    if len(groups) > 1:
        return ()
    words = _answer("Command that starts one worker (empty: advice only)", given, "", answers.checked_command, asks)
    if words:
        _say("ok", f"surescale will start workers with: {' '.join(words)}")
    return words


def _answer(question: str, given: str | None, default: str, check: Callable[[str], T], asks: bool) -> T:
    """Return what a check makes of an answer: the one given, else that of the person, who is asked until it holds.

    Raises:
        SettingsError: the one given, or the default where nobody is asked, does not hold.
    """
    if given is not None or not asks:
        return check(default if given is None else given)

    def checked(text: str) -> T:
        try:
            return check(text)
        except SurescaleError as error:
            raise click.UsageError(str(error)) from None

    answer: T = click.prompt(question, default=default, value_proc=checked, show_default=bool(default))
    return answer


def _what_follows(plan: "Plan", out: Path) -> list[str]:
    """Return what was written, what the jobs may expect, and the next command."""
    first, last = plan.first_decision()
    several = plan.jobs[:3] + ([f"{len(plan.jobs) - 3} more"] if len(plan.jobs) > 3 else [])
    lines = [f"written: {out}"]
    if plan.jobs:
        lines.append(f"jobs: {', '.join(several)} in mode {plan.mode}: {_effect(plan)}")
    else:
        lines.append("jobs: none run on Flink now; those that come are only observed until `surescale job set JOB --mode advise`")
    lines.append(
        f"first decision: {first} to {last} minutes after the roles are ready, then every "
        f"{'minute' if plan.span_minutes == 1 else f'{plan.span_minutes} minutes'}"
    )
    running = sum(group.members for group in plan.groups)
    if plan.command and running:
        lines.append(
            f"before that: stop your own {counted(running, 'member')}; surescale starts as many, and restarts what crashes"
        )
    beside = "" if out.name == "surescale.toml" and out.parent == Path() else f" --file {out}"
    return [*lines, f"next: surescale up{beside}"]


def _effect(plan: "Plan") -> str:
    """Return what the mode means for these jobs."""
    if plan.mode == "act":
        return "sizes are changed from the first decision on"
    if plan.mode == "observe":
        return "nothing is advised or changed"
    if plan.groups and not plan.command:
        return "surescale only says what it would change; to let it act, say in the file how workers start (docs/consumers.md)"
    act = "once the file says so" if plan.asks_flink else "with `surescale job set JOB --mode act`"
    return f"surescale says what it would change; `surescale job approve JOB` does it, or mode act, {act}"


def _variables() -> dict[str, str | int]:
    """Return the settings of the environment that the file would otherwise lack."""
    from surescale.services.pipeline_file import OTHERS, PREFIX, known_types

    others = {name for name, _, _ in OTHERS}
    names = sorted(name for name in known_types() if name in os.environ and name not in others)
    return {name.removeprefix(PREFIX).lower(): os.environ[name] for name in names if name.removeprefix(PREFIX) not in _WRITTEN}


def _quiet() -> None:
    import logging

    logging.getLogger("surescale.librdkafka").setLevel(logging.CRITICAL)


def _say(verdict: str, line: str) -> None:
    from surescale.runtime.printable import printable

    click.echo(f"{verdict:<8} {printable(line)}")
