"""Reads what source text says beside the code: the comment after a field, the docstring below it. Runs nothing."""

import ast
import inspect
import io
import sys
import tokenize
from dataclasses import dataclass
from types import ModuleType
from typing import Literal, get_args, get_origin


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a class as written: its type, its default ("" for none), and its description."""

    name: str
    type: str
    default: str
    description: str


def fields_of(kind: type) -> list[Field]:
    """Return the fields that a class itself declares, in order, each described by the docstring below it or by its comment."""
    source = inspect.cleandoc("\n" + inspect.getsource(kind))
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    comments = _comments(source)
    found = []
    for item, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            default = ast.unparse(item.value) if item.value is not None else ""
            description = _docstring(below) or comments.get(item.end_lineno or item.lineno, "")
            found.append(Field(item.target.id, _type(item.annotation, kind.__module__), default, description))
    return found


def comments_of(module: ModuleType, name: str) -> dict[str, str]:
    """Return the comments after the strings of a tuple that a module assigns to a name."""
    source = inspect.getsource(module)
    comments = _comments(source)
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            texts = [item for item in ast.walk(node.value) if isinstance(item, ast.Constant)]
            return {str(item.value): comments.get(item.lineno, "") for item in texts}
    raise LookupError(f"{module.__name__} assigns nothing to {name}")


def first_paragraph(text: str | None) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join(inspect.cleandoc(text or "").split("\n\n")[0].split())


def _type(annotation: ast.expr, module: str) -> str:
    """Return a field's type as written; the name of a closed set of words is replaced by the set."""
    written = ast.unparse(annotation)
    meant = getattr(sys.modules[module], written, None)
    return f"Literal[{', '.join(map(repr, get_args(meant)))}]" if get_origin(meant) is Literal else written


def _docstring(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
