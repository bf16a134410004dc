"""What is asked of every object of Kubernetes that is to be scaled: the rights, is it there, and does anybody else scale it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from surescale.contracts.errors import SettingsError, SurescaleError
from surescale.engines.kubernetes.client import KubernetesClient, Right, client_of
from surescale.engines.kubernetes.errors import ApiUnavailable, NotAuthenticated, NotKubernetes
from surescale.engines.kubernetes.target import Target
from surescale.engines.ports.findings import Finding
from surescale.engines.settings import SourceSettings

_REMEDY = "docs/kubernetes.md says what is needed"


class Seen(NamedTuple):
    """One object: why no act on it is carried out, if so, and else what it is asked for."""

    why_not: str | None
    wanted: str


@dataclass(frozen=True, slots=True)
class ScaledObject:
    """One object to check. ``name``: of what it scales, a task or a job."""

    name: str
    target: Target
    rights: tuple[Right, ...]
    look: Callable[[KubernetesClient], Seen]


def check_objects(
    settings: SourceSettings, subject: str, role: str, listed: Callable[[], Iterable[ScaledObject]]
) -> Iterator[Finding]:
    """Check every object with the caller's account; ``role``: the folder of the one that has all rights."""
    try:
        objects, client = list(listed()), client_of(settings)
    except SettingsError as error:
        yield Finding("problem", subject, str(error), _REMEDY)
        return
    try:
        for each in objects:
            yield _check(client, each, subject, role)
    except (ApiUnavailable, NotAuthenticated, NotKubernetes) as problem:  # the next one would say the same
        yield Finding("problem", subject, str(problem), _REMEDY)
    finally:
        client.close()


def _check(client: KubernetesClient, each: ScaledObject, subject: str, role: str) -> Finding:
    try:
        missing = [str(right) for right in each.rights if not client.may(right)]
        if missing:
            detail = f"{each.name}: {each.target}: the account that asks may not {', '.join(missing)}"
            return Finding("problem", subject, detail, f"give the rescaler's account these rights ({role}), and run this with it")
        seen = each.look(client)
    except (ApiUnavailable, NotAuthenticated, NotKubernetes):
        raise
    except SurescaleError as problem:
        return Finding("problem", subject, f"{each.name}: {problem}", _REMEDY)
    if seen.why_not is not None:
        detail = f"{each.name}: {each.target}: {seen.why_not}"
        return Finding("problem", subject, detail, "until then no act on its job is carried out")
    return Finding("ok", subject, f"{each.name}: {each.target}, {seen.wanted}; all rights are there")
