"""Client of a Kubernetes API server: the requests that actuator, monitor and state service make, and no other.

All of them are of the stable API (``autoscaling/v1`` for scales, ``autoscaling/v2``, ``v1``), the same from Kubernetes 1.23 on.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from surescale.contracts.addresses import without_password
from surescale.contracts.errors import UNREADABLE, SettingsError
from surescale.contracts.wire import decoder
from surescale.engines.kubernetes import KubernetesSettings
from surescale.engines.kubernetes.answers import Autoscaler, Event, Page, Pod, Review, Scale, Workload
from surescale.engines.kubernetes.errors import ApiUnavailable, NotAuthenticated, NotFound, not_kubernetes, problem_of
from surescale.engines.kubernetes.target import Target, namespaced
from surescale.runtime.access import Access, TokenUnreadable
from surescale.runtime.http import LARGE, NoAnswer
from surescale.runtime.http_pool import ConnectionPool

T = TypeVar("T")

FIELD_MANAGER = "surescale"
"""Our name as a writer of fields."""
ANSWER_TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 32 * 2**20
PAGE_ITEMS, PAGE_ITEMS_LARGE = 250, 16
"""Of a page; the latter where a page of the former is more than an answer may be: an object has at most 1.5 MB."""
PAGES_MAX = 80
IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds the token of its account and the authorities of the API server."""
_SETTINGS = "SURESCALE_KUBERNETES"


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one kind of object in a namespace. ``name``: of the only object; empty: all of that kind."""

    verb: str
    group: str
    resource: str
    namespace: str
    subresource: str = ""
    name: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {kind}{f'.{self.group}' if self.group else ''}"


def rights_for(target: Target) -> tuple[Right, ...]:
    """Return what the rescaler's account needs to scale a workload, and to say why pods are missing."""
    here, group, resource, name = target.namespace, target.group, target.resource, target.name
    return (
        Right("get", group, resource, here, "scale", name),
        Right("update", group, resource, here, "scale", name),
        Right("get", group, resource, here, "", name),
        Right("list", "autoscaling", "horizontalpodautoscalers", here),
        Right("list", "keda.sh", "scaledobjects", here),
        Right("list", "", "pods", here),
        Right("list", "", "events", here),
    )


