"""What stands in source text beside the code: the comment behind a field, the docstring under one. Runs nothing."""

import ast
import inspect
import io
import tokenize
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a class as it is written: its type, its default ("" for none), and what is said of it."""

    name: str
    type: str
    default: str
    said: str


def fields_of(kind: type) -> list[Field]:
    """Return the fields that a class itself declares, in order; what is said is the docstring below, else the comment behind."""
    source = inspect.cleandoc("\n" + inspect.getsource(kind))
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    comments = _comments(source)
    found = []
    for item, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            default = ast.unparse(item.value) if item.value is not None else ""
            said = _docstring(below) or comments.get(item.end_lineno or item.lineno, "")
            found.append(Field(item.target.id, ast.unparse(item.annotation), default, said))
    return found


def comments_of(module: ModuleType, name: str) -> dict[str, str]:
    """Return the comments behind the strings of a tuple that a module assigns to a name."""
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


def _docstring(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
