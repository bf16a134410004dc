"""Watches one chain from outside. Its members are those that Kafka's group coordinators know."""

from collections import Counter
from collections.abc import Mapping

from contracts.settings import PipelineSettings
from engines.groups.broker import GroupReader, GroupsUnavailable
from engines.kafka.offsets import TopicOffsets
from services.local_stack.comparison.load import TOPIC
from services.local_stack.comparison.watch import Figures, Watch, number_of, read_to_end
from services.local_stack.consumers.chain import STAGES, group_of, inputs_of, last_output


class ChainFigures(Figures, frozen=True, kw_only=True):
    """How one chain did. What was not through before the end counts as late, too.

    Attributes:
        member_minutes: members of all groups, summed over the time.
        rebalances: looks, one a second, at which some group had other members than before.
    """

    member_minutes: float
    rebalances: int


class ChainWatch(Watch):
    """One chain."""

    late_s = 30.0

    def __init__(self, bootstrap: str, job: str) -> None:
        super().__init__(bootstrap, TOPIC, last_output(job))
        self._job = job
        self._groups = GroupReader(PipelineSettings(bootstrap=bootstrap))
        self._rebalances = 0
        self._ids: frozenset[str] = frozenset()

    def figures(self) -> ChainFigures:
        """Read the whole output of a chain that has been stopped, and return the figures."""
        times = Counter(number_of(record) for record in read_to_end(self._bootstrap, self._topic_out))
        waiting = self._waiting()
        found = self._figures(times, waiting)
        found["late"] += waiting
        return ChainFigures(**found, member_minutes=self.size_minutes, rebalances=self._rebalances)

    def _waiting(self) -> int:
        """Return what waits: stopped workers have committed all that they wrote, so each record waits for at most one group."""
        topics = TopicOffsets(PipelineSettings(bootstrap=self._bootstrap))
        seen = self._groups.look([group for group, _ in inputs_of(self._job)])
        return sum(
            sum(topics.ends([reads]).values()) - sum(seen[group].committed.values()) for group, reads in inputs_of(self._job)
        )

    def _sizes_now(self) -> Mapping[str, int]:
        names = {stage.task: group_of(self._job, stage.task) for stage in STAGES}
        try:
            seen = self._groups.look(list(names.values()))
        except GroupsUnavailable:  # a busy machine
            return {}
        ids = frozenset(member.id for group in seen.values() for member in group.members)
        self._rebalances += bool(self._ids) and ids != self._ids
        self._ids = ids
        return {task: len(seen[group].members) for task, group in names.items()}
