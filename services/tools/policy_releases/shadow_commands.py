"""``surescale policy shadow``, ``shadows`` and ``promote``: a policy looks on, is compared, and takes over."""

import json
import sys

import click

from runtime import options
from runtime.printable import printable
from services.tools.policy_releases import scope


@click.command("shadow")
@click.argument("name")
@click.option("--stop", is_flag=True, help="End its shadow, from the next minute on.")
@scope.starts
@scope.job
@scope.share
@options.by
@options.cluster
@options.policy_folder
@options.bootstrap
@options.prefix
def shadow(
    name: str,
    stop: bool,
    start: str,
    job: str | None,
    canary: float | None,
    by: str | None,
    cluster: str | None,
    policy_folder: str | None,
    bootstrap: str | None,
    topic_prefix: str | None,
) -> None:
    """Run the policy NAME in shadow while another one decides.

    It gets the same windows. Its answers are kept next to the decisions, and nothing acts on them. A job can have up to three
    shadow policies.
    """
    from services.tools.policy_releases.catalog import publish, read_catalog
    from services.tools.policy_releases.folder import verified
    from services.tools.policy_releases.rollback import withdrawn
    from services.tools.policy_releases.shadow_room import check_room, shadow_slot
    from services.tools.policy_releases.start import next_minute_ms, start_ms

    settings = options.pipeline_settings(
        bootstrap=bootstrap, topic_prefix=topic_prefix, cluster=cluster, policy_folder=policy_folder
    )
    catalog, author = read_catalog(settings), options.author(by)
    if stop:
        slot = shadow_slot(catalog.releases, name, settings.cluster, job, canary is not None)
        publish(settings, withdrawn(catalog.releases, slot, next_minute_ms=next_minute_ms(catalog.now_ms), by=author))
        return
    policy, at_ms = verified(name, settings.policy_folder), start_ms(start, catalog.now_ms)
    wanted = scope.release_to(
        "shadow", policy.name, policy.sha256, cluster=settings.cluster, job=job, canary=canary, start_ms=at_ms, by=author
    )
    scope.check_scope(wanted, catalog.clusters, catalog.jobs)
    check_room(catalog.releases, wanted)
    publish(settings, wanted)
    scope.say_reach(wanted, catalog.jobs)


@click.command("shadows")
@options.as_json
@click.option("--job", help="Only what they made of this job, CLUSTER/NAME.")
@options.cluster
@options.bootstrap
@options.prefix
def shadows(as_json: bool, job: str | None, cluster: str | None, bootstrap: str | None, topic_prefix: str | None) -> None:
    """Compare shadow policies with the decisions made.

    Reads all their answers that Kafka keeps.
    """
    import msgspec

    from runtime import terminal
    from services.tools.policy_releases.catalog import read_shadows
    from services.tools.policy_releases.evidence import print_record

    settings = options.pipeline_settings(bootstrap=bootstrap, topic_prefix=topic_prefix, cluster=cluster)
    found = [each for each in read_shadows(settings, job=job) if job is not None or each.cluster == settings.cluster]
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(found), indent=2))
        return
    if not found:
        where = job or settings.cluster
        click.echo(printable(f"{where}: no shadow policy has answered yet; `surescale policy shadow NAME` starts one"))
    out = terminal.console()
    for number, summary in enumerate(found):
        if number:
            out.print()
        print_record(out, summary)


@click.command("promote")
@click.argument("name")
@click.option("--force", is_flag=True, help="Also with a record that is too short, or with none.")
@click.option("--answers", type=click.IntRange(1), default=36, show_default=True, help="Least answers from the shadow.")
@click.option("--hours", type=options.FiniteRange(0), default=6.0, show_default=True, help="Least hours that they cover.")
@click.option("--when", metavar="RULE", help="Only if the record fulfils this rule; its figures are in docs/releases.md.")
@click.option("--wait", is_flag=True, help="Look again until the rule holds, or nothing can be promoted any more.")
@click.option("--every", type=options.FiniteRange(1), default=30.0, show_default=True, help="Seconds between two looks.")
@scope.starts
@scope.job
@scope.share
@options.by
@options.cluster
@options.policy_folder
@options.bootstrap
@options.prefix
def promote(
    name: str,
    force: bool,
    answers: int,
    hours: float,
    when: str | None,
    wait: bool,
    every: float,
    start: str,
    job: str | None,
    canary: float | None,
    by: str | None,
    cluster: str | None,
    policy_folder: str | None,
    bootstrap: str | None,
    topic_prefix: str | None,
) -> None:
    """Release the policy NAME on its record from the shadow.

    Prints the record first. Refuses a record that is too short. The release keeps the record's main figures, the author and
    the time.

    With --when a rule decides, like "cost<=-5 more-overload<=0 hours>=24": exit code 0 once the policy serves, 1 while the rule
    does not hold. --wait looks again until it does. A rule promotes once: not again what somebody has taken back.
    """
    from contracts.errors import SettingsError
    from runtime import terminal
    from services.tools.policy_releases import promotion
    from services.tools.policy_releases.catalog import ShadowRecords, read_catalog
    from services.tools.policy_releases.evidence import Least, check_evidence, print_record
    from services.tools.policy_releases.folder import verified
    from services.tools.policy_releases.promotion_rule import rule_of
    from services.tools.policy_releases.start import start_ms

    if when is None and wait:
        raise SettingsError("--wait: it waits for a rule; state one with --when")
    if when is not None and (force or start != "now"):
        raise SettingsError("--when: a rule needs its record and takes effect at once; leave out --force and --from")
    rule = None if when is None else rule_of(when)
    settings = options.pipeline_settings(
        bootstrap=bootstrap, topic_prefix=topic_prefix, cluster=cluster, policy_folder=policy_folder
    )
    policy, catalog, author = verified(name, settings.policy_folder), read_catalog(settings), options.author(by)
    at_ms = start_ms(start, catalog.now_ms)
    wanted = scope.release_to(
        "serve", policy.name, policy.sha256, cluster=settings.cluster, job=job, canary=canary, start_ms=at_ms, by=author
    )
    scope.check_scope(wanted, catalog.clusters, catalog.jobs)
    least = Least(answers, hours)
    if rule is not None:
        if not promotion.promote_when(settings, wanted, rule, least, every_s=every if wait else None):
            sys.exit(1)
        return
    records = ShadowRecords(settings, job=job)
    try:
        records.refresh()
        record = records.of((wanted.cluster, wanted.policy, wanted.sha256))
    finally:
        records.close()
    if record is not None:
        print_record(terminal.console(), record)
    if not force:
        check_evidence(record, policy.name, job or wanted.cluster, least)
    promotion.promote(settings, wanted, record, catalog)
