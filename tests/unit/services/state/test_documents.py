"""The documents of the HTTP API beside the records they show."""

import msgspec
import pytest

from contracts.decisions import Decision, TaskDecision
from contracts.rescaler_state import Condition
from services.state.documents import ErrorDocument, JobDocument, JobOverview
from services.state.fleet_documents import Clocks, ClusterDocument, ClusterInfo, Counts
from services.state.record_documents import ConditionDocument, DeadLetterDocument, DecisionDocument, TaskDecisionDocument


@pytest.mark.parametrize(("document", "record"), [(DecisionDocument, Decision), (TaskDecisionDocument, TaskDecision)])
def test_a_document_begins_with_the_fields_of_its_record(document: type[msgspec.Struct], record: type[msgspec.Struct]) -> None:
    """A field added to a decision is shown too, and in the same place."""
    fields = record.__struct_fields__
    assert document.__struct_fields__[: len(fields)] == fields


def test_a_condition_is_shown_with_all_its_fields() -> None:
    """In order of name, as it is answered."""
    assert ConditionDocument.__struct_fields__ == tuple(sorted(Condition.__struct_fields__))


def test_every_answer_has_a_json_schema() -> None:
    """Nothing in them is of any type at all; a page of the API is made from the schemas."""
    answers = (JobDocument, list[JobOverview], list[DecisionDocument], ClusterDocument, ClusterInfo, list[DeadLetterDocument])
    _, found = msgspec.json.schema_components((*answers, Counts, Clocks, ErrorDocument))
    untyped = [
        (name, field) for name, schema in found.items() for field, kind in schema.get("properties", {}).items() if kind == {}
    ]
    assert len(found) > 30
    assert untyped == []
