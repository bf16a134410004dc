"""The page of topics."""

from contracts.topics import RECORD_BYTES_MAX, TOPICS, Topic
from services.tools.reference.markdown import code, page, table

_DAY_MS = 86_400_000


def topics_page() -> str:
    """Return the page."""
    rows = [
        (code(topic.name), topic.key, _kept(topic), str(topic.partitions), ", ".join(topic.written_by), topic.carries)
        for topic in TOPICS.values()
    ]
    return page(
        "Topics",
        "`surescale topics create` makes them; a prefix (`SURESCALE_TOPIC_PREFIX`) may stand before every name. Keys are hashed",
        f"by murmur2, time stamps are the broker's append time, a record has at most {RECORD_BYTES_MAX} bytes. Numbers of",
        "partitions and days are the defaults; [settings](settings.md) change them before the first start.\n",
        table(["topic", "key", "kept", "partitions", "written by", "carries"], rows),
        "## Settings at the broker\n",
        table(["topic", "settings"], [(code(topic.name), _config(topic)) for topic in TOPICS.values()]),
    )


def _kept(topic: Topic) -> str:
    return f"{topic.retention_ms // _DAY_MS} days" if topic.kept == "by time" else topic.kept


def _config(topic: Topic) -> str:
    return ", ".join(code(f"{key}={value}") for key, value in sorted(topic.config().items()))
