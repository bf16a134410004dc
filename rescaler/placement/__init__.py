"""Cost- and load-aware placement: chooses each subtask's host, and says what that costs and how even the load is.

A pure library: `place(request)` answers a `PlaceRequest`; `parse_json` and `to_json(document(...))` speak the contract
`place/1`. Models and algorithms follow the CETSA / LBA-CE paper (Flink, 2023); see docs/placement.md.
"""

from surescale.rescaler.placement.model import ALGORITHMS, Edge, History, Host, Network, Params, PlaceRequest, Subtask, Task
from surescale.rescaler.placement.request import RequestError, parse_json, parse_request
from surescale.rescaler.placement.response import document, error_document, to_json
from surescale.rescaler.placement.solve import PlacementChange, PlaceResponse, place

__all__ = [
    "ALGORITHMS",
    "Edge",
    "History",
    "Host",
    "Network",
    "Params",
    "PlaceRequest",
    "PlaceResponse",
    "PlacementChange",
    "RequestError",
    "Subtask",
    "Task",
    "document",
    "error_document",
    "parse_json",
    "parse_request",
    "place",
    "to_json",
]
