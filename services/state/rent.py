"""What jobs and clusters cost now, from documents of the view. Pure: equal documents give equal figures.

The hosts that a job stands on come from its newest topology, so a move that the engine made by itself counts too. What a
placement saves stands in the command that led to the topology's generation.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from contracts.commands import RescheduleCommand
from contracts.messages import ClusterTopology, JobTopology
from contracts.rent import DAY_S, prices_of, rent_per_s, stay_of

Document = dict[str, Any]


def job_rent(topology: Document, cluster: Document | None, command: Document | None) -> Document | None:
    """Return a job's hosts and rent in dollars a second and a day, and what it saves; None while its hosts are not known.

    ``command`` is the one for the topology's generation, None where there is none; then nothing is known of savings.
    """
    if cluster is None:
        return None
    hosts = msgspec.convert(cluster["record"], ClusterTopology).hosts
    led = msgspec.convert(command["record"], RescheduleCommand) if command else None
    placement = led.placement if led and not led.advice else None
    stay = stay_of(msgspec.convert(topology["record"], JobTopology), hosts, placement)
    rent = rent_per_s(stay.hosts, prices_of(hosts))
    return {
        "hosts": list(stay.hosts),
        **_rates(rent),
        "algorithm": placement.algorithm if placement else None,
        "saved_round_robin_per_day": _saved(stay.round_robin_per_s, rent),
        "saved_default_per_day": _saved(stay.default_per_s, rent),
    }


def cluster_rent(topologies: Iterable[Document | None], cluster: Document | None) -> Document | None:
    """Return the rent of all hosts that any job stands on, each counted once; None while the hosts are not known."""
    if cluster is None:
        return None
    hosts = msgspec.convert(cluster["record"], ClusterTopology).hosts
    found = [msgspec.convert(topology["record"], JobTopology) for topology in topologies if topology]
    used = sorted({name for topology in found for name in stay_of(topology, hosts, None).hosts})
    return {"hosts": used, **_rates(rent_per_s(used, prices_of(hosts)))}


def _rates(rent: float) -> Document:
    return {"per_s": round(rent, 9), "per_day": round(rent * DAY_S, 6)}


def _saved(other: float | None, rent: float) -> float | None:
    return None if other is None else round((other - rent) * DAY_S, 6)
