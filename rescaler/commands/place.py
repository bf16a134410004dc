"""`surescale place FILE|-`: one request of the contract place/1 in, one JSON object out."""

from __future__ import annotations

import sys
from pathlib import Path

import click

EXIT_BAD_REQUEST = 2
EXIT_INFEASIBLE = 3


@click.command("place")
@click.argument("file", metavar="FILE|-")
@click.option("--gap", is_flag=True, help="Also print how far the answer is from the optimum or a lower bound.")
@click.option("--repair", is_flag=True, help="Let cetsa swap the host it opened last for a cheaper unused one.")
def command(file: str, gap: bool, repair: bool) -> None:
    """Choose hosts for a job's subtasks by cost and load.

    Reads a place/1 request (JSON) from FILE, or from standard input with "-", and prints the answer as one JSON object.
    Exit status: 0 placed, 3 infeasible (the partial placement is printed), 2 bad request.
    """
    from rescaler.placement import RequestError, document, error_document, parse_json, place, to_json

    try:
        request = parse_json(_content(file))
    except RequestError as error:
        click.echo(to_json(error_document(error)))
        click.echo(f"surescale: {error}", err=True)
        sys.exit(EXIT_BAD_REQUEST)
    response = place(request, repair=repair)
    answer = document(response)
    if gap:
        from rescaler.placement.gap import gap_document

        answer["gap"] = gap_document(response)
    click.echo(to_json(answer))
    if not response.feasible:
        reason = response.infeasible_proof or "no proof: another algorithm may place them"
        click.echo(f"surescale: subtasks without a host: {len(response.unplaced)} ({reason})", err=True)
        sys.exit(EXIT_INFEASIBLE)


def _content(file: str) -> bytes:
    from rescaler.placement import RequestError

    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise RequestError([f"request: cannot read {file!r} ({error.strerror})"]) from None
