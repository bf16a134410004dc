"""The rights of each role: what the roles' own code reads and writes, and one writer a topic."""

import pytest

from surescale.contracts.access import ROLES, Role, readers, rights, writers
from surescale.contracts.topics import CLOCK, DEAD_LETTERS, JOB_SETTINGS, JOB_TOPOLOGY, READER_GROUP, TASK_METRICS, TOPICS
from surescale.monitor.service import TOPICS_USED
from surescale.rescaler.service.loop import NEEDED
from surescale.services.agent.worker import READS_AND_WRITES
from surescale.services.state.write.projections import PROJECTED


@pytest.mark.parametrize(
    ("role", "uses"),
    [("monitor", TOPICS_USED), ("agent", READS_AND_WRITES), ("rescaler", NEEDED), ("state-service", PROJECTED)],
)
def test_a_role_may_use_the_topics_that_it_waits_for_and_no_other(role: Role, uses: tuple[str, ...]) -> None:
    """A topic that a role begins to use needs a right, or the role stands still at a broker that authorises."""
    assert {topic for topic in TOPICS if role in (*readers(topic), *writers(topic))} == {*uses}


def test_a_topic_has_one_role_that_writes_it_but_for_dead_letters_pauses_and_ends() -> None:
    """Whoever refuses a record writes its dead letter; the rescaler pauses its cluster when it has lost its memory; the operator
    ends a job that its monitor has left.
    """
    several = {topic: writers(topic) for topic in TOPICS if len(set(writers(topic))) != 1}
    assert several.keys() == {DEAD_LETTERS, JOB_SETTINGS, JOB_TOPOLOGY}
    assert several[JOB_TOPOLOGY] == ("monitor", "operator")
    assert several[JOB_SETTINGS] == ("operator", "rescaler")


def test_the_rights_are_sorted_and_of_every_role() -> None:
    """The prefix stands before topics and groups; the cluster names the rescaler's group."""
    found = rights("p-", "c")
    assert found == sorted(set(found))
    assert {right.role for right in found} == set(ROLES)
    assert ("spark", f"p-{TASK_METRICS}", "Read") in {(right.role, right.name, right.operation) for right in found}
    assert ("engine", f"p-{CLOCK}", "Write") in {(right.role, right.name, right.operation) for right in found}
    assert {right.name for right in found if right.resource == "transactional-id"} == {"p-monitor-c", "p-rescaler-c"}


def test_the_state_service_writes_only_where_people_operate_over_http() -> None:
    """Then settings and nothing else, and it names the group of those who read whole topics."""
    more = set(rights("p-", "c", http_operate=True)) - set(rights("p-", "c"))
    assert {(right.role, right.name, right.operation) for right in more} == {
        ("state-service", f"p-{JOB_SETTINGS}", "Write"),
        ("state-service", READER_GROUP, "Describe"),
    }
    written = {right.name for right in rights("p-", "c") if (right.role, right.operation) == ("state-service", "Write")}
    assert written == set()
