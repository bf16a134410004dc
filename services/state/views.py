"""Reads the view: what the HTTP API answers and the commands print, as plain documents. Writes nothing."""

import difflib
import json
from collections.abc import Iterable
from typing import Any

import msgspec

from contracts.clock import MINUTE_MS
from contracts.errors import SurescaleError
from contracts.ids import cluster_of, command_id, split_job
from contracts.messages import ClusterTopology
from services.state.cluster_info import cluster_info, job_seen
from services.state.rent import cluster_rent, job_rent
from services.state.view_store import ViewStore

LIMIT_MAX = 500
NEAR_MAX = 3
BALANCES_SHOWN = 20  # the newest looks at the hosts
STEPS_MAX = 16  # of one rescale; the last one that was commanded is what came of it
_LARGE_PARTS = ("looked_at",)  # of a task in a decision: shown for one decision, not in lists

Document = dict[str, Any]


class NotFound(SurescaleError):
    """The view holds nothing of that name; ``near`` lists names that resemble it, or else the first few."""

    def __init__(self, what: str, name: str, near: Iterable[str] = ()) -> None:
        self.near = list(near)
        hint = f"; known: {', '.join(self.near)}" if self.near else ""
        super().__init__(f"no {what} {name!r} is known{hint}")


class Views:
    """The documents of one road. Every method raises redis.RedisError when Redis is away."""

    def __init__(self, store: ViewStore) -> None:
        self._store = store
        self._client = store.client

    def job_ids(self) -> list[str]:
        """Return the ids of all jobs that any topic has named."""
        return sorted(self._client.smembers(self._key("jobs")))

    def jobs(self) -> list[Document]:
        """Return a short document per job."""
        ids = self.job_ids()
        newest = {cluster: self._newest_window_ms(cluster, ids) for cluster in self._clusters()}
        return [_short(self._job(job, newest.get(cluster_of(job)))) for job in ids]

    def job(self, job: str) -> Document:
        """Return what is known of a job.

        Raises:
            NotFound: no topic has named it.
        """
        self._require_job(job)
        return self._job(job, self._newest_window_ms(cluster_of(job), self.job_ids()))

    def _job(self, job: str, newest_window_ms: int | None) -> Document:
        fields = self._client.hgetall(self._key(f"job:{job}"))
        topology, settings, gate = (_parsed(fields.get(name)) for name in ("topology", "settings", "gate"))
        window, command = self._newest("windows", job), self._newest("commands", job)
        decisions = self.decisions(job, 1)
        return {
            "job": job,
            "topology": _flat(topology),
            "settings": _flat(settings),
            "window": _with_freshness(_flat(window)),
            "silent_minutes": _minutes_behind(window, newest_window_ms),
            "decision": decisions[0] if decisions else None,
            "gate": _flat(gate),
            "command": None if command is None else self._with_progress(_flat(command)),
            "rent": self._rent(job, topology),
        }

    def decisions(self, job: str, limit: int) -> list[Document]:
        """Return the job's latest decisions, newest first, each with its last outcome, its command and that one's progress.

        Raises:
            NotFound: no topic has named the job.
        """
        self._require_job(job)
        ids = self._client.zrevrange(self._key(f"decisions:{job}"), 0, limit - 1)
        if not ids:
            return []
        bodies = self._client.hmget(self._key(f"decisions.bodies:{job}"), ids)
        outcomes = self._client.hmget(self._key(f"outcomes.bodies:{job}"), ids)
        pairs = zip(bodies, outcomes, strict=True)
        return [self._decision(job, _without_large(_parsed(body)), _parsed(outcome)) for body, outcome in pairs if body]

    def decision(self, of: str) -> Document:
        """Return one decision in full.

        Raises:
            NotFound: it is not, or no longer, in the view.
        """
        job = of.rpartition("@")[0]
        return self._decision(job, self._required("decision", job, of), self._body("outcomes", job, of))

    def command(self, of: str) -> Document:
        """Return one command with its progress.

        Raises:
            NotFound: it is not, or no longer, in the view.
        """
        return self._with_progress(_flat(self._required("command", of.rpartition("#")[0], of)))

    def cluster(self, cluster: str) -> Document:
        """Return a cluster's hosts, jobs, placement and latest events.

        Raises:
            NotFound: no topic has named it.
        """
        self._require_cluster(cluster)
        fields = {name: _flat(_parsed(body)) for name, body in self._client.hgetall(self._key(f"cluster:{cluster}")).items()}
        ids = self._client.zrevrange(self._key(f"events:{cluster}"), 0, LIMIT_MAX - 1)
        events = self._client.hmget(self._key(f"events.bodies:{cluster}"), ids) if ids else []
        looks = self._client.zrevrange(self._key(f"balances:{cluster}"), 0, BALANCES_SHOWN - 1)
        balances = self._client.hmget(self._key(f"balances.bodies:{cluster}"), looks) if looks else []
        jobs = self._jobs_of(cluster)
        topologies = [_parsed(self._client.hget(self._key(f"job:{job}"), "topology")) for job in jobs]
        return {
            "cluster": cluster,
            "topology": fields.get("topology"),
            "placement": fields.get("placement"),
            "balance": fields.get("balance"),
            "balances": [_flat(_parsed(balance)) for balance in balances if balance],
            "policy_release": fields.get("policy_release"),
            "jobs": jobs,
            "rent": cluster_rent(topologies, self._hosts(cluster)),
            "events": [_flat(_parsed(event)) for event in events if event],
        }

    def only_cluster(self) -> str:
        """Return the name of the only cluster.

        Raises:
            NotFound: there is none, or more than one.
        """
        clusters = self._clusters()
        if len(clusters) != 1:
            raise NotFound("cluster", "that is the only one", clusters)
        return clusters[0]

    def cluster_info(self, cluster: str) -> Document:
        """Return workers with their units and the fragments on them (`services.state.cluster_info`).

        Raises:
            NotFound: no topic has named the cluster, or its hosts are not known yet.
        """
        self._require_cluster(cluster)
        hosts = self._hosts(cluster)
        if hosts is None:
            raise NotFound("topology of cluster", cluster)
        placement = _parsed(self._client.hget(self._key(f"cluster:{cluster}"), "placement"))
        generation = (placement or {"record": {}})["record"].get("placement_generation", 0)
        found = [self._client.hmget(self._key(f"job:{job}"), "topology", "mappings") for job in self._jobs_of(cluster)]
        jobs = [job_seen(json.loads(topology), _parsed(mappings)) for topology, mappings in found if topology]
        return cluster_info(msgspec.convert(hosts["record"], ClusterTopology), jobs, generation)

    def dead_letters(self, limit: int) -> list[Document]:
        """Return the latest refused records, newest first."""
        letters: list[Document] = []
        for key in set(self._client.scan_iter(match=self._key("dead-letters.bodies:*"), count=1000)):  # a scan may repeat itself
            letters += [_flat(_parsed(body)) or {} for body in self._client.hvals(key)]
        place = ("appended_ms", "topic", "partition", "offset")
        return sorted(letters, key=lambda letter: tuple(letter[name] for name in place), reverse=True)[:limit]

    def counts(self) -> Document:
        """Return how many distinct records there were, by kind and, below it, by what makes kinds differ."""
        stored = {name: int(count) for name, count in self._client.hgetall(self._key("counts")).items()}
        return _nested({name: count for name, count in stored.items() if count})

    def clocks(self) -> Document:
        """Return the current segment of each road's clock."""
        return {road: _flat(_parsed(body)) for road, body in self._client.hgetall(self._key("clocks")).items()}

    def _hosts(self, cluster: str) -> Document | None:
        return _parsed(self._client.hget(self._key(f"cluster:{cluster}"), "topology"))

    def _rent(self, job: str, topology: Document | None) -> Document | None:
        """What the job costs now; what it saves is known when its generation came from a command with a placement."""
        if topology is None:
            return None
        generation = topology["record"].get("generation", 0)
        steps = [command_id(job, generation, step) for step in range(STEPS_MAX)]
        bodies = [body for body in self._client.hmget(self._key(f"commands.bodies:{job}"), steps) if body]
        return job_rent(topology, self._hosts(cluster_of(job)), _parsed(bodies[-1]) if bodies else None)

    def _newest_window_ms(self, cluster: str, jobs: Iterable[str]) -> int | None:
        """Return the end of the newest window of any job of the cluster, None when there is none."""
        with self._client.pipeline(transaction=False) as pipe:
            for job in jobs:
                if cluster_of(job) == cluster:
                    pipe.zrevrange(self._key(f"windows:{job}"), 0, 0, withscores=True)
            return max((round(score) for found in pipe.execute() for _, score in found), default=None)

    def _key(self, name: str) -> str:
        return self._store.key(name)

    def _require_job(self, job: str) -> None:
        if not self._client.sismember(self._key("jobs"), job):
            raise NotFound("job", job, _near(job, self.job_ids()))

    def _clusters(self) -> list[str]:
        return sorted(self._client.smembers(self._key("clusters")))

    def _require_cluster(self, cluster: str) -> None:
        clusters = self._clusters()
        if cluster not in clusters:
            raise NotFound("cluster", cluster, _near(cluster, clusters))

    def _jobs_of(self, cluster: str) -> list[str]:
        return [job for job in self.job_ids() if split_job(job)[0] == cluster]

    def _near_in(self, timeline: str, job: str, of: str) -> list[str]:
        return _near(of, self._client.zrange(self._key(f"{timeline}:{job}"), 0, -1))

    def _newest(self, timeline: str, job: str) -> Document | None:
        ids = self._client.zrevrange(self._key(f"{timeline}:{job}"), 0, 0)
        return self._body(timeline, job, ids[0]) if ids else None

    def _body(self, timeline: str, job: str, of: str) -> Document | None:
        return _parsed(self._client.hget(self._key(f"{timeline}.bodies:{job}"), of))

    def _required(self, kind: str, job: str, of: str) -> Document:
        """Return a decision or a command; NotFound says what there is instead."""
        body = self._body(f"{kind}s", job, of)
        if body is None:
            raise NotFound(kind, of, self._near_in(f"{kind}s", job, of))
        return body

    def _decision(self, job: str, decision: Document | None, outcome: Document | None) -> Document:
        document = _with_freshness(_flat(decision)) or {}
        document["outcome"] = flat = _flat(outcome)
        command_id = flat.get("command_id") if flat else None
        command = self._body("commands", job, command_id) if command_id else None
        document["command"] = None if command is None else self._with_progress(_flat(command))
        return document

    def _with_progress(self, command: Document | None) -> Document:
        assert command is not None, "only a command that was found has progress"
        ids = [f"{command['command_id']}/{status}" for status in ("accepted", "warming", "applied", "failed")]
        bodies = self._client.hmget(self._key(f"progress.bodies:{command['job']}"), ids)
        return command | {"progress": [_flat(_parsed(body)) for body in bodies if body]}


