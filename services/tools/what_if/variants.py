"""Reads what is to be tried from the command line: ``sure,objective=latency`` or ``@settings.json`` is a policy with settings.

Also what a what-if needs of a recording: the job's minutes, what decided on it, its settings, what its hosts cost. ``play_all``
plays the variants draw by draw until all draws are done or the time is up.
"""

import difflib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from surescale.contracts.errors import PATH_SHOWN_MAX, UNREADABLE, RecordRejected, SettingsError, SurescaleError, reason_of
from surescale.contracts.foreign_files import contents
from surescale.contracts.ids import cluster_of
from surescale.contracts.job_labels import FIELDS, in_force, read_limit
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.limits_in_words import READ_EACH
from surescale.contracts.messages import ClusterTopology, Host, JobTopology
from surescale.contracts.objectives import read_objective
from surescale.contracts.rent import rent_costs
from surescale.contracts.topics import CLUSTER_TOPOLOGY, JOB_TOPOLOGY
from surescale.contracts.topology import units_of
from surescale.contracts.wire import decode
from surescale.policies.policy import Policy
from surescale.policies.registry import Unavailable, check_policy, load_policy, policy_names
from surescale.runtime.limited_graphs import opener_for
from surescale.services.tools.recording.replay import learn
from surescale.services.tools.recording.sources import FileSource, settings_of, windows_of
from surescale.simulation.calibration.recorded import Recorded, put_together
from surescale.simulation.what_if.play import PLAYED, Played, Variant, check_span, play, with_settings, with_utilisation
from surescale.simulation.what_if.scenario import Scenario, WhatIfError

if TYPE_CHECKING:
    from surescale.services.tools.recording.format import Recording


BASELINE = "baseline"
UTILISATION, PRICE, SPAN = "utilisation", "price", "span_minutes"
OWN = (UTILISATION, PRICE, SPAN)
"""What can be changed and is no setting of a job."""
_IDENTITY = ("type", "job", "version", "set_by", "set_at_ms", "applied_from", "policy")
_FILE_BYTES_MAX = 2**20


@dataclass(frozen=True, slots=True)
class AsRecorded:
    """What was in force when the recording ended: everything that a variant does not change."""

    policy: str | None
    settings: JobSettings
    span_minutes: int
    price: float | None
    folder: str
    tasks: tuple[str, ...]


def variant_of(text: str, option: str, known: AsRecorded) -> Variant:
    """Return what an option asks for: at most one policy, then changes ``FIELD=VALUE`` and ``@FILE``, separated by commas.

    An empty baseline is what was in force.

    Raises:
        SettingsError: the policy or a field is unknown, or a value does not suit the field; one line, with the fix.
    """
    try:
        if option == "--try" and not _words(text):
            raise WhatIfError("name a policy or a change, e.g. parallelism_max=8")
        return _variant(text, known)
    except (WhatIfError, SettingsError) as error:
        named = f"{option} {text[:80]!r}" if text else option
        raise SettingsError(f"{named}: {str(error).removeprefix('--policy: ')}") from None


def _variant(text: str, known: AsRecorded) -> Variant:
    policy_name, changes = known.policy, dict[str, object]()
    named = False
    for word in _words(text):
        field, is_change, value = word.partition("=")
        if word.startswith("@"):
            changes |= _of_file(Path(word[1:]), known.settings)
        elif field.strip() == "objective":
            changes["objective"] = _objective(value.strip())
        elif is_change:
            name = _field(field.strip())
            changes[name] = _value(name, value.strip())
        elif named:
            raise WhatIfError(f"{word!r} is a second policy; use the option once for each")
        else:
            policy_name, named = word, True
    if policy_name is None:
        raise WhatIfError("no decision is recorded, so name the policy")
    price, span = changes.pop(PRICE, known.price), changes.pop(SPAN, known.span_minutes)
    if price is not None and (isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < 1e9):
        raise WhatIfError(f"price={price}: give dollars per subtask and hour, 0 or more")
    if isinstance(span, bool) or not isinstance(span, int) or not 1 <= span <= 60:
        raise WhatIfError(f"span_minutes={span}: give whole minutes that divide an hour")
    utilisation = changes.pop(UTILISATION, None)
    policy = _policy(policy_name, known.folder, span)
    if utilisation is not None:
        if isinstance(utilisation, bool) or not isinstance(utilisation, int | float):
            raise WhatIfError(f"utilisation={utilisation}: give a share above 0 and up to 1, e.g. 0.7")
        policy = with_utilisation(policy, float(utilisation))
    settings = with_settings(known.settings, changes)
    unknown = sorted(set(settings.tasks or {}) - set(known.tasks)) if "tasks" in changes else []
    if unknown:
        raise WhatIfError(f"tasks: the job has no task {unknown[0]!r}; it has {', '.join(known.tasks[:20])}")
    return Variant(text or BASELINE, policy, settings, None if price is None else float(price))


