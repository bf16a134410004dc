"""``surescale doctor``: is everything that the pipeline needs there, and does it work?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from surescale.engines.options import engine_options
from surescale.runtime import options

if TYPE_CHECKING:
    from surescale.engines.ports.findings import Finding


@click.command("doctor")
@options.bootstrap
@options.prefix
@options.redis_url
@engine_options
@options.default_policy
@options.policy_folder
@click.option("--test-notification", is_flag=True, help="Send the webhook an event to try it.")
@click.option("--before-start", is_flag=True, help="Check only what must be there before the roles start.")
@options.as_json
def command(*, test_notification: bool, before_start: bool, as_json: bool, **given: str | None) -> None:
    """Check what a pipeline needs, and say what to do.

    Kafka, topics, Redis, the engine, Prometheus or the consumer groups where figures come from them, what Kubernetes allows, the
    policy, the webhook, and whether the roles are at work.

    Reads the same settings as the roles. Changes nothing, and tells nobody unless asked to. Exit code 1 if there is a
    problem; warnings do not count.
    """
    from surescale.contracts.settings import PipelineSettings, from_environment, settings_in
    from surescale.contracts.topics import TopicSettings
    from surescale.engines.ports.findings import is_well, run_checks
    from surescale.engines.registry import checks_of
    from surescale.engines.settings import SourceSettings
    from surescale.services.doctor import checks
    from surescale.services.doctor.checks import notifications
    from surescale.services.doctor.kafka_checks import KafkaChecks
    from surescale.services.state.notify.settings import NotifySettings

    shared = {item.name: given[item.name] for item in settings_in(PipelineSettings) if item.name in given}
    settings = options.settings_of(PipelineSettings, **shared)
    kafka = KafkaChecks(settings, from_environment(TopicSettings, **shared).left)
    at_work = [
        ("clock", lambda: checks.clock(settings, kafka)),
        ("writers", kafka.writers),
        ("monitors", kafka.monitors),
        ("readers", kafka.groups),
        ("the state service", lambda: checks.keeper(settings, kafka)),
    ]
    findings = run_checks(
        [
            ("surescale", checks.programs),
            ("token", kafka.token),
            ("kafka", kafka.broker),
            ("topics", kafka.topics),
            *([] if before_start else at_work),
            ("redis", lambda: checks.view(settings)),
            ("engine", lambda: checks.seen_from_here(checks_of(from_environment(SourceSettings, **given)))),
            ("policy", lambda: checks.policy(settings)),
            ("webhook", lambda: notifications(from_environment(NotifySettings, **shared), kafka, is_tried=test_notification)),
        ]
    )
    _print(findings, as_json=as_json)
    if not is_well(findings):
        raise SystemExit(1)


def _print(findings: "Sequence[Finding]", *, as_json: bool) -> None:
    import msgspec

    from surescale.runtime import terminal
    from surescale.runtime.printable import printable

    if as_json:
        click.echo(msgspec.json.encode(findings))
        return
    subjects = [printable(finding.subject) for finding in findings]
    width = max(map(len, subjects))
    margin = 8 + 1 + width + 2
    for subject, finding in zip(subjects, findings, strict=True):
        click.echo(terminal.hanging(f"{finding.verdict:8} {subject:{width}}  {printable(finding.detail)}", margin))
        if finding.remedy:
            click.echo(terminal.hanging(f"{'':{margin}}-> {printable(finding.remedy)}", margin))
