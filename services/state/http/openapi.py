"""The OpenAPI document of the HTTP API, made of its routes and the structs that they answer with. Pure."""

from typing import Any

import msgspec

from services.state.documents import ChangeDocument, ErrorDocument, HealthDocument, IndexDocument
from services.state.http.routes import EVENTS, HEALTH, OPENAPI, ROUTES, Parameter, Route

_PLACE = "#/components/schemas/{name}"
_NAMES = {
    "cluster": "Name of the cluster.",
    "name": "Name of the job in its cluster.",
    "id": "Identity; slashes stay as they are, # is written %23.",
}


def openapi(version: str) -> dict[str, Any]:
    """Return the document, for OpenAPI 3.1."""
    answers = [route.answers for route in ROUTES] + [HealthDocument, IndexDocument, ErrorDocument, ChangeDocument]
    schemas, components = msgspec.json.schema_components(answers, ref_template=_PLACE)
    *of_routes, health, index, error, change = schemas
    paths = {route.path: {"get": _operation(route, schema, error)} for route, schema in zip(ROUTES, of_routes, strict=True)}
    paths["/"] = {"get": _plain("The paths; to a browser, the page.", index)}
    paths[HEALTH] = {"get": _plain("Whether the view has caught up with Kafka.", health) | {"security": []}}
    paths[HEALTH]["get"]["responses"]["503"] = _answer("Not ready.", health)
    paths[OPENAPI] = {"get": _plain("This document.", {"type": "object"})}
    paths[EVENTS] = {"get": _stream(change)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "surescale: state of the jobs", "version": version, "license": {"name": "Apache-2.0"}},
        "security": [{}, {"bearer": []}],
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": components, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(route: Route, schema: dict[str, Any], error: dict[str, Any]) -> dict[str, Any]:
    operation = _plain(route.about, schema)
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    parameters = [
        {"name": name, "in": "path", "required": True, "description": _NAMES[name], "schema": {"type": "string"}}
        for name in names
    ]
    operation["parameters"] = parameters + [_parameter(each) for each in route.parameters]
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
