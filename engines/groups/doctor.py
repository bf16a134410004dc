"""Checks of consumer groups as jobs: the Kafka that they read answers, each group is there, and its topics are."""

from collections.abc import Iterator

from surescale.contracts.errors import SettingsError
from surescale.contracts.plurals import counted, listed
from surescale.engines.groups import GroupsSettings
from surescale.engines.groups.broker import GroupDescription, GroupReader, GroupsUnavailable
from surescale.engines.groups.busy import busy_of
from surescale.engines.groups.chains import Chain, Group, chains_of, single
from surescale.engines.kafka.offsets import OffsetsUnavailable, TopicOffsets
from surescale.engines.kafka.positions import in_words, waiting
from surescale.engines.ports.findings import Finding
from surescale.engines.ports.requirement import Requirements
from surescale.engines.ports.source import SourceUnavailable
from surescale.engines.registry import requirements_of
from surescale.engines.settings import SourceSettings

_SUBJECT = "groups"
_SHOWN_MAX = 5


def groups_file(settings: SourceSettings) -> Iterator[Finding]:
    """Say which jobs the file names, and without one which there are.

    Raises:
        SettingsError: the file cannot be used.
    """
    file = settings.part(GroupsSettings).groups_file
    if file:
        yield Finding("ok", "engine", f"consumer groups: jobs {', '.join(chains_of(settings))} of {file}")
    elif not settings.chosen.sources[settings.source_kind].asks_actuator:
        yield Finding("ok", "engine", "consumer groups: every group with members is a job")


def groups(settings: SourceSettings) -> Iterator[Finding]:
    """Check every group of the file; without a file, say which groups become jobs."""
    chains = chains_of(settings)
    try:
        kafka = settings.source_kafka()
        reader, topics = GroupReader(kafka), TopicOffsets(kafka)
        if not settings.part(GroupsSettings).groups_file:
            yield _check_all_groups(reader, settings)
            return
        seen = reader.look([chain.group_of(task) for chain in chains.values() for task in chain.groups])
    except (SettingsError, GroupsUnavailable) as problem:
        yield Finding("problem", _SUBJECT, str(problem), "docs/consumers.md says what the monitor needs")
        return
    asked = requirements_of(settings)
    for chain in chains.values():
        resting = _resting(asked, chain)
        for task, group in chain.groups.items():
            found = seen[chain.group_of(task)]
            if task in resting and not found.members:
                yield Finding("ok", _SUBJECT, f"{chain.name}/{task}: group {found.group} is at rest (0 members)")
                continue
            yield _group(f"{chain.name}/{task}", found, group, topics)
            yield from _busy(f"{chain.name}/{task}", group, found)


def _resting(asked: Requirements, chain: Chain) -> frozenset[str]:
    """Return the tasks of which no workers are asked for; what that is unknown of is none of them."""
    try:
        required = asked.required(chain.name)
    except SourceUnavailable:
        return frozenset()
    return frozenset(task for task, count in required.counts.items() if not count) if required is not None else frozenset()


def _busy(task: str, group: Group, seen: GroupDescription) -> Iterator[Finding]:
    """Say which members do not show how busy they are, though the file says where they do."""
    silent = [each.problem for each in busy_of({task: (group, seen.members)})[task] if each.problem]
    if silent:
        others = f", and {len(silent) - 1} more" if len(silent) > 1 else ""
        yield Finding(
            "warning", _SUBJECT, f"{task}: {silent[0]}{others}",
            "correct metrics and busy in the file, or let the monitor's machine reach it; until then busy time is unknown",
        )  # fmt: skip


def _check_all_groups(reader: GroupReader, settings: SourceSettings) -> Finding:
    names = [single(name).name for name in reader.names()]
    if not names:
        detail = f"Kafka at {settings.source_kafka().bootstrap} has no group with members"
        return Finding(
            "warning", _SUBJECT, detail, "start consumers, or set SURESCALE_SOURCE_BOOTSTRAP to the Kafka that they read"
        )
    return Finding("ok", _SUBJECT, f"each is a job: {listed(names, _SHOWN_MAX)}")


def _group(task: str, seen: GroupDescription, group: Group, topics: TopicOffsets) -> Finding:
    starts = "start its consumers" if group.workers is None else "surescale starts its workers (`surescale workers list`)"
    try:
        answer = topics.look(sorted(group.reads or seen.topics))
        if answer.missing:
            raise topics.missing(sorted(answer.missing))
    except OffsetsUnavailable as problem:
        return Finding("problem", _SUBJECT, f"{task}: {problem}", "correct reads in the file, or create the topic")
    found = {each: waiting(extent, seen.committed.get(each)) for each, extent in answer.extents.items()}
    known = sum(each for each in found.values() if isinstance(each, int))
    if seen.state == "dead":
        return Finding("warning", _SUBJECT, f"{task}: {seen.absence}", f"{starts}, or correct group in the file")
    if not seen.members:
        return Finding("warning", _SUBJECT, f"{task}: group {seen.group} has no members", starts)
    detail = f"{task}: group {seen.group} with {counted(len(seen.members), 'member')}, {counted(known, 'record')} to read"
    unknown = {**answer.unknown, **{each: why for each, why in found.items() if isinstance(why, str)}}
    if unknown:
        return Finding("warning", _SUBJECT, f"{detail}; {in_words(unknown)}", "what waits there is unknown until then")
    return Finding("ok", _SUBJECT, detail)
