"""Checks of the services that the actuator ``compose`` is to scale: the engine answers, they run, they can be more than one."""

from collections.abc import Iterator

from surescale.contracts.errors import SettingsError
from surescale.engines.compose import ComposeSettings
from surescale.engines.compose.client import ComposeClient
from surescale.engines.compose.errors import ComposeError
from surescale.engines.compose.replica import refusal_of
from surescale.engines.compose.requirement import requirement_of, services_of
from surescale.engines.groups.chains import Chain, chains_of
from surescale.engines.ports.findings import Finding
from surescale.engines.settings import SourceSettings

_SUBJECT = "compose"
_REMEDY = "docs/compose.md says what is needed"


def services(settings: SourceSettings) -> Iterator[Finding]:
    """Check every service that the groups file names, over the socket that the settings name."""
    client = ComposeClient(settings.part(ComposeSettings).compose_url)
    try:
        for chain in chains_of(settings, "compose").values():
            yield from _chain(client, chain)
    except (SettingsError, ComposeError) as problem:
        yield Finding("problem", _SUBJECT, str(problem), _REMEDY)
    finally:
        client.close()


def _chain(client: ComposeClient, chain: Chain) -> Iterator[Finding]:
    required = requirement_of(client, chain)
    if required is None:
        return
    for task, service in services_of(chain).items():
        who, wanted = f"{chain.name}/{task}: {service}", required.wanted(task)
        if not wanted:
            yield Finding("problem", _SUBJECT, f"{who}: none of its containers runs", "docker compose up, or correct the file")
            continue
        reason = refusal_of(service, wanted[0], client.api())
        if reason is not None:
            yield Finding("problem", _SUBJECT, f"{who}: {reason}", "until then no act on its job is carried out")
            continue
        yield Finding("ok", _SUBJECT, f"{who}, {len(wanted)} containers wanted")