def _near(name: str, known: Iterable[str]) -> list[str]:
    """Return names that resemble one, or else the first few there are."""
    names = list(known)
    return difflib.get_close_matches(name, names, n=NEAR_MAX, cutoff=0.4) or names[:NEAR_MAX]


def _parsed(body: str | None) -> Document | None:
    return None if body is None else json.loads(body)


def _flat(document: Document | None) -> Document | None:
    """Put the broker's append time beside the record's own fields; the wire's tag is of no use to readers."""
    if document is None:
        return None
    record = {name: value for name, value in document["record"].items() if name != "type"}
    return record | {"appended_ms": document["appended_ms"]}


def _with_freshness(document: Document | None) -> Document | None:
    """Add the time from the append of the record that closed the minute to the append of this one."""
    if document is None or document.get("closed_append_ms") is None:
        return document
    return document | {"freshness_ms": document["appended_ms"] - document["closed_append_ms"]}


def _minutes_behind(window: Document | None, newest_window_ms: int | None) -> int | None:
    """Return by how many minutes a job's newest window is older than the newest of its cluster, None when one is not there."""
    if window is None or newest_window_ms is None:
        return None
    return int((newest_window_ms - window["record"]["window_end_ms"]) // MINUTE_MS)


def _without_large(document: Document | None) -> Document | None:
    for task in document["record"]["tasks"] if document else ():
        for part in _LARGE_PARTS:
            task.pop(part, None)
    return document


def _short(job: Document) -> Document:
    topology, window, decision, gate, rent = (job[name] or {} for name in ("topology", "window", "decision", "gate", "rent"))
    tasks = topology.get("tasks", [])
    return {
        "job": job["job"],
        "state": topology.get("state"),
        "generation": topology.get("generation"),
        "tasks": len(tasks),
        "parallelism": sum(task.get("parallelism", 1) for task in tasks if task.get("scalable", True)),
        "mode": (job["settings"] or {}).get("mode", "act"),
        "window_end_ms": window.get("window_end_ms"),
        "completeness": window.get("completeness"),
        "load_records_per_minute": window.get("load_records_per_minute"),
        "silent_minutes": job["silent_minutes"],
        "action": decision.get("action"),
        "outcome": (decision.get("outcome") or {}).get("status"),
        "gate_phase": gate.get("phase"),
        "wake_up_ms": gate.get("wake_up_ms"),
        "rent_per_day": rent.get("per_day"),
    }


def _nested(flat: dict[str, int]) -> Document:
    nested: Document = {}
    for name in sorted(flat):
        whole, _, part = name.partition(".")
        if part:
            group = nested.setdefault(whole, {})
            group[part] = flat[name]
        else:
            nested[whole] = flat[name]
    return nested
