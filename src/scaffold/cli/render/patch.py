"""A patch on a terminal or in a pipe."""

import sys

import click

from scaffold.cli.render.terminal.style import paint
from scaffold.core.printable_text import printable

COLORS = {"+": "green", "-": "red", "@": "cyan"}


def print_patch(patch: bytes) -> None:
    """Print a patch: coloured and escaped on a terminal, otherwise byte for byte."""
    if not sys.stdout.isatty():
        click.echo(patch, nl=False)
        return
    for line in patch.decode(errors="replace").split("\n")[:-1]:
        text = printable(line)
        click.echo(paint(text, COLORS[text[0]]) if text[:1] in COLORS else text)
