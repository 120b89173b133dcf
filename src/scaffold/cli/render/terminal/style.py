"""What commands print: marks and colors, JSON, notes, findings; no colors with NO_COLOR or without a terminal."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TextIO

import click
import msgspec

from scaffold.cli.render.terminal.text_layout import Layout, print_text
from scaffold.core.plan import Finding
from scaffold.core.printable_text import json_escaped, printable
from scaffold.views.state_labels import STATUS_MARKS

PATCH_COLORS = {"+": "green", "-": "red", "@": "cyan"}
OUTPUT_INDENT = " " * 6


def is_terminal(*streams: TextIO | None) -> bool:
    """Return whether all streams are terminals; None is one that was closed before the process began."""
    return all(stream is not None and stream.isatty() for stream in streams)


def can_redraw(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal understands escape sequences, so that lines can be redrawn."""
    return environ.get("TERM", "dumb") not in {"dumb", "unknown", ""}


def can_draw_on(out: TextIO) -> bool:
    """Return whether rows can be redrawn in place: on a terminal that is not dumb, and not in CI."""
    return is_terminal(out) and can_redraw(os.environ) and not is_ci()


def is_ci() -> bool:
    """Return whether this is a CI job: some CI systems provide a terminal, but no user sits at it."""
    return bool(os.environ.get("CI"))


def print_json(value: object) -> None:
    """Print `value`, of types msgspec can encode, as one line of JSON; times become ISO-8601 text.

    On a terminal, control, reordering and invisible characters are escaped: the JSON means the same.
    """
    line = msgspec.json.encode(value)
    click.echo(json_escaped(line.decode()) if is_terminal(sys.stdout) else line)


def has_colors(environ: Mapping[str, str]) -> bool:
    """Return whether texts may have colors: not with NO_COLOR, nor on a terminal without escape sequences."""
    return not environ.get("NO_COLOR") and can_redraw(environ)


def paint(text: str, color: str) -> str:
    """Return `text` in `color`, if texts may have colors; without a terminal `click.echo` drops them."""
    return click.style(text, fg=color) if has_colors(os.environ) else text


def heading(text: str) -> str:
    """Return `text` as a heading."""
    return click.style(text, bold=True) if has_colors(os.environ) else text


def titled(mark: str, title: str, text: str, layout: Layout) -> list[str]:
    """Return a title, which is a heading if it fits into a line, and the text after it, if there is one."""
    first, *rest = layout.prose(mark, f"{title}: {text}" if text else title, hang=2)
    return [first.replace(title, heading(title), 1), *rest]


def status_mark(status: str) -> str:
    """Return the colored mark of a status."""
    sign, color = STATUS_MARKS.get(status, ("·", "bright_black"))
    return paint(sign, color)


def print_note(text: str) -> None:
    """Print a note on standard error."""
    print_text(f"note: {text}", err=True)


def note_printer(*, quiet: bool) -> Callable[[str], None]:
    """Return a function that prints a note; with `quiet`, it prints nothing."""
    return (lambda _: None) if quiet else print_note


def format_finding(finding: Finding, name: str) -> str:
    """Return a finding as `NAME:LINE:COLUMN: severity[code] message` and, indented, its fix."""
    place = "" if finding.line is None else f":{finding.line}" + (f":{finding.column}" if finding.column else "")
    return f"{name}{place}: {finding.severity}[{finding.code}] {finding.message}\n  {finding.fix}"


def finding_lines(findings: Iterable[Finding], name: str) -> Iterator[str]:
    """Yield findings about the plan called `name`, each with its example."""
    shown = set[str]()
    for finding in findings:
        yield format_finding(finding, name)
        yield from example_lines(finding, shown)


def example_lines(finding: Finding, shown: set[str]) -> Iterator[str]:
    """Yield the example of the right form of what a finding is about, on lines to copy, unless it was shown before."""
    if finding.example in {"", *shown}:
        return
    shown.add(finding.example)
    first, *more = finding.example.split("\n")
    yield from ("  for example:", *(f"    {line}" for line in (first, *more))) if more else (f"  for example: {first}",)


def print_findings(findings: Iterable[Finding], name: str) -> None:
    """Print findings about the plan called `name` on standard error."""
    for line in finding_lines(findings, name):
        print_text(line, err=True)


def output_lines(output: str, log: str, layout: Layout) -> Iterator[str]:
    """Yield the stored lines of an output, then the path of its log if `log` names one."""
    if output.strip():
        yield from layout.wrap(OUTPUT_INDENT, output)
    if log:
        yield from layout.wrap(OUTPUT_INDENT, f"the whole log: {log}")


def print_patch(patch: bytes) -> None:
    """Print a patch: coloured and escaped on a terminal, otherwise byte for byte."""
    if not sys.stdout.isatty():
        click.echo(patch, nl=False)
        return
    for line in patch.decode(errors="replace").split("\n")[:-1]:
        text = printable(line)
        click.echo(paint(text, PATCH_COLORS[text[0]]) if text[:1] in PATCH_COLORS else text)
