"""What stands in a topic."""

from typing import Any

from surescale.contracts.settings import PipelineSettings
from surescale.contracts.wire import decode
from surescale.runtime.topic_records import read_topics, value_of


def records(settings: PipelineSettings, topic: str, kind: Any) -> list[Any]:
    """Return the committed records of a topic (bare name), all of which are of one kind."""
    return [decode(value_of(record), kind) for record in read_topics(settings, [topic])[topic]]
