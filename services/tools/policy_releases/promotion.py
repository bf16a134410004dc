"""Releases a policy on its record from the shadow: when a person says so, or as soon as a rule holds."""

import time
from collections.abc import Callable, Iterator

import click
from msgspec.structs import replace

from contracts.releases import ScopedRelease, Slot
from contracts.settings import PipelineSettings
from runtime.printable import printable
from services.state.shadow_documents import ShadowSummary
from services.tools.policy_releases import scope
from services.tools.policy_releases.catalog import ReleaseCatalog, ShadowRecords, named, publish, reached, read_catalog
from services.tools.policy_releases.evidence import Least, note_of
from services.tools.policy_releases.promotion_rule import Rule, evidence_from_ms
from services.tools.policy_releases.rollback import ended
from services.tools.policy_releases.start import next_minute_ms


def promote(
    settings: PipelineSettings, wanted: ScopedRelease, record: ShadowSummary | None, catalog: ReleaseCatalog, *, why: str = ""
) -> None:
    """Write the release with the record's main figures, and end a canary of the same package; ``why`` stands before them."""
    publish(settings, replace(wanted, note=" ".join(filter(None, (why, note_of(record))))))
    scope.say_reach(wanted, catalog.jobs)
    tried = catalog.releases.in_force(Slot(wanted.cluster, "serve", "canary"), catalog.now_ms)
    if wanted.scope == "cluster" and tried is not None and (tried.policy, tried.sha256) == (wanted.policy, wanted.sha256):
        # The cluster has what the canary has tried; left as it is, the canary would hide the cluster's next release.
        publish(settings, ended(tried, start_ms=wanted.valid_from_ms, by=wanted.set_by))
    options_of = {"job": f" --job {wanted.job}", "canary": " --canary", "cluster": ""}[wanted.scope]
    click.echo(printable(f"`surescale policy rollback{options_of}` undoes it"))


def promote_when(settings: PipelineSettings, wanted: ScopedRelease, rule: Rule, least: Least, *, every_s: float | None) -> bool:
    """Promote a policy if a rule holds; return whether it serves now.

    Args:
        settings: of the pipeline.
        wanted: the release; it begins a minute after the rule holds.
        rule: the rule.
        least: what any promotion asks for.
        every_s: look again so often until the rule holds; None: look once.

    Raises:
        SettingsError: no rule may promote the policy, or no longer: its shadow has ended, or somebody took the release back.
        ConnectionError: Kafka does not answer, and this looks once.
    """
    records, said = ShadowRecords(settings, job=wanted.job), ""
    try:
        for last_try in _looks(every_s):
            try:
                missing = _look(settings, wanted, rule, least, records)
            except ConnectionError as away:
                if last_try:
                    raise
                missing = str(away)
            if missing is None:
                return True
            if missing != said:
                click.echo(printable(f"{reached(wanted)}: {named(wanted)} not yet: {missing}"))
            said = missing
    finally:
        records.close()
    return False


def _looks(every_s: float | None, sleep: Callable[[float], None] = time.sleep) -> Iterator[bool]:
    """Yield at each look whether it is the last one."""
    while every_s is not None:
        yield False
        sleep(every_s)
    yield True


def _look(settings: PipelineSettings, wanted: ScopedRelease, rule: Rule, least: Least, records: ShadowRecords) -> str | None:
    """Return what is missing; None: the policy serves now, or did already."""
    catalog = read_catalog(settings)
    from_ms = evidence_from_ms(catalog.records, wanted)
    if from_ms is None:
        click.echo(printable(f"{reached(wanted)}: {named(wanted)} is released already"))
        return None
    records.refresh()
    version = (wanted.cluster, wanted.policy, wanted.sha256)
    whole = records.of(version, from_ms)
    newer = None if whole is None else records.of(version, (whole.from_ms + whole.to_ms) // 2 + 1)
    if missing := rule.missing(wanted.policy, wanted.job or wanted.cluster, least, whole, newer):
        return missing
    release = replace(wanted, valid_from_ms=next_minute_ms(catalog.now_ms), set_by=f"rule {rule.text} (set by {wanted.set_by})")
    promote(settings, release, whole, catalog, why=f"The rule {rule.text} holds.")
    return None
