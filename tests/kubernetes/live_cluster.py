"""A real control plane on this machine: etcd, the API server, the controllers and the scheduler. Only the node is played.

with LiveCluster(folder, binaries) as cluster:
    cluster.kubectl("create", "deployment", "parse", "--image=worker", "--replicas=2")
    cluster.token("surescale", "surescale-rescaler")   # a real token of a service account

There is no kubelet and no container: `Node` says what one would say of the pods that the scheduler gives it, and lets those go
that are asked to end. Everything else (rights, admission, quotas, resource versions, field managers, roll-outs) is Kubernetes.
"""

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Self, cast

from surescale.runtime.http import NoAnswer
from surescale.runtime.http_pool import ConnectionPool
from surescale.runtime.kafka_security import client_context
from surescale.runtime.ports import LOOPBACK, free_port
from surescale.services.local_stack.servers import LocalServer
from tests.support.waiting import PATIENT_S, wait_until

Document = dict[str, Any]
BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "helm")
ADMIN_TOKEN = "admin-of-this-test"
NODE = "node-1"
PODS_OF_THE_NODE = 100
VOLUMES = 32
CONTROLLERS = (
    "daemonset-controller,deployment-controller,disruption-controller,endpointslice-controller,garbage-collector-controller,"
    "horizontal-pod-autoscaler-controller,namespace-controller,replicaset-controller,resourcequota-controller,"
    "serviceaccount-controller,statefulset-controller,persistentvolume-binder-controller"
)
"""Not those that judge nodes: nobody renews the lease of ours."""
_TIMEOUT_S = 30.0
_LOOK_S = 0.1
_START_S = 0.7
"""A pod takes this long to start, so that nobody sees a request carried out as soon as it is made."""


class ControlPlaneServer(LocalServer):
    """One binary of the control plane."""

    stop_grace_s = 10.0

    def __init__(self, name: str, binary: Path, folder: Path, port: int, *words: str, answers_at: str) -> None:
        super().__init__(folder, port)
        self.name, self._words, self._binary = name, words, binary
        self._answers = ConnectionPool(answers_at)
        self._path = "/health" if name == "etcd" else "/healthz"

    def prepare(self) -> None:
        """Have a folder and a free port."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._require_free(self.port)

    def command(self) -> list[str]:
        """Run it."""
        return [str(self._binary), *self._words]

    def answers(self) -> bool:
        """Ask for its health."""
        try:
            return self._answers.ask("GET", self._path, timeout_s=2.0).status == 200
        except NoAnswer:
            return False


class ApiServer(ControlPlaneServer):
    """It makes its own certificate, so it can be asked only once it has started."""

    def answers(self) -> bool:
        """Ask whether all its hooks have run."""
        certificate = self.folder / "apiserver.crt"
        if not certificate.is_file():
            return False
        connections = ConnectionPool(f"https://{self.address}", client_context(str(certificate), "", "", settings="test"))
        try:
            return connections.ask("GET", "/readyz", headers=_bearer(ADMIN_TOKEN), timeout_s=2.0).status == 200
        except NoAnswer:
            return False
        finally:
            connections.close()


class Refused(Exception):
    """The API server answered something else than success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class HelmFailed(Exception):
    """Helm ended with an error."""


