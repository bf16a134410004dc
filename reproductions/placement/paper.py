"""Data of the paper: its cluster (Table 4), its run times (Tables 5 and 6), and jobs shaped like its own.

Source: the CETSA / LBA-CE paper (Flink, 2023), sections 4 and 5. Values the paper does not give (parallelism, demands, record
sizes) are ours and marked so.
"""

from __future__ import annotations

from collections.abc import Mapping

from surescale.rescaler.placement.model import Algorithm, Edge, History, Host, Network, Task

HOST_TYPES = {"m": ("Small", 4.0, 8.0, 2.417e-3), "l": ("Medium", 8.0, 12.0, 4.861e-3), "xl": ("Large", 12.0, 16.0, 7.778e-3)}
"""Table 4: type, cores, GB, $/s. $8.70 to $28.00 an hour is far above any real machine; only the ratios matter."""

HOST_IDS = ("m2", "m3", "m4", "l1", "l2", "l3", "l4", "xl1", "xl2", "xl3", "xl4")
"""Eleven task managers with four slots each; m1 is the job manager."""

SHARES = {"m3": 4.0, "m2": 2.0, "m4": 1.98, "l1": 2.0, "l3": 1.99, "l4": 1.98, "xl1": 2.0, "l2": 1.0, "xl4": 1.02,
          "xl3": 1.0, "xl2": 0.98}  # fmt: skip
"""Subtask shares whose price per share gives Table 3. They are ours: the paper prints the ranking, not the shares."""

RANKING = ("m3", "m2", "m4", "l1", "l3", "l4", "xl1", "l2", "xl4", "xl3", "xl2")
"""Table 3: hosts by cost efficiency, best first."""

FIGURE_9_HOSTS = ("m2", "m3", "m4", "l1", "l3")
"""The hosts CETSA uses for 20 subtasks, four on each."""


def cluster(*, with_history: bool = False) -> tuple[Host, ...]:
    """Return Table 4's eleven task managers, on request with the history that gives Table 3's ranking."""
    hosts = []
    for name in HOST_IDS:
        kind, cpu, memory, price = HOST_TYPES[name.rstrip("0123456789")]
        history = History(cost=price * 3600, tuples=SHARES[name] * 3600) if with_history else History()
        hosts.append(Host(name, cpu, memory, 4, price, type=kind, history=history))
    return tuple(hosts)


NETWORK = Network(price_per_gb=0.01)
RECORDS_PER_S = 60_000.0

JOBS: Mapping[str, tuple[tuple[Task, ...], tuple[Edge, ...]]] = {
    "W1": ((Task("wordcount", 20, 1.0, 1.2),), ()),
    "W2": (
        (Task("source", 4, 0.6, 0.8), Task("split", 8, 0.9, 0.8), Task("count", 8, 0.8, 1.2)),
        (Edge("source", "split", RECORDS_PER_S, 200.0), Edge("split", "count", 10 * RECORDS_PER_S, 20.0)),
    ),
}
"""These jobs are ours. W1 is like WordCount with slot sharing: one task of 20 subtasks. W2 is like FixWindow: three tasks with
shuffles."""

TIMES_S: Mapping[str, Mapping[Algorithm, tuple[int, ...]]] = {
    "W1": {
        "default": (27, 48, 68, 90, 111, 132, 153, 175, 195, 215),
        "rr": (29, 42, 61, 80, 95, 114, 133, 155, 171, 189),
        "gs-bfd": (26, 45, 66, 88, 108, 129, 150, 170, 191, 211),
        "cetsa": (27, 43, 66, 86, 106, 122, 146, 165, 183, 205),
        "lba-ce": (25, 43, 62, 79, 98, 115, 133, 151, 167, 185),
    },
    "W2": {
        "default": (26, 45, 64, 83, 102, 121, 141, 160, 179, 199),
        "rr": (22, 40, 58, 74, 93, 111, 129, 145, 163, 179),
        "gs-bfd": (26, 47, 68, 89, 110, 132, 154, 175, 198, 219),
        "cetsa": (27, 50, 71, 94, 117, 140, 160, 182, 205, 227),
        "lba-ce": (22, 40, 59, 77, 96, 115, 133, 151, 169, 187),
    },
}
"""Seconds for 1 to 10 million records: Table 5 (WordCount, W1) and Table 6 (FixWindow, W2)."""

COMPARED: tuple[Algorithm, ...] = ("default", "rr", "gs-bfd", "cetsa", "lba-ce")


def mean_time_change(job: str, algorithm: Algorithm, against: Algorithm) -> float:
    """Return the mean over the ten rows of algorithm / other - 1. The paper's percentages of time are computed this way."""
    own, other = TIMES_S[job][algorithm], TIMES_S[job][against]
    return sum(mine / theirs - 1 for mine, theirs in zip(own, other, strict=True)) / len(own)
