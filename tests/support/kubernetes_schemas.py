"""The schemas of Kubernetes' own OpenAPI document, as kubernetes-validate ships them: what our double says and hears must fit."""

import json
from functools import cache, lru_cache
from typing import Any

import jsonschema
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

VERSION = "1.37.0"
_META = ("APIGroupList", "APIResourceList", "APIVersions", "Status")
_FOLDER = f"kubernetes-json-schema/v{VERSION}-local-strict"


def check(document: dict[str, Any]) -> None:
    """Refuse a document with a field that its kind does not have, or without one that it must have.

    Raises:
        ValidationError: names the field.
    """
    _checked(json.dumps(document, sort_keys=True))


@lru_cache(maxsize=10_000)
def _checked(text: str) -> None:
    document = json.loads(text)
    _validator(document["kind"], document["apiVersion"]).validate(document)


@cache
def _validator(kind: str, api: str) -> jsonschema.Draft202012Validator:
    group, _, version = api.rpartition("/")
    group = "meta" if kind in _META else group.partition(".")[0]
    name = "-".join(part for part in (kind.lower(), group, version) if part)
    return jsonschema.Draft202012Validator(schema_contents(f"{_FOLDER}/{name}.json", VERSION), registry=_registry())


@cache
def _registry() -> Registry[Any]:
    definitions: Resource[Any] = Resource.from_contents(schema_contents(f"{_FOLDER}/_definitions.json", VERSION))
    return (definitions @ Registry()).crawl()
