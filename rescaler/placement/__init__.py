"""Cost- and load-aware placement: on which host each subtask runs, what it costs, how even the load is.

Pure library: `place(request)` answers a `PlaceRequest`; `parse_json` and `to_json(document(...))` speak the contract
`place/1`. Models and algorithms follow the CETSA / LBA-CE paper (Flink, 2023); see docs/placement.md.
"""

from .fields import RequestError
from .model import ALGORITHMS, Edge, History, Host, Network, Params, PlaceRequest, Subtask, Task
from .request import parse_json, parse_request
from .response import document, error_document, to_json
from .solve import PlaceResponse, Rescale, place

__all__ = [
    "ALGORITHMS",
    "Edge",
    "History",
    "Host",
    "Network",
    "Params",
    "PlaceRequest",
    "PlaceResponse",
    "RequestError",
    "Rescale",
    "Subtask",
    "Task",
    "document",
    "error_document",
    "parse_json",
    "parse_request",
    "place",
    "to_json",
]
