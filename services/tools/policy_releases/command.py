"""``surescale policy``: list, check, try and release policies for a cluster, a job or a share of jobs."""

import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import click
import msgspec

from surescale.contracts.errors import SettingsError
from surescale.contracts.releases import Slot
from surescale.contracts.settings import PipelineSettings
from surescale.runtime import options, terminal
from surescale.runtime.instants import to_the_minute
from surescale.runtime.printable import printable
from surescale.services.tools.policy_releases import scope

if TYPE_CHECKING:
    from surescale.contracts.releases import Release
    from surescale.services.tools.policy_releases.catalog import ReleaseCatalog


@click.command("list")
@options.as_json
@options.connected(options.cluster, options.policy_folder)
def list_(settings: PipelineSettings, as_json: bool) -> None:
    """Show the folder's policies and the cluster's releases.

    Each policy with a line on what it does.
    """
    from surescale.services.tools.policy_releases.catalog import read_catalog
    from surescale.services.tools.policy_releases.folder import policies_in

    catalog, rows = read_catalog(settings), policies_in(settings.policy_folder)
    slots = catalog.releases.slots(settings.cluster)
    shown = [
        (release, catalog.releases.in_force(slot, catalog.now_ms))
        for slot in slots
        for release in catalog.releases.timeline(slot)
    ]
    if as_json:
        releases = [_document(release, in_force=release == now) for release, now in shown]
        document = {"policies": msgspec.to_builtins(rows), "cluster": settings.cluster, "releases": releases}
        click.echo(json.dumps(document, indent=2))
        return
    for row in rows:
        note = row.unusable or (row.scores.line() if row.scores else "")
        span = f"every {row.span_minutes} min"
        line = printable(f"{row.policy:<20} {row.sha256[:12] or 'rule':<12}  {span:<13} {note}".rstrip())
        click.echo(terminal.hanging(line, margin=49))
        if row.what:
            click.echo(terminal.hanging(printable(f"    {row.what}"), margin=4))
    for release, now in shown:
        click.echo(terminal.hanging(printable(_line(release, now, catalog)), margin=4))
    if catalog.releases.in_force(Slot(settings.cluster, "serve", "cluster"), catalog.now_ms) is None:
        click.echo(f"{settings.cluster}: no release in force; agents use their own policy (SURESCALE_POLICY)")


@click.command("verify")
@click.argument("name")
@options.policy_folder
def verify(name: str, policy_folder: str | None) -> None:
    """Check that the policy NAME can be used.

    Checks its files, checksums and features, and runs it once on a blank window.
    """
    from surescale.services.tools.policy_releases.folder import verified

    policy = verified(name, options.pipeline_settings(policy_folder=policy_folder).policy_folder)
    what = f"package {policy.sha256}" if policy.sha256 else "rule"
    every = "minute" if policy.span_minutes == 1 else f"{policy.span_minutes} minutes"
    click.echo(f"{policy.name}: {what}, decides every {every}; sound")


@click.command("release")
@click.argument("name")
@scope.starts
@scope.job
@scope.share
@options.by
@options.connected(options.cluster, options.policy_folder)
def release(settings: PipelineSettings, name: str, start: str, job: str | None, canary: float | None, by: str | None) -> None:
    """Release the policy NAME.

    It serves a cluster, one job (--job), or a share of the cluster's jobs (--canary). Agents use it for every span that ends
    at or after the event minute --from. The most specific release serves a job: its own, else a canary that it falls into,
    else the cluster's.
    """
    from surescale.services.tools.policy_releases.catalog import publish, read_catalog
    from surescale.services.tools.policy_releases.folder import verified

    policy, catalog = verified(name, settings.policy_folder), read_catalog(settings)
    wanted = scope.release_to(
        "serve",
        policy.name,
        policy.sha256,
        cluster=settings.cluster,
        job=job,
        canary=canary,
        start_ms=scope.start_ms(start, catalog.now_ms),
        by=options.author(by),
    )
    scope.check_scope(wanted, catalog.clusters, catalog.jobs)
    publish(settings, wanted)
    scope.say_reach(wanted, catalog.jobs)


@click.command("rollback")
@scope.job
@scope.of_share
@options.by
@options.connected(options.cluster, options.policy_folder)
def rollback(settings: PipelineSettings, job: str | None, canary: bool, by: str | None) -> None:
    """Undo the newest release.

    That of a cluster, of one job (--job), or of a canary (--canary). The policy released there before it is used again from
    the next minute on. If it was the first, the scope has no release then: the next wider one counts, at last the agents' own
    policy.
    """
    from surescale.policies.registry import Unavailable
    from surescale.policies.released_policy import released_policy
    from surescale.runtime.limited_graphs import opener_for
    from surescale.services.tools.policy_releases.catalog import publish, read_catalog

    catalog, slot = read_catalog(settings), scope.slot_of(settings.cluster, job, canary)
    at_ms = scope.next_minute_ms(catalog.now_ms)
    wanted = scope.rolled_back(catalog.releases, slot, next_minute_ms=at_ms, by=options.author(by))
    policy = released_policy(wanted.policy, wanted.sha256, settings.policy_folder, opener=opener_for(settings.policy_folder))
    if isinstance(policy, Unavailable) and not wanted.withdrawn:
        raise SettingsError(f"policy {wanted.policy}: {policy.reason}")
    publish(settings, wanted)