class KubernetesClient:
    """One API server. Thread-safe. Every method may raise each ``KubernetesError``."""

    def __init__(self, url: str, access: Access | None = None, *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Connect to nothing yet.

        Args:
            url: address of the API server, or of a proxy before it.
            access: token and authorities.
            timeout_s: how long a whole answer may take.

        Raises:
            SettingsError: the authorities' file cannot be used.
        """
        self._access = access or Access()
        self._url, self._timeout_s = without_password(url.rstrip("/")), timeout_s
        self._connections = ConnectionPool(url, self._access.context() if url.lower().startswith("https") else None)

    def close(self) -> None:
        """Close the kept connections."""
        self._connections.close()

    def scale(self, target: Target) -> Scale:
        """Return how many pods are wanted, and the state of the object that says so.

        Raises:
            NotFound: there is no such object, or it has no scale subresource.
        """
        return self._call("GET", f"{target.path}/scale", Scale)

    def set_scale(self, target: Target, read: Scale, replicas: int) -> Scale:
        """Ask for so many pods, if the object is still as it was read.

        Raises:
            Conflict: it is not; nothing was changed.
        """
        body = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {
                "name": target.name,
                "namespace": target.namespace,
                "resourceVersion": read.metadata.resource_version,
            },
            "spec": {"replicas": replicas},
        }
        path = f"{target.path}/scale?{urlencode({'fieldManager': FIELD_MANAGER})}"
        return self._call("PUT", path, Scale, msgspec.json.encode(body))

    def workload(self, target: Target) -> Workload:
        """Return the object itself, with who wrote what of it."""
        return self._call("GET", target.path, Workload)

    def read(self, path: str, kind: type[T]) -> T:
        """Return any object, as far as ``kind`` says what is read of it."""
        return self._call("GET", path, kind)

    def patch(self, path: str, change: Mapping[str, Any], resource_version: str, kind: type[T]) -> T:
        """Change some fields of an object (a JSON merge patch), if it is still as it was read.

        Raises:
            Conflict: it is not; nothing was changed.
        """
        body = {**change, "metadata": {"resourceVersion": resource_version}}
        path = f"{path}?{urlencode({'fieldManager': FIELD_MANAGER})}"
        return self._call("PATCH", path, kind, msgspec.json.encode(body), content="application/merge-patch+json")

    def create(self, path: str, document: Mapping[str, Any], kind: type[T]) -> T:
        """Create an object among those of a path.

        Raises:
            Conflict: there is one of that name.
        """
        return self._call("POST", f"{path}?{urlencode({'fieldManager': FIELD_MANAGER})}", kind, msgspec.json.encode(document))

    def objects(self, path: str, kind: type[T]) -> list[T]:
        """Return all objects of a path, as far as ``kind`` says what is read of each."""
        return list(self._pages(path, {}, Page[kind]))  # type: ignore[valid-type]

    def pods(self, namespace: str, selector: str) -> list[Pod]:
        """Return the pods that a selector finds."""
        query = {"labelSelector": selector}
        return list(self._pages(namespaced("v1", namespace) + "/pods", query, Page[Pod]))

    def failures_to_create(self, namespace: str, uid: str) -> list[Event]:
        """Return what a controller has said lately about pods of an object that it could not create, in no order."""
        query = {"fieldSelector": f"involvedObject.uid={uid},reason=FailedCreate"}
        return list(self._pages(namespaced("v1", namespace) + "/events", query, Page[Event]))

    def autoscalers(self, namespace: str) -> list[Autoscaler]:
        """Return the HorizontalPodAutoscalers."""
        return list(self._pages(namespaced("autoscaling/v2", namespace) + "/horizontalpodautoscalers", {}, Page[Autoscaler]))

    def scaled_objects(self, namespace: str) -> list[Autoscaler]:
        """Return the ScaledObjects; none where KEDA is not installed."""
        try:
            return list(self._pages(namespaced("keda.sh/v1alpha1", namespace) + "/scaledobjects", {}, Page[Autoscaler]))
        except NotFound:
            return []

    def may(self, right: Right) -> bool:
        """Return whether the account that asks has a right. Every account may ask this of itself; nothing is changed."""
        attributes = {
            "verb": right.verb,
            "group": right.group,
            "resource": right.resource,
            "subresource": right.subresource,
            "name": right.name,
            "namespace": right.namespace,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return self._call("POST", path, Review, msgspec.json.encode(body)).status.allowed

    def _pages(self, path: str, query: dict[str, str], kind: type[Page[Any]]) -> Iterator[Any]:
        """Yield the objects of a list, page by page."""
        further, limit = dict(query), PAGE_ITEMS
        for _ in range(PAGES_MAX):
            try:
                page = self._call("GET", f"{path}?{urlencode(further | {'limit': str(limit)}, quote_via=quote)}", kind)
            except ApiUnavailable:
                if limit == PAGE_ITEMS_LARGE:
                    raise
                limit = PAGE_ITEMS_LARGE
                continue
            yield from page.items or ()
            if not page.metadata.continue_:
                return
            further = query | {"continue": page.metadata.continue_}
        raise ApiUnavailable(f"GET {self._url}{path}: more than {PAGES_MAX * limit} objects; choose another target")

    def _call(self, method: str, path: str, kind: type[T], body: bytes | None = None, *, content: str = "application/json") -> T:
        request = f"{method} {self._url}{path.partition('?')[0]}"
        with LARGE.reading(self._timeout_s) as place:
            try:
                headers = {"Accept": "application/json"} | self._access.headers()
                if body is not None:
                    headers["Content-Type"] = content
                answer = self._connections.ask(
                    method, path, body, headers, timeout_s=self._timeout_s, bytes_max=ANSWER_BYTES_MAX, place=place
                )
            except TokenUnreadable as error:
                raise NotAuthenticated(str(error)) from None
            except NoAnswer as error:
                raise ApiUnavailable(f"{request}: {error}") from None
            if answer.status >= 300:
                raise problem_of(answer, request)
            try:
                return decoder(kind).decode(answer.body)
            except UNREADABLE:
                raise not_kubernetes(answer, request) from None


def client_of(
    own: KubernetesSettings,
    *,
    timeout_s: float = ANSWER_TIMEOUT_S,
    environment: Mapping[str, str] = os.environ,
    in_pod: Path = IN_POD,
) -> KubernetesClient:
    """Return the client that a role's settings name; nothing is asked yet.

    Args:
        own: of the role.
        timeout_s: how long a whole answer may take.
        environment: in which a pod finds the address.
        in_pod: folder in which it finds the rest.

    Raises:
        SettingsError: no address is set and this is no pod, or the authorities' file cannot be used.
    """
    url, token_file, ca_file = own.kubernetes_url, own.kubernetes_token_file, own.kubernetes_ca_file
    if not url:
        url = _url_in_pod(environment)
        token_file, ca_file = token_file or str(in_pod / "token"), ca_file or str(in_pod / "ca.crt")
    return KubernetesClient(url, Access(token_file=token_file, ca_file=ca_file, settings=_SETTINGS), timeout_s=timeout_s)


def _url_in_pod(environment: Mapping[str, str]) -> str:
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise SettingsError(
            "SURESCALE_KUBERNETES_URL: not set, and this is not a pod of a cluster; "
            "set the address of the API server, or http://127.0.0.1:8001 with `kubectl proxy`"
        )
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"