def _objective(text: str) -> object:
    try:
        return msgspec.to_builtins(read_objective(text))
    except SettingsError as error:
        raise SettingsError(str(error).removeprefix("--objective: ")) from None


def _policy(name: str, folder: str, span_minutes: int) -> Policy:
    check_policy(name, policy_names(folder))
    policy = load_policy(name, folder, span_minutes=span_minutes, opener=opener_for(folder))
    if isinstance(policy, Unavailable):
        raise WhatIfError(f"policy {name}: {policy.reason}")
    check_span(name, policy.span_minutes)
    return policy


def _words(text: str) -> Sequence[str]:
    """Split at commas outside brackets, braces and quotes, so that a value may be JSON."""
    words, depth, quoted, begin = [], 0, False, 0
    for at, sign in enumerate(text):
        if sign == '"':
            quoted = not quoted
        elif not quoted:
            depth += (sign in "[{") - (sign in "]}")
            if sign == "," and depth == 0:
                words.append(text[begin:at])
                begin = at + 1
    return [word.strip() for word in (*words, text[begin:]) if word.strip()]


def _field(name: str) -> str:
    known, name = (*PLAYED, *OWN), FIELDS.get(name, name)
    if name in known or name in JobSettings.__struct_fields__:
        return name
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
    raise WhatIfError(f"there is no field {name[:40]!r}; {hint}")


def _value(field: str, text: str) -> object:
    """Return a value of JSON, periods as people write them, or else the text itself."""
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        return msgspec.to_builtins(read_limit(field, text)) if field in READ_EACH else text


def _of_file(path: Path, present: JobSettings) -> dict[str, object]:
    """Return the settings of a file: a JSON object with fields of a record of job settings.

    Who set it and when does not matter, and a field that no what-if plays may be there if it is as it was.
    """
    told = str(path)[:PATH_SHOWN_MAX]
    try:
        raw = contents(path)
    except OSError as error:
        raise WhatIfError(f"{told} cannot be read ({reason_of(error)}); name a JSON file of job settings") from None
    try:
        found = msgspec.json.decode(raw[: _FILE_BYTES_MAX + 1], type=dict[str, object])
    except UNREADABLE as error:
        raise WhatIfError(f"{told} is no JSON object ({error}); give one with fields of a job's settings") from None
    same = msgspec.to_builtins(present)
    changes = {_field(name): value for name, value in found.items() if name not in _IDENTITY}
    return {name: value for name, value in changes.items() if name in (*PLAYED, *OWN) or value != same.get(name)}


_HOUR_S = 3_600


@dataclass(frozen=True, slots=True)
class ReplayInput:
    """What was taken from a recording."""

    recorded: Recorded
    in_force: AsRecorded
    seed: int


def read_input(opened: "Recording", job: str, folder: str, span_minutes: int) -> ReplayInput:
    """Return what a recording says about a job; ``span_minutes`` holds where no rule decided twice.

    Raises:
        SettingsError: the recording has no window of the job.
        CalibrationError: the windows cannot be put together.
        RecordingRejected: the file is damaged.
    """
    recorded = put_together(job, windows_of(opened, job))
    known = learn(FileSource(opened), frozenset((job,)))
    settings = in_force(settings_of(opened, job), recorded.topology.labels)
    as_recorded = AsRecorded(
        policy=known.policy() if known.asked else settings.policy,
        settings=settings,
        span_minutes=known.span_minutes(span_minutes),
        price=_price(opened, job, recorded.last_ms),
        folder=folder,
        tasks=tuple(name for spec in recorded.topology.tasks for name in (spec.task, spec.label) if name),
    )
    return ReplayInput(recorded, as_recorded, known.seed(0))


