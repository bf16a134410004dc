"""A custom resource as an API server keeps it: a merge patch changes it, versions grow, who wrote which field is noted."""

from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Any

Document = dict[str, Any]
_VERSIONS = count(1)


@dataclass(slots=True)
class FakeObject:
    """One object.

    Attributes:
        path: of the API.
        document: as the API shows it.
        changes: every merge patch that was accepted, with its writer.
    """

    path: str
    document: Document
    changes: list[tuple[str, Document]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Note who created it: ``kubectl create``, with all its fields."""
        meta = self.document["metadata"]
        meta |= {"uid": f"uid-{next(_VERSIONS)}", "generation": 1, "resourceVersion": str(next(_VERSIONS)), "managedFields": []}
        self._own("kubectl-create", {"spec": self.document["spec"]}, "Update")

    @property
    def resource(self) -> str:
        """The plural of its kind."""
        return self.path.rpartition("/")[0].rpartition("/")[2]

    def merge(self, change: Document, manager: str, operation: str = "Update") -> None:
        """Change some fields, as anybody may who has the right."""
        before = deepcopy(self.document["spec"])
        _merge(self.document, change)
        meta = self.document["metadata"]
        meta["resourceVersion"] = str(next(_VERSIONS))
        if self.document["spec"] != before:
            meta["generation"] += 1
        self._own(manager, change, operation)
        self.changes.append((manager, change))

    def say(self, status: Document) -> None:
        """Write its status, which is no change of what is asked for."""
        self.document["status"] = status
        self.document["metadata"]["resourceVersion"] = str(next(_VERSIONS))

    def _own(self, manager: str, change: Document, operation: str) -> None:
        """Note the fields of a change as this writer's, and no longer as anybody else's who only updated them."""
        entries: list[Document] = self.document["metadata"]["managedFields"]
        fields = _fields({key: value for key, value in change.items() if key == "spec"})
        for entry in entries:
            if (entry["manager"], entry["operation"]) != (manager, operation):
                _remove(entry["fieldsV1"], fields)
        found = next((each for each in entries if (each["manager"], each["operation"]) == (manager, operation)), None)
        if found is None:
            found = {"manager": manager, "operation": operation, "apiVersion": self.document["apiVersion"], "fieldsV1": {}}
            entries.append(found)
        _merge(found["fieldsV1"], fields)


def _merge(document: Document, change: Document) -> None:
    for name, value in change.items():
        if value is None:
            document.pop(name, None)
        elif isinstance(value, dict):
            if not isinstance(document.get(name), dict):
                document[name] = {}
            _merge(document[name], value)
        else:
            document[name] = value


def _fields(document: Document) -> Document:
    return {f"f:{name}": _fields(value) if isinstance(value, dict) else {} for name, value in document.items()}


def _remove(fields: Document, taken: Document) -> None:
    for name, below in taken.items():
        if name not in fields:
            continue
        if below:
            _remove(fields[name], below)
        if not below or not fields[name]:
            del fields[name]