class LiveCluster:
    """Started with a `with`; everything of it lies in a folder."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.folder, self._binaries = folder, binaries
        self._started: list[ControlPlaneServer] = []

    def __enter__(self) -> Self:
        """Start everything and wait until a pod can be scheduled."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop everything, the last one first."""
        if hasattr(self, "node"):
            self.node.stop()
        for server in reversed(self._started):
            server.stop()

    @property
    def url(self) -> str:
        """Of the API server."""
        return f"https://{self.api_server.address}"

    @property
    def ca_file(self) -> Path:
        """Whose signature the API server's certificate has."""
        return self.api_server.folder / "apiserver.crt"

    def ask(self, method: str, path: str, document: Document | None = None, content: str = "application/json") -> Document:
        """Ask as the administrator.

        Raises:
            Refused: any other answer than success.
        """
        body = None if document is None else json.dumps(document).encode()
        answer = self._admin.ask(method, path, body, _bearer(ADMIN_TOKEN) | {"Content-Type": content}, timeout_s=_TIMEOUT_S)
        read = cast(Document, json.loads(answer.body))
        if answer.status >= 300:
            raise Refused(answer.status, read.get("message", answer.reason))
        return read

    def merge(self, path: str, change: Document) -> Document:
        """Change an object by a merge patch."""
        return self.ask("PATCH", path, change, "application/merge-patch+json")

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Run kubectl as the administrator; it must succeed."""
        done = subprocess.run(
            [self._binaries / "kubectl", f"--kubeconfig={self.kubeconfig}", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def helm(self, *words: str) -> str:
        """Run helm.

        Raises:
            HelmFailed: with what it said.
        """
        command = [str(self._binaries / "helm"), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise HelmFailed(done.stderr)
        return done.stdout

    def token(self, namespace: str, account: str) -> str:
        """Return a token of a service account, as a pod would get it."""
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        return cast(str, self.ask("POST", path, asked)["status"]["token"])

    def namespace(self, name: str) -> None:
        """Make a namespace in which pods may be created."""
        self.ask("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_until(lambda: self.is_there(account), what=f"the default account of {name}")

    def is_there(self, path: str) -> bool:
        """Say whether there is such an object."""
        try:
            self.ask("GET", path)
        except Refused as refused:
            if refused.status == 404:
                return False
            raise
        return True

    def _start(self) -> None:
        etcd, api = free_port(), free_port()
        self._keys()
        (self.folder / "tokens.csv").write_text(f'{ADMIN_TOKEN},admin,1,"system:masters"\n')
        peers = f"http://{LOOPBACK}:{free_port()}"
        self._run(
            ControlPlaneServer,
            "etcd",
            etcd,
            f"--data-dir={self.folder / 'etcd-data'}",
            f"--listen-client-urls=http://{LOOPBACK}:{etcd}",
            f"--advertise-client-urls=http://{LOOPBACK}:{etcd}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            answers_at=f"http://{LOOPBACK}:{etcd}",
        )
        self.api_server = self._run(
            ApiServer,
            "kube-apiserver",
            api,
            f"--etcd-servers=http://{LOOPBACK}:{etcd}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={api}",
            f"--cert-dir={self.folder / 'kube-apiserver'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'accounts.pub'}",
            f"--service-account-signing-key-file={self.folder / 'accounts.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            answers_at=f"https://{LOOPBACK}:{api}",
        )
        self._admin = ConnectionPool(self.url, client_context(str(self.ca_file), "", "", settings="test"))
        self.kubeconfig = self.folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(self._kubeconfig()))
        for name, words in (
            (
                "kube-controller-manager",
                [f"--service-account-private-key-file={self.folder / 'accounts.key'}", f"--controllers={CONTROLLERS}"],
            ),
            ("kube-scheduler", []),
        ):
            port = free_port()
            common = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", f"--secure-port={port}"]
            self._run(_Secure, name, port, *common, *words, answers_at=f"https://{LOOPBACK}:{port}")
        self.node = Node(self)
        for number in range(VOLUMES):
            spec = {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/nowhere"}}
            volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"volume-{number}"}, "spec": spec}
            self.ask("POST", "/api/v1/persistentvolumes", volume)

    def _run(self, kind: type[ControlPlaneServer], name: str, port: int, *words: str, answers_at: str) -> ControlPlaneServer:
        server = kind(name, self._binaries / name, self.folder / name, port, *words, answers_at=answers_at)
        server.start()
        self._started.append(server)
        server.wait_ready()
        return server

    def _keys(self) -> None:
        """Make the keys that the accounts' tokens are signed with."""
        for words in (
            ("genrsa", "-out", "accounts.key", "2048"),
            ("rsa", "-in", "accounts.key", "-pubout", "-out", "accounts.pub"),
        ):
            subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def _kubeconfig(self) -> Document:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)}}],
            "users": [{"name": "admin", "user": {"token": ADMIN_TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "current-context": "test",
        }


class _Secure(ControlPlaneServer):
    """Controllers and scheduler show their health to everybody, under certificates that they sign themselves."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        context = client_context("", "", "", settings="test")
        context.check_hostname = False
        context.verify_mode = 0
        self._answers = ConnectionPool(more["answers_at"], context)


class Node:
    """What a kubelet would say of its pods: all of them run, but those that a test wants ill.

    Attributes:
        ill: the state of the containers (as in ``containerStatuses[].state``) of pods whose name begins so.
        well: names of pods that are well all the same.
        is_draining_slowly: pods that are asked to end do not go yet.
    """

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster
        self.ill: dict[str, Document] = {}
        self.well: set[str] = set()
        self.is_draining_slowly = False
        self._seen_s: dict[str, float] = {}
        self._stop = threading.Event()
        cluster.ask("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        room = {"cpu": "64", "memory": "256Gi", "pods": str(PODS_OF_THE_NODE)}
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        cluster.merge(f"/api/v1/nodes/{NODE}/status", {"status": {"capacity": room, "allocatable": room, "conditions": ready}})
        cluster.merge(f"/api/v1/nodes/{NODE}", {"spec": {"taints": None}})  # a node begins as not ready; a controller would see
        self._thread = threading.Thread(target=self._tend, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Say nothing more."""
        self._stop.set()
        self._thread.join()

    def _tend(self) -> None:
        while not self._stop.wait(_LOOK_S):
            try:
                for pod in self._cluster.ask("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{NODE}")["items"]:
                    self._tend_one(pod)
            except (Refused, NoAnswer):
                continue  # somebody else was faster, or the server is just starting or ending

    def _tend_one(self, pod: Document) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if "deletionTimestamp" in meta:
            if not self.is_draining_slowly:
                self._cluster.ask("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
            return
        began_s = self._seen_s.setdefault(meta["uid"], time.monotonic())
        if time.monotonic() - began_s < _START_S:
            return
        states = [state for name, state in self.ill.items() if meta["name"].startswith(name) and meta["name"] not in self.well]
        state = states[0] if states else {"running": {}}
        is_ready = "running" in state
        shown = pod["status"].get("containerStatuses", [{}])[0].get("state", {})
        if shown.keys() == state.keys():
            return
        containers = [
            {"name": each["name"], "image": each["image"], "imageID": "", "ready": is_ready, "restartCount": 0, "state": state}
            for each in pod["spec"]["containers"]
        ]
        conditions = [{"type": kind, "status": str(is_ready)} for kind in ("Ready", "ContainersReady")]
        phase = "Running" if is_ready else "Pending"
        status = {"phase": phase, "conditions": conditions, "containerStatuses": containers}
        self._cluster.ask("PATCH", f"{path}/status", {"status": status}, "application/strategic-merge-patch+json")


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
