"""The documents of the HTTP API beside the records they show."""

import msgspec

from surescale.contracts.messages import DeadLetter
from surescale.services.state.documents import ErrorDocument, JobDocument, JobOverview
from surescale.services.state.fleet_documents import Clocks, ClusterDocument, ClusterInfo, Counts
from surescale.services.state.record_documents import Appended, DecisionDocument


def test_every_answer_has_a_json_schema() -> None:
    """Nothing in them is of any type at all; a page of the API is made from the schemas."""
    answers = (JobDocument, list[JobOverview], list[DecisionDocument], ClusterDocument, ClusterInfo, list[Appended[DeadLetter]])
    _, found = msgspec.json.schema_components((*answers, Counts, Clocks, ErrorDocument))
    untyped = [
        (name, field) for name, schema in found.items() for field, kind in schema.get("properties", {}).items() if kind == {}
    ]
    assert len(found) > 30
    assert untyped == []
