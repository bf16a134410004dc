"""The page of commands: the ``--help`` of each, and of everything in a group."""

from collections.abc import Iterator
from typing import Any

import click

from services.tools.reference.markdown import page

WIDTH = 100


def commands_page(root: click.Group) -> str:
    """Return the page of a command line."""
    parts = [f"## `{path}`\n\n```\n{said}\n```\n" for path, said in _helps(root, "surescale", None)]
    return page("Commands", *parts)


def _helps(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    about: dict[str, Any] = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(command, parent=parent, info_name=name, **about)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None and not found.hidden:
                yield from _helps(found, below, context)