@click.command("withdraw")
@scope.job
@scope.of_share
@options.by
@options.connected(options.cluster)
def withdraw(settings: PipelineSettings, job: str | None, canary: bool, by: str | None) -> None:
    """End a release from the next minute on.

    That of a cluster, of one job (--job), or of a canary (--canary). The next wider release counts then, at last the agents'
    own policy.
    """
    from surescale.services.tools.policy_releases.catalog import publish, read_catalog

    catalog, slot = read_catalog(settings), scope.slot_of(settings.cluster, job, canary)
    at_ms = scope.next_minute_ms(catalog.now_ms)
    publish(settings, scope.withdrawn(catalog.releases, slot, next_minute_ms=at_ms, by=options.author(by)))


@click.command("shadow")
@click.argument("name")
@click.option("--stop", is_flag=True, help="End its shadow, from the next minute on.")
@scope.starts
@scope.job
@scope.share
@options.by
@options.connected(options.cluster, options.policy_folder)
def shadow(
    settings: PipelineSettings, name: str, stop: bool, start: str, job: str | None, canary: float | None, by: str | None
) -> None:
    """Run the policy NAME in shadow while another one decides.

    It gets the same windows. Its answers are kept next to the decisions, and nothing acts on them. A job can have up to three
    shadow policies.
    """
    from surescale.services.tools.policy_releases.catalog import publish, read_catalog
    from surescale.services.tools.policy_releases.folder import verified

    author = options.author(by)
    if stop:
        catalog = read_catalog(settings)
        slot = scope.shadow_slot(catalog.releases, name, settings.cluster, job, canary is not None)
        at_ms = scope.next_minute_ms(catalog.now_ms)
        publish(settings, scope.withdrawn(catalog.releases, slot, next_minute_ms=at_ms, by=author))
        return
    policy, catalog = verified(name, settings.policy_folder), read_catalog(settings)  # a wrong name is told before Kafka is asked
    at_ms = scope.start_ms(start, catalog.now_ms)
    wanted = scope.release_to(
        "shadow", policy.name, policy.sha256, cluster=settings.cluster, job=job, canary=canary, start_ms=at_ms, by=author
    )
    scope.check_scope(wanted, catalog.clusters, catalog.jobs)
    scope.check_room(catalog.releases, wanted)
    publish(settings, wanted)
    scope.say_reach(wanted, catalog.jobs)


@click.command("shadows")
@options.as_json
@click.option("--job", help="Only what they made of this job, CLUSTER/NAME.")
@options.connected(options.cluster)
def shadows(settings: PipelineSettings, as_json: bool, job: str | None) -> None:
    """Compare shadow policies with the decisions made.

    Reads all their answers that Kafka keeps.
    """
    from surescale.services.tools.policy_releases.catalog import read_shadows
    from surescale.services.tools.policy_releases.promotion import print_record

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
@options.connected(options.cluster, options.policy_folder)
def promote(
    settings: PipelineSettings,
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
) -> None:
    """Release the policy NAME on its record from the shadow.

    Prints the record first. Refuses a record that is too short. The release keeps the record's main figures, the author and
    the time.

    With --when a rule decides, like "cost<=-5 more-overload<=0 hours>=24": exit code 0 once the policy serves, 1 while the rule
    does not hold. --wait looks again until it does. A rule promotes once: not again what somebody has taken back.
    """
    from surescale.services.tools.policy_releases import promotion
    from surescale.services.tools.policy_releases.catalog import ShadowRecords, read_catalog
    from surescale.services.tools.policy_releases.folder import verified
    from surescale.services.tools.policy_releases.promotion import Least, check_evidence, print_record, rule_of

    if when is None and wait:
        raise SettingsError("--wait: it waits for a rule; state one with --when")
    if when is not None and (force or start != "now"):
        raise SettingsError("--when: a rule needs its record and takes effect at once; leave out --force and --from")
    rule = None if when is None else rule_of(when)
    policy, catalog, author = verified(name, settings.policy_folder), read_catalog(settings), options.author(by)
    at_ms = scope.start_ms(start, catalog.now_ms)
    wanted = scope.release_to(
        "serve", policy.name, policy.sha256, cluster=settings.cluster, job=job, canary=canary, start_ms=at_ms, by=author
    )
    scope.check_scope(wanted, catalog.clusters, catalog.jobs)
    least = Least(answers, hours)
    if rule is not None:
        if not promotion.promote_when(settings, wanted, rule, least, every_s=every if wait else None):
            sys.exit(1)
        return
    with closing(ShadowRecords(settings, job=job)) as records:
        records.refresh()
        record = records.of((wanted.cluster, wanted.policy, wanted.sha256))
    if record is not None:
        print_record(terminal.console(), record)
    if not force:
        check_evidence(record, policy.name, job or wanted.cluster, least)
    promotion.promote(settings, wanted, record, catalog)


def _line(release: "Release", now: "Release | None", catalog: "ReleaseCatalog") -> str:
    from surescale.services.tools.policy_releases.catalog import named, reached

    here = "  <- in force" if release == now else "  to come" if release.valid_from_ms > catalog.now_ms else ""
    what = f"{named(release)} {'ends' if release.withdrawn else ''}".rstrip()
    return f"{reached(release)}: from {to_the_minute(release.valid_from_ms)} {what}, by {release.set_by}{here}"


def _document(release: "Release", *, in_force: bool) -> dict[str, object]:
    return {
        "policy": release.policy,
        "sha256": release.sha256,
        "role": release.role,
        "scope": release.scope,
        "job": release.job,
        "share": None if release.share_permille is None else release.share_permille / 1000,
        "valid_from_ms": release.valid_from_ms,
        "withdrawn": release.withdrawn,
        "set_by": release.set_by,
        "set_at_ms": release.set_at_ms,
        "note": release.note,
        "in_force": in_force,
    }
