"""What the rescaler's JSON commands share: one document in, one document out, exit code 0 or 2.

Knows no command's contents.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import BinaryIO, NoReturn

import click

from surescale.rescaler.fields import Complaint, kind_of, listed
from surescale.rescaler.refusals import Refused

Document = dict[str, object]
"""A JSON object; its members are unchecked when it is read."""

INPUT_BYTES_MAX = 2**30
"""Far more than any document has that can be answered."""

EXIT_REFUSED = 2
"""Exit code of an answer with ``"ok": false``."""

file_argument = click.argument("file", type=click.File("rb"), default="-", metavar="[FILE|-]")
"""The document's file; standard input by default."""


def parse(text: bytes | str) -> Document:
    """Return the JSON object in ``text``, with fractions as `Decimal`.

    Raises:
        Refused: INVALID_JSON, or INVALID_INPUT for JSON of another kind.
    """
    try:
        document = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
    except (ValueError, RecursionError, InvalidOperation) as error:  # the last: of an exponent of twenty digits
        raise Refused("INVALID_JSON", f"the input is not a JSON document: {error}") from error
    if not isinstance(document, dict):
        raise Refused("INVALID_INPUT", f"the document must be an object, not {kind_of(document)}")
    return document


def check(complaints: list[Complaint]) -> None:
    """Refuse a document that was read with complaints.

    Raises:
        Refused: INVALID_INPUT with all complaints, at the place of the first.
    """
    if complaints:
        raise Refused("INVALID_INPUT", listed(complaints), complaints[0].place)


def answer(function: Callable[[Document], Document], text: bytes | str) -> tuple[Document, int]:
    """Return ``function``'s answer to the document in ``text`` with ``"ok": true``, or the refusal; and the exit code."""
    try:
        return {"ok": True, **function(parse(text))}, 0
    except Refused as refused:
        return {"ok": False, "error": refused.as_error()}, EXIT_REFUSED


def answering(function: Callable[[Document], Document], file: BinaryIO) -> NoReturn:
    """Answer the document in ``file`` on standard output and exit."""
    gc.disable()  # The process ends with its answer: looking for garbage would double the time of a large document.
    document, code = answer(function, read_input(file))
    write_output(document)
    sys.exit(code)


def read_input(file: BinaryIO) -> bytes:
    """Return all of the input; on a terminal say what is expected.

    Raises:
        click.ClickException: it is too long.
    """
    if file.isatty():
        click.echo("surescale: reading one JSON document from the terminal, end with Ctrl-D", err=True)
    read = file.read(INPUT_BYTES_MAX + 1)
    if len(read) > INPUT_BYTES_MAX:  # a device has no end
        raise click.ClickException(f"the document has more than {INPUT_BYTES_MAX >> 20} MiB")
    return read


def write_output(document: Document) -> None:
    """Write one line of JSON to standard output."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
