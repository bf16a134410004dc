"""The answer of the contract `place/1` as JSON: same response, same bytes, numbers at full double precision."""

from __future__ import annotations

import json

from surescale.rescaler.placement.request import SCHEMA, RequestError
from surescale.rescaler.placement.solve import PlaceResponse


def document(response: PlaceResponse) -> dict[str, object]:
    """Return the response as a JSON-able object, keys in the contract's order."""
    cost, load = response.cost, response.load
    costs: dict[str, object] = {
        "resource_per_s": cost.resource_per_s,
        "communication_per_s": cost.communication_per_s,
        "total_per_s": cost.total_per_s,
        "wec_per_s": cost.wec_per_s,
    }
    if cost.job is not None:
        job = cost.job
        costs["job"] = {"rc": job.rent, "cc": job.communication, "sc": job.scheduling, "wec": job.weighted}
    return {
        "schema": SCHEMA,
        "algorithm": response.request.algorithm,
        "status": "ok" if response.feasible else "infeasible",
        "assignment": {str(subtask): host for subtask, host in response.assignment.items()},
        "unplaced": [str(subtask) for subtask in response.unplaced],
        "cost": costs,
        "load": {"mean": load.mean, "std": load.std, "std_used": load.std_used},
        "hosts_used": response.hosts_used,
        "hosts": _hosts(response),
        "rescale": {
            "started": response.rescale.started,
            "stopped": response.rescale.stopped,
            "moves": response.rescale.moves,
        },
        "infeasible_proof": response.infeasible_proof,
        "notes": list(response.notes),
    }


def _hosts(response: PlaceResponse) -> list[dict[str, object]]:
    return [
        {
            "id": host.id,
            "instances": use.subtasks,
            "cpu": use.cpu,
            "memory": use.memory,
            "slots": use.slots,
            "u_cpu": use.u_cpu,
            "u_mem": use.u_memory,
            "load": use.load,
        }
        for host, use in zip(response.request.hosts, response.hosts, strict=True)
    ]


def error_document(error: RequestError) -> dict[str, object]:
    """Return the answer to a bad request."""
    return {"schema": SCHEMA, "status": "error", "error": str(error)}


def to_json(answer: dict[str, object]) -> str:
    """Return one line of ASCII JSON; refuse NaN and infinity, which no answer may hold."""
    return json.dumps(answer, separators=(",", ":"), allow_nan=False)
