"""KEDA's metric of a consumer group, after its scaler `apache-kafka` with the defaults of version 2.

The scaler gives Kubernetes the total lag, and a HorizontalPodAutoscaler of KEDA's makes replicas of it: total / `lagThreshold`,
asked for at every sync (`useCachedMetrics` is off). KEDA itself acts between none and one only: its `pollingInterval` of 30 and
`cooldownPeriod` of 300 seconds mean nothing where `minReplicaCount` is one, as here.
"""

from collections.abc import Mapping
from typing import Final

from surescale.engines.kafka.positions import Partition

LAG_THRESHOLD: Final = 10
"""Records for each replica, as in KEDA's source; its documentation has said 5 and 10."""


def total_lag(ends: Mapping[Partition, int], committed: Mapping[Partition, int], threshold: int) -> int:
    """Return the records that wait for a group, at most ``threshold`` for each partition (`allowIdleConsumers` is off).

    Of a partition without a commit all records wait (`offsetResetPolicy: earliest`, as the demo's workers have it).
    """
    lag = sum(max(0, end - committed.get(partition, 0)) for partition, end in ends.items())
    return min(lag, threshold * len(ends))
