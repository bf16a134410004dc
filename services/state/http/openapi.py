"""The OpenAPI document of the HTTP API, made of its routes and the structs that they answer with. Pure."""

import inspect
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from surescale.services.state.documents import (
    AccessDocument,
    ChangeDocument,
    ErrorDocument,
    HealthDocument,
    IndexDocument,
    OperationDocument,
)
from surescale.services.state.http.operations import KEY, OPERATIONS, Operation
from surescale.services.state.http.routes import ACCESS, COUNTERFACTUAL, EVENTS, HEALTH, OPENAPI, READ, Parameter, Route

_PLACE = "#/components/schemas/{name}"
_NAMES = {
    "cluster": "Name of the cluster.",
    "name": "Name of the job in its cluster.",
    "id": "Identity; slashes stay as they are, # is written %23.",
}


def openapi(version: str) -> dict[str, Any]:
    """Return the document, for OpenAPI 3.1."""
    answers = [route.answers for route in READ]
    plain = [HealthDocument, IndexDocument, ErrorDocument, ChangeDocument, AccessDocument, OperationDocument]
    bodies = [operation.body for operation in OPERATIONS]
    schemas, components = _named(*msgspec.json.schema_components([*answers, *plain, *bodies], ref_template=_PLACE))
    _mark_written(components, _reached(components, schemas[-len(bodies) :]))
    of_routes, rest = schemas[: len(answers)], schemas[len(answers) :]
    (health, index, error, change, access, done), of_bodies = rest[: len(plain)], rest[len(plain) :]
    paths = {route.path: {"get": _operation(route, schema, error)} for route, schema in zip(READ, of_routes, strict=True)}
    paths[COUNTERFACTUAL.path]["get"]["responses"] |= {
        "403": _answer("A page from elsewhere asks, or this service decides nothing again.", error),
        "410": _answer("Kafka no longer holds what the decision was made from.", error),
        "422": _answer("The window has no such task or minute.", error),
        "503": _answer("The policy is not here, took too long, or too many requests wait; or Redis or Kafka is away.", error),
    }
    paths["/"] = {"get": _plain("The paths; to a browser, the page.", index)}
    paths[HEALTH] = {"get": _plain("Whether the view has caught up with Kafka.", health) | {"security": []}}
    paths[HEALTH]["get"]["responses"]["503"] = _answer("Not ready.", health)
    paths[OPENAPI] = {"get": _plain("This document.", {"type": "object"})}
    paths[ACCESS] = {"get": _plain("What the token that asks may do.", access)}
    for operation, body in zip(OPERATIONS, of_bodies, strict=True):
        paths[operation.path] = {"post": _change(operation, body, done, error)}
    paths[EVENTS] = {"get": _stream(change)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "surescale: state of the jobs", "version": version, "license": {"name": "Apache-2.0"}},
        "security": [{}, {"bearer": []}],
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": components, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def _named(schemas: tuple[dict[str, Any], ...], components: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return schemas in which a record as it came to Kafka has a readable name: AppendedOutcome for Appended_Outcome_."""
    text = msgspec.json.encode((schemas, components)).decode()
    named: tuple[list[dict[str, Any]], dict[str, Any]] = unindented(
        msgspec.json.decode(re.sub(r"\bAppended[_[](\w+?)[_\]](?=\")", r"Appended\1", text))
    )
    return named


def unindented(schema: Any) -> Any:
    """Return a JSON Schema with descriptions as Python 3.13 keeps docstrings: without the indentation of the code."""
    if isinstance(schema, dict):
        return {
            name: inspect.cleandoc(part) if name == "description" and isinstance(part, str) else unindented(part)
            for name, part in schema.items()
        }
    return [unindented(part) for part in schema] if isinstance(schema, list) else schema


def _mark_written(components: dict[str, Any], asked: set[str]) -> None:
    """Mark as required what every answer has: fields with a default too, which msgspec takes for what a request may leave out.

    ``asked``: names of the schemas of requests, which stay as they are.
    """
    for name, schema in components.items():
        if name not in asked and "properties" in schema:
            required = schema.get("required", ())
            schema["required"] = [field for field, kind in schema["properties"].items() if field in required or "default" in kind]


def _reached(components: dict[str, Any], schemas: Iterable[dict[str, Any]]) -> set[str]:
    """Return the names of the components that schemas refer to, also by way of others."""
    found: set[str] = set()
    waiting = list(schemas)
    while waiting:
        named = set(re.findall(r"'#/components/schemas/([^']+)'", str(waiting.pop()))) - found
        found |= named
        waiting += [components[name] for name in named]
    return found


def _operation(route: Route, schema: dict[str, Any], error: dict[str, Any]) -> dict[str, Any]:
    operation = _plain(route.about, schema)
    names = _names(route.path)
    operation["parameters"] = names + [_parameter(each) for each in route.parameters]
    if route.cursor_of:
        link = {"description": 'Where the next page is, rel="next"; absent on the last one.', "schema": {"type": "string"}}
        operation["responses"]["200"]["headers"] = {"Link": link}
    operation["responses"] |= {
        "304": {"description": "As If-None-Match has it."},
        "400": _answer("A parameter is unknown, or has no valid value.", error),
        "503": _answer("Redis is away, or holds what this version cannot read.", error),
    }
    if names:
        operation["responses"]["404"] = _answer("Nothing of that name.", error)
    return operation


def _change(operation: Operation, body: dict[str, Any], done: dict[str, Any], error: dict[str, Any]) -> dict[str, Any]:
    key = {
        "name": KEY,
        "in": "header",
        "required": True,
        "description": "New for each change, the same when it is repeated: then nothing is written twice.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 128},
    }
    refusals = {
        "400": "The body is no JSON document, or the key is missing.",
        "401": "No token was given that is known here.",
        "403": "The token may not operate, a page from elsewhere asks, or this service only reads.",
        "404": "There is no such job or cluster.",
        "409": "What was seen holds no longer: the advice is not open, or the settings have another version.",
        "413": "The body is too long.",
        "415": "The body is not sent as JSON.",
        "422": "A field is unknown, missing or contradicts another, or the key has made another change.",
        "503": "Kafka does not answer or refuses, or too many requests wait.",
    }
    made = _plain(operation.about, done)
    made["security"] = [{"bearer": []}]
    made["parameters"] = [*_names(operation.path), key]
    made["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    made["responses"] |= {code: _answer(about, error) for code, about in refusals.items()}
    return made


def _names(path: str) -> list[dict[str, Any]]:
    """Return the parameters that stand in a path."""
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return [
        {"name": name, "in": "path", "required": True, "description": _NAMES[name], "schema": {"type": "string"}}
        for name in names
    ]


def _plain(about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"summary": about, "responses": {"200": _answer("The answer.", schema)}}


def _answer(about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": about, "content": {"application/json": {"schema": schema}}}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if parameter.most:
        schema = {"type": "integer", "minimum": parameter.least, "maximum": parameter.most}
        if parameter.default is not None:
            schema["default"] = parameter.default
    return {"name": parameter.name, "in": "query", "description": parameter.about, "schema": schema}


def _stream(change: dict[str, Any]) -> dict[str, Any]:
    about = "Server-sent events: one named `view` when the view has changed, one named `problem` when it cannot be read."
    again = {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}}
    answer = {"description": "The stream; data of each event:", "content": {"text/event-stream": {"schema": change}}}
    return {"summary": about, "parameters": [again], "responses": {"200": answer}}
