"""A fake Kubernetes API server, as far as the actuator asks it, over a real socket and on a clock that the test moves.

It is no cluster. It keeps what the API promises and the actuator relies on: a write with an old resource version is refused, an
account may do what its roles allow and nothing else, every change of a number of pods notes who made it, lists come in pages.
Whatever it says or hears must fit the schemas of Kubernetes' own OpenAPI document. What goes wrong is set by the test.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.fake_objects import FakeObject
from tests.support.fake_workloads import DRAIN_MS, Document, FakePod, FakeWorkload
from tests.support.kubernetes_schemas import check
from tests.support.stub_server import StubRequest, StubResponse, StubServer, answering

ACCOUNT = "system:serviceaccount:surescale:surescale-rescaler"
TOKEN = "token-of-the-rescaler"
Rule = tuple[str, str, str]
"""API group, resource (with its subresource), verb."""
_PATH = re.compile(
    r"/apis?/(?P<api>(?:[\w.-]+/)?v\w+)/namespaces/(?P<ns>[\w-]+)/(?P<res>\w+)(?:/(?P<name>[\w.-]+)(?:/(?P<sub>\w+))?)?"
)
_KINDS = {
    "pods": "Pod",
    "events": "Event",
    "horizontalpodautoscalers": "HorizontalPodAutoscaler",
    "scaledobjects": "ScaledObject",
}
_APPS = {"groupVersion": "apps/v1", "version": "v1"}
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_SCALE = {"namespaced": True, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]}
_DISCOVERY: dict[str, Document] = {
    "/api": {"kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"], "serverAddressByClientCIDRs": []},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [{"name": "apps", "versions": [_APPS], "preferredVersion": _APPS}],
    },
    "/api/v1": {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": []},
    "/apis/apps/v1": {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "apps/v1",
        "resources": [
            {"name": "deployments", "singularName": "deployment", "namespaced": True, "kind": "Deployment", "verbs": ["get"]},
            {"name": "deployments/scale", "singularName": ""} | _SCALE,
        ],
    },
}
"""What ``kubectl`` asks before it asks for anything else."""
_NO_SCHEMA = re.compile(r"example\.org/|keda\.sh/|flink\.apache\.org/|surescale\.dev/")
"""Kinds that are not Kubernetes' own."""


class _UnknownGroup(Exception):
    """No kind of an API group is installed: the one answer of an API server that is no document."""

    given = StubResponse(404, b"404 page not found\n", {"Content-Type": "text/plain; charset=utf-8"})