def _price(opened: "Recording", job: str, until_ms: int) -> float | None:
    """Return what a subtask of the job cost in an hour: the rent of its hosts over its subtask-hours; None if they have no price.

    Where the engine itself places subtasks, it is the mean price of a slot.
    """
    topologies: list[JobTopology] = []
    hosts: dict[str, Host] = {}
    for record in opened.records():
        try:
            if record.topic == CLUSTER_TOPOLOGY:
                cluster = decode(record.value, ClusterTopology)
                if cluster.cluster == cluster_of(job):
                    hosts |= {host.host: host for host in cluster.hosts}
            elif record.topic == JOB_TOPOLOGY:
                topology = decode(record.value, JobTopology)
                if topology.job == job:
                    topologies.append(topology)
        except RecordRejected:
            continue  # it was not in force in the pipeline either
    if any(units_of(topology) for topology in topologies):
        dollars = rent_costs(topologies, list(hosts.values()), {}, until_ms).jobs[job].dollars
        hours = _subtask_hours(topologies, until_ms)
        return dollars / hours if dollars and hours else None
    room = sum(host.slots or len(host.units) for host in hosts.values())
    rent = sum(host.price_per_s for host in hosts.values())
    return rent * _HOUR_S / room if room and rent else None


def _subtask_hours(topologies: list[JobTopology], until_ms: int) -> float:
    ordered = sorted(topologies, key=lambda each: (each.at_ms, each.version))
    ends = [*(each.at_ms for each in ordered[1:]), until_ms]
    return sum(
        sum(spec.parallelism for spec in each.tasks if spec.scalable) * max(0, min(end, until_ms) - each.at_ms)
        for each, end in zip(ordered, ends, strict=True)
    ) / (1_000 * _HOUR_S)


DRAWS_LEAST = 2  # one says nothing about how far draws lie apart

OnProgress = Callable[[str, float], None]  # what is being done, share done


class TimeLimitReached(SurescaleError):
    """Too few draws were done in the time allowed."""


def play_all(
    scenario: Scenario,
    variants: Sequence[Variant],
    *,
    draws: int,
    seed: int,
    limit_s: float,
    told: OnProgress,
    late_seconds: float | None = None,
    now_s: Callable[[], float] = time.monotonic,
) -> list[tuple[Variant, list[Played]]]:
    """Return what happened under each variant, in the same draws; fewer than asked for if the time is up before.

    ``late_seconds``: above which latency a minute is late under all of them; None: as each one's settings have it.

    Raises:
        TimeLimitReached: not even ``DRAWS_LEAST`` draws were done.
    """
    began_s, runs = now_s(), draws * len(variants)
    found: list[tuple[Variant, list[Played]]] = [(variant, []) for variant in variants]
    for draw in range(draws):
        done: list[Played] = []
        for at, variant in enumerate(variants):
            before = draw * len(variants) + at

            def tell(share: float, before: int = before, stage: str = f"draw {draw + 1} of {draws}: {variant.label}") -> None:
                told(stage, (before + share) / runs)
                if now_s() - began_s > limit_s:
                    raise _Stop

            try:
                done.append(play(scenario, variant, draw=draw, seed=seed, told=tell, late_seconds=late_seconds))
            except _Stop:
                return _enough(found, (before + 0.5) / runs, limit_s)
        for (_, own), played in zip(found, done, strict=True):
            own.append(played)
    return found


class _Stop(Exception):
    """The time is up."""


def _enough(found: list[tuple[Variant, list[Played]]], share: float, limit_s: float) -> list[tuple[Variant, list[Played]]]:
    if len(found[0][1]) >= DRAWS_LEAST:
        return found
    needed = limit_s / max(share, 1e-3)
    raise TimeLimitReached(
        f"--time-limit: {limit_s:g} s are too few for {DRAWS_LEAST} draws; all draws need about {needed:.0f} s: allow more, "
        "try fewer things, or record a shorter stretch with --from and --until"
    )
