"""What a task is scaled by: an object of the cluster that has a scale subresource."""

from typing import Annotated

import msgspec
from msgspec import Meta

_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$(?!\n)"
_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$(?!\n)"
Namespace = Annotated[str, Meta(pattern=_LABEL, max_length=63)]
ObjectName = Annotated[str, Meta(pattern=_SUBDOMAIN, max_length=253)]


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One object, as a role's rule and an address of the API name it.

    Attributes:
        namespace: of the object.
        name: of the object.
        resource: its kind in lower case and plural, as ``kubectl api-resources`` shows it.
        api: group and version.
    """

    namespace: Namespace
    name: ObjectName
    resource: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9]*$(?!\n)", max_length=63)] = "deployments"
    api: Annotated[str, Meta(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[0-9][a-z0-9]*$(?!\n)", max_length=253)] = "apps/v1"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.resource}/{self.name}"

    @property
    def group(self) -> str:
        """Return the API group; empty for the core group."""
        return self.api.rpartition("/")[0]

    @property
    def path(self) -> str:
        """Return where the API has the object."""
        return f"{namespaced(self.api, self.namespace)}/{self.resource}/{self.name}"


def namespaced(api: str, namespace: str) -> str:
    """Return where the API has the objects of a group and version in a namespace."""
    return f"/{'apis' if '/' in api else 'api'}/{api}/namespaces/{namespace}"
