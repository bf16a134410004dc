"""`surescale dev place`: chooses hosts for a request of the contract place/1, and prints one JSON object."""

from __future__ import annotations

import sys
from typing import BinaryIO

import click

from surescale.rescaler.cli.documents import EXIT_REFUSED, file_argument, read_input

EXIT_INFEASIBLE = 3


@click.command("place")
@file_argument
@click.option("--gap", is_flag=True, help="Also print how far the answer is from the optimum or a lower bound.")
@click.option("--repair", is_flag=True, help="Let cetsa replace the host it opened last by a cheaper unused one.")
def command(file: BinaryIO, gap: bool, repair: bool) -> None:
    """Choose hosts for a job's subtasks by cost and load.

    Reads one place/1 request (JSON) from FILE, or from standard input, and prints the answer. Exit code 0 if all subtasks are
    placed, 3 if not (the answer shows the partial placement), 2 if the request is wrong.
    """
    from surescale.rescaler.placement import RequestError, document, error_document, parse_json, place, to_json

    try:
        request = parse_json(read_input(file))
    except RequestError as error:
        click.echo(to_json(error_document(error)))
        click.echo(f"surescale: {error}", err=True)
        sys.exit(EXIT_REFUSED)
    response = place(request, repair=repair)
    answer = document(response)
    if gap:
        from surescale.rescaler.placement.gap import gap_document

        answer["gap"] = gap_document(response)
    click.echo(to_json(answer))
    if not response.feasible:
        reason = response.infeasible_proof or "no proof: another algorithm may place them"
        click.echo(f"surescale: subtasks without a host: {len(response.unplaced)} ({reason})", err=True)
        sys.exit(EXIT_INFEASIBLE)
