"""Reads what is to be tried from the command line: ``sure,objective=latency`` or ``@settings.json`` is a policy with settings."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from contracts.errors import PATH_SHOWN_MAX, SettingsError, reason_of
from contracts.job_settings import JobSettings, LatencyBound
from contracts.objectives import read_objective
from policies.policy import Policy
from policies.registry import Unavailable, check_policy, load_policy, policy_names
from simulation.what_if.play import check_span
from simulation.what_if.scenario import WhatIfError
from simulation.what_if.variant import PLAYED, Variant, with_settings, with_utilisation

BASELINE = "baseline"
UTILISATION, PRICE, SPAN = "utilisation", "price", "span_minutes"
OWN = (UTILISATION, PRICE, SPAN)
"""What can be changed and is no setting of a job."""
_IDENTITY = ("type", "job", "version", "set_by", "set_at_ms", "policy")
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
        SettingsError: the policy or a field is unknown, or a value is none that the field can have; one line, with the fix.
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
            changes |= _objective(value.strip())
        elif is_change:
            changes[_field(field.strip())] = _value(value.strip())
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
    unknown = sorted(set(settings.tasks) - set(known.tasks)) if "tasks" in changes else []
    if unknown:
        raise WhatIfError(f"tasks: the job has no task {unknown[0]!r}; it has {', '.join(known.tasks[:20])}")
    return Variant(text or BASELINE, policy, settings, None if price is None else float(price))


def _objective(text: str) -> dict[str, object]:
    """Return the settings of an objective; a bound on latency takes the place of a word, and the other way round."""
    try:
        found = read_objective(text)
    except SettingsError as error:
        raise SettingsError(str(error).removeprefix("--objective: ")) from None
    if isinstance(found, LatencyBound):
        return {"objective": None, "latency_bound": msgspec.to_builtins(found)}
    return {"objective": found, "latency_bound": msgspec.UNSET}


def _policy(name: str, folder: str, span_minutes: int) -> Policy:
    check_policy(name, policy_names(folder))
    policy = load_policy(name, folder, span_minutes=span_minutes)
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
    known = (*PLAYED, *OWN)
    if name in known or name in JobSettings.__struct_fields__:
        return name
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
    raise WhatIfError(f"there is no field {name[:40]!r}; {hint}")


def _value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _of_file(path: Path, present: JobSettings) -> dict[str, object]:
    """Return the settings of a file: a JSON object with fields of a record of job settings.

    Who set it and when does not matter, and a field that no what-if plays may be there if it is as it was.
    """
    told = str(path)[:PATH_SHOWN_MAX]
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise WhatIfError(f"{told} cannot be read ({reason_of(error)}); name a JSON file of job settings") from None
    try:
        found = msgspec.json.decode(raw[: _FILE_BYTES_MAX + 1], type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WhatIfError(f"{told} is no JSON object ({error}); give one with fields of a job's settings") from None
    same = msgspec.to_builtins(present)
    changes = {_field(name): value for name, value in found.items() if name not in _IDENTITY}
    return {name: value for name, value in changes.items() if name in (*PLAYED, *OWN) or value != same.get(name)}
