"""A cluster's API, as far as Spark needs it to have executors: a pod that is created becomes a process of this machine.

What the pod's container says is what runs: its arguments with its environment and nothing of ours but the search path. What a
kubelet checks (images, security, volumes) is not checked.
"""

import json
import re
import subprocess
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.support.http_server import Handler

Document = dict[str, Any]

NAMESPACE = "surescale"
_WATCH_S = 1.0
_FIELDS = {"status.podIP": "127.0.0.1"}


class KubernetesStub:
    """Serves one namespace; ``search_path`` is where a container's command is looked for."""

    def __init__(self, folder: Path, search_path: str) -> None:
        self.pods: dict[str, Document] = {}
        self.config_maps: dict[str, Document] = {}
        self.asked: list[tuple[str, str]] = []
        """Verb and resource of every request, as a role's rule names them."""
        self._folder, self._search_path = folder, search_path
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for process in self._processes.values():
            process.kill()
            process.wait()

    @property
    def url(self) -> str:
        """Where the API is."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def add_driver(self, name: str) -> None:
        """Have a pod that runs already."""
        meta = {"name": name, "namespace": NAMESPACE, "uid": "driver-uid"}
        self.pods[name] = {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {}, "status": _running(True)}

    def executors(self) -> list[Document]:
        """Return the pods that were created and run."""
        with self._lock:
            return [self.pods[name] for name, process in sorted(self._processes.items()) if process.poll() is None]

    def kill(self, pod: Document) -> None:
        """Have a pod's container end; the pod stays, failed."""
        self._processes[pod["metadata"]["name"]].kill()

    def log(self) -> str:
        """Return what all containers have said."""
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("*.log")))

    def create(self, kind: str, document: Document) -> Document:
        """Keep an object; start what a pod's container says."""
        meta = document["metadata"]
        meta |= {"namespace": NAMESPACE, "uid": f"uid-{meta['name']}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        with self._lock:
            if kind != "pods":
                self.config_maps[meta["name"]] = document
                return document
            self._processes[meta["name"]] = self._start(document)
            self.pods[meta["name"]] = document
        return self.seen(document)

    def seen(self, pod: Document) -> Document:
        """Return a pod with the state of its process."""
        process = self._processes.get(pod["metadata"]["name"])
        return pod if process is None else pod | {"status": _running(process.poll() is None)}

    def remove(self, names: list[str]) -> None:
        """End the processes of pods."""
        with self._lock:
            for name in names:
                self.pods.pop(name, None)
                if (process := self._processes.pop(name, None)) is not None:
                    process.kill()
                    process.wait()

    def _start(self, pod: Document) -> "subprocess.Popen[bytes]":
        (container,) = pod["spec"]["containers"]
        environment = {each["name"]: _value(each, pod) for each in container["env"]}
        work = self._folder / pod["metadata"]["name"]
        work.mkdir()
        with (self._folder / f"{pod['metadata']['name']}.log").open("wb") as log:
            # The settings are mounted there and the local folders are volumes; a process has them elsewhere.
            replaced = {"PATH": self._search_path, "SPARK_CONF_DIR": str(work), "SPARK_LOCAL_DIRS": str(work)}
            command = [*container.get("command", []), *container["args"]]
            found = next(path for folder in self._search_path.split(":") if (path := Path(folder, command[0])).exists())
            return subprocess.Popen([found, *command[1:]], env=environment | replaced, cwd=work, stdout=log, stderr=log)


def _value(variable: Document, pod: Document) -> str:
    field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    return str(variable.get("value", "")) if field is None else _FIELDS.get(field, pod["metadata"]["name"])


def _running(is_running: bool) -> Document:
    state = {"running": {}} if is_running else {"terminated": {"exitCode": 1}}
    return {
        "phase": "Running" if is_running else "Failed",
        "podIP": "127.0.0.1",
        "conditions": [{"type": "Ready", "status": str(is_running)}],
        "containerStatuses": [
            {"name": "executor", "ready": is_running, "restartCount": 0, "image": "", "imageID": "", "state": state}
        ],
    }


def _matches(pod: Document, selector: str) -> bool:
    labels = pod["metadata"].get("labels", {})
    for name, negation, values in re.findall(r"([\w./-]+)(?: (not)?in |=)\(?([^()]*?)\)?(?:,(?=[\w./-]+[ =])|$)", selector):
        if (labels.get(name) in values.split(",")) == bool(negation):
            return False
    return True


def _handler(cluster: KubernetesStub) -> type[Handler]:
    class Api(Handler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            kind, _, _ = self._asked("create")
            self._answer(201, cluster.create(kind, json.loads(self.body())))

        def do_GET(self) -> None:
            kind, name, query = self._asked("get")
            if "watch" in query:
                self._watch()
            elif name:
                known = cluster.pods.get(name)
                self._answer(200, cluster.seen(known)) if known else self._answer(404, _status(404))
            else:
                items = [
                    cluster.seen(pod) for pod in list(cluster.pods.values()) if _matches(pod, query.get("labelSelector", ""))
                ]
                self._answer(200, {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items if kind == "pods" else []})

        def do_PATCH(self) -> None:
            _, name, _ = self._asked("patch")
            for each in (pod for pod in list(cluster.pods.values()) if pod["metadata"]["name"] == name):
                self.body()
                self._answer(200, cluster.seen(each))
                return
            self._answer(404, _status(404))

        def do_DELETE(self) -> None:
            kind, name, query = self._asked("delete")
            self.body()
            if kind == "pods":
                matching = [key for key, pod in list(cluster.pods.items()) if _matches(pod, query.get("labelSelector", ""))]
                cluster.remove([name] if name else matching)
            self._answer(200, _status(200))

        def _asked(self, verb: str) -> tuple[str, str, dict[str, str]]:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            found = re.fullmatch(rf"/api/v1/namespaces/{NAMESPACE}/(\w+)(?:/([\w.-]+))?", parts.path)
            kind, name = (found[1], found[2] or "") if found else (parts.path, "")
            many = {"get": "list", "delete": "deletecollection"}
            cluster.asked.append(("watch" if "watch" in query else verb if name else many.get(verb, verb), kind))
            return kind, name, query

        def _watch(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            time.sleep(_WATCH_S)  # nothing happens in this time, then the stream ends, as it does now and then
            self.close_connection = True

        def _answer(self, status: int, document: Document) -> None:
            self.reply(status, json.dumps(document).encode())

    return Api


def _status(code: int) -> Document:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Success" if code < 400 else "Failure",
        "code": code,
        "message": "",
        "reason": "",
    }