class _Answered(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.given = StubResponse(
            status,
            json.dumps(
                _checked(
                    {
                        "kind": "Status",
                        "apiVersion": "v1",
                        "metadata": {},
                        "status": "Failure",
                        "reason": reason,
                        "message": message,
                        "code": status,
                    }
                )
            ).encode(),
        )


@dataclass(slots=True)
class FakeApiServer:
    """One cluster.

    Attributes:
        rules: what the account may do in every namespace; None: everything.
        now_ms: the clock.
        slots: pods for which nodes have room.
        quota: pods that one namespace may have.
        has_keda: its kinds are installed.
        asks_token: False: every client is the account, as behind ``kubectl proxy``.
        is_away: nobody can answer now.
        before: called with every request before it is handled, so that something may happen in between.
        page_items: at most so many objects come in one answer.
    """

    rules: frozenset[Rule] | None = None
    now_ms: int = 10**12
    slots: int = 100
    quota: int = 100
    has_keda: bool = True
    asks_token: bool = True
    is_away: bool = False
    before: Callable[[StubRequest], None] = lambda asked: None
    page_items: int = 1_000
    workloads: list[FakeWorkload] = field(default_factory=list)
    objects: dict[str, FakeObject] = field(default_factory=dict)
    """Custom resources by path."""
    definitions: frozenset[str] = frozenset()
    """API groups and versions whose custom resources can be listed."""
    autoscalers: list[Document] = field(default_factory=list)
    scaled_objects: list[Document] = field(default_factory=list)
    events: list[Document] = field(default_factory=list)
    """Events that the account has created, in order."""
    puts: list[tuple[str, int]] = field(default_factory=list)
    """Every write that was accepted: name and replicas."""
    used: set[Rule] = field(default_factory=set)
    """Every right that was asked for."""
    _versions: Iterator[int] = field(default_factory=lambda: count(1_000))

    # What a test does

    def deploy(self, name: str, replicas: int, *, namespace: str = "shop", **more: Any) -> FakeWorkload:
        """Create an object; one of its name is deleted first."""
        self.workloads = [each for each in self.workloads if (each.namespace, each.name) != (namespace, name)]
        version = next(self._versions)
        made = FakeWorkload(namespace, name, 0, f"uid-{version}", version, **more)
        made.write(replicas, "kubectl-create")
        self.workloads.append(made)
        self._control(at_once=True)
        return made

    def scale(self, workload: FakeWorkload, replicas: int, manager: str = "kubectl") -> None:
        """Let somebody else change the number of pods."""
        workload.write(replicas, manager, subresource="scale")
        self.touch(workload)

    def touch(self, workload: FakeWorkload) -> None:
        """Let the object change, in whatever way."""
        workload.version = next(self._versions)

    @contextmanager
    def serving(self) -> Iterator[StubServer]:
        """Answer until the block is left."""
        with answering(self._answer) as server:
            yield server

    # Requests

    def _answer(self, asked: StubRequest) -> StubResponse:
        self.before(asked)
        try:
            if self.is_away:
                raise _Answered(503, "ServiceUnavailable", "etcdserver: leader changed")
            if self.asks_token and asked.headers.get("Authorization") != f"Bearer {TOKEN}":
                raise _Answered(401, "Unauthorized", "Unauthorized")
            self._control()
            return StubResponse(200, json.dumps(_checked(self._handled(asked))).encode())
        except (_Answered, _UnknownGroup) as answered:
            return answered.given

    def _handled(self, asked: StubRequest) -> Document:
        parts = urlsplit(asked.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        found = _PATH.fullmatch(parts.path)
        if parts.path in _DISCOVERY:
            return _DISCOVERY[parts.path]
        if parts.path == _REVIEWS and asked.method == "POST":
            return self._review(json.loads(asked.body))
        if found is None:
            raise _Answered(404, "NotFound", "the server could not find the requested resource")
        api, namespace, resource, name, sub = found["api"], found["ns"], found["res"], found["name"], found["sub"]
        verb = {"PUT": "update", "PATCH": "patch", "POST": "create"}.get(asked.method, "get" if name else "list")
        self._authorize(verb, api, resource + (f"/{sub}" if sub else ""), name, namespace)
        if asked.method == "POST":
            return self._create_event(json.loads(asked.body), namespace)
        if name is None:
            return self._page(api, resource, self._listed(api, resource, namespace, query), query)
        if (path := parts.path.removesuffix("/status")) in self.objects:
            return self._custom(self.objects[path], asked, query, part="status" if path != parts.path else "spec")
        workload = next(
            (w for w in self.workloads if (w.api, w.resource, w.namespace, w.name) == (api, resource, namespace, name)), None
        )
        if workload is None:
            raise _Answered(404, "NotFound", f'{resource}{_of(api)} "{name}" not found')
        if sub is None:
            return workload.document(self.now_ms)
        return workload.scale() if asked.method == "GET" else self._put(workload, asked, query)

    def _authorize(self, verb: str, api: str, resource: str, name: str | None, namespace: str) -> None:
        group = api.rpartition("/")[0]
        self.used.add((group, resource, verb))
        if self.rules is not None and (group, resource, verb) not in self.rules:
            plain, named = resource.partition("/")[0], f' "{name}"' if name else ""
            raise _Answered(
                403,
                "Forbidden",
                f'{plain}{_of(api)}{named} is forbidden: User "{ACCOUNT}" cannot {verb} resource "{resource}" '
                f'in API group "{group}" in the namespace "{namespace}"',
            )

    def _review(self, asked: Document) -> Document:
        """Say whether the account has a right, as every account may ask of itself."""
        check(asked)
        right = asked["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (right["resource"], right.get("subresource"))))
        rule = (right.get("group", ""), resource, right["verb"])
        return asked | {"metadata": {}, "status": {"allowed": self.rules is None or rule in self.rules}}

    def _put(self, workload: FakeWorkload, asked: StubRequest, query: dict[str, str]) -> Document:
        body: Document = json.loads(asked.body)
        check(body)
        meta = body["metadata"]
        if (meta["name"], meta["namespace"]) != (workload.name, workload.namespace):
            raise _Answered(400, "BadRequest", "the name of the object does not match the name on the URL")
        if meta.get("resourceVersion", str(workload.version)) != str(workload.version):
            raise _conflict(workload.resource, workload.api, workload.name)
        replicas = body["spec"].get("replicas", 0)
        self.scale(workload, replicas, query.get("fieldManager") or asked.headers["User-Agent"].partition("/")[0])
        self.puts.append((workload.name, replicas))
        self._control()
        return workload.scale()

    def _create_event(self, event: Document, namespace: str) -> Document:
        check(event)
        name = event["metadata"]["name"]
        if event["metadata"]["namespace"] != namespace or event["involvedObject"]["namespace"] != namespace:
            raise _Answered(422, "Invalid", f'Event "{name}" is invalid: involvedObject.namespace: does not match')
        if any(each["metadata"] == event["metadata"] for each in self.events):
            raise _Answered(409, "AlreadyExists", f'events "{name}" already exists')
        self.events.append(event)
        return event

    def _custom(self, found: FakeObject, asked: StubRequest, query: dict[str, str], *, part: str) -> Document:
        if asked.method == "GET":
            return found.document
        assert asked.headers["Content-Type"] == "application/merge-patch+json"
        change: Document = json.loads(asked.body)
        meta = found.document["metadata"]
        if change.pop("metadata", {}).get("resourceVersion", meta["resourceVersion"]) != meta["resourceVersion"]:
            raise _conflict(found.resource, found.document["apiVersion"], meta["name"])
        if part == "status":
            change = {name: value for name, value in change.items() if name == "status"}
        found.merge(change, query["fieldManager"])
        return found.document

    def _listed(self, api: str, resource: str, namespace: str, query: dict[str, str]) -> list[Document]:
        mine = [each for each in self.workloads if each.namespace == namespace]
        if (api, resource) == ("v1", "pods"):
            name = query["labelSelector"].removeprefix("app=")
            return [pod.document(namespace, w.labels, self.now_ms) for w in mine if w.name == name for pod in w.pods]
        if (api, resource) == ("v1", "events"):
            said = dict(each.split("=") for each in query["fieldSelector"].split(","))
            assert said["reason"] == "FailedCreate"
            silent = [w for w in mine if w.failure and w.kind != "Deployment"]
            return [event for w in silent if w.uid == said["involvedObject.uid"] for event in w.events()]
        if (api, resource) == ("autoscaling/v2", "horizontalpodautoscalers"):
            return [each for each in self.autoscalers if each["metadata"]["namespace"] == namespace]
        if (api, resource) == ("keda.sh/v1alpha1", "scaledobjects") and self.has_keda:
            return [each for each in self.scaled_objects if each["metadata"]["namespace"] == namespace]
        if api in self.definitions:
            folder = f"/apis/{api}/namespaces/{namespace}/{resource}"
            return [each.document for path, each in self.objects.items() if path.rpartition("/")[0] == folder]
        raise _UnknownGroup

    def _page(self, api: str, resource: str, items: list[Document], query: dict[str, str]) -> Document:
        begin = int(query.get("continue", "0"))
        end = begin + min(self.page_items, int(query["limit"]))
        meta = {"resourceVersion": "1"} | ({"continue": str(end)} if end < len(items) else {})
        kind = _KINDS.get(resource) or next((each["kind"] for each in items), "Custom")
        return {"kind": f"{kind}List", "apiVersion": api, "metadata": meta, "items": items[begin:end]}

    # Controllers, scheduler, kubelets

    def _control(self, *, at_once: bool = False) -> None:
        """Do what the cluster has done by now. ``at_once``: pods have been running for long."""
        for workload in self.workloads:
            before = [(pod.name, pod.placed_ms, pod.ends_ms) for pod in workload.pods]
            self._reap(workload)
            self._create(workload)
            if [(pod.name, pod.placed_ms, pod.ends_ms) for pod in workload.pods] != before:
                self.touch(workload)
        waiting = [pod for workload in self.workloads for pod in workload.pods if pod.placed_ms is None]
        placed = sum(pod.placed_ms is not None for workload in self.workloads for pod in workload.pods)
        for pod in sorted(waiting, key=lambda pod: pod.created_ms)[: max(0, self.slots - placed)]:
            pod.placed_ms = 0 if at_once else self.now_ms

    def _reap(self, workload: FakeWorkload) -> None:
        """End pods that are too many: those without a node at once and first, the others when they have drained."""
        workload.pods = [pod for pod in workload.pods if pod.ends_ms is None or pod.ends_ms > self.now_ms]
        living = [pod for pod in workload.pods if pod.ends_ms is None]
        living.sort(key=lambda pod: (pod.placed_ms is None, not pod.is_ready(self.now_ms), pod.created_ms), reverse=True)
        for pod in living[: max(0, len(living) - workload.replicas)]:
            pod.ends_ms = self.now_ms + DRAIN_MS
            if pod.placed_ms is None:
                workload.pods.remove(pod)

    def _create(self, workload: FakeWorkload) -> None:
        workload.failure = ""
        while sum(pod.ends_ms is None for pod in workload.pods) < workload.replicas:
            used = sum(len(each.pods) for each in self.workloads if each.namespace == workload.namespace)
            name = f"{workload.name}-{workload.made}"
            if used >= self.quota:
                workload.failure = (
                    f'pods "{name}" is forbidden: exceeded quota: compute, requested: pods=1, used: pods={used}, '
                    f"limited: pods={self.quota}"
                )
                return
            workload.made += 1
            workload.pods.append(FakePod(name, self.now_ms, ill=workload.ill))


def _conflict(resource: str, api: str, name: str) -> _Answered:
    return _Answered(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {resource}{_of(api)} "{name}": the object has been modified; please apply your '
        "changes to the latest version and try again",
    )


def rules_of(role: Document) -> frozenset[Rule]:
    """Return what a role of the manifests allows."""
    return frozenset(
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def autoscaler(name: str, workload: FakeWorkload, owners: Iterable[Document] = ()) -> Document:
    """Return a HorizontalPodAutoscaler of a workload."""
    ref = {"apiVersion": workload.api, "kind": workload.kind, "name": workload.name}
    meta = {"name": name, "namespace": workload.namespace, "ownerReferences": list(owners)}
    return {"metadata": meta, "spec": {"scaleTargetRef": ref, "minReplicas": 1, "maxReplicas": 9}}


def owner(kind: str, name: str, api: str = "example.org/v1") -> Document:
    """Return a reference to the object that another belongs to."""
    return {"apiVersion": api, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def _checked(document: Document) -> Document:
    if not _NO_SCHEMA.match(document["apiVersion"]):
        check(document)
    return document


def _of(api: str) -> str:
    group = api.rpartition("/")[0]
    return f".{group}" if group else ""
