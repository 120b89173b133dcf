"""What one call of `ralph` tells while it works: nothing but the answer, or one JSON event a line."""

import sys
from collections.abc import Mapping
from typing import Any, Literal, Protocol, assert_never

import click
import msgspec

from scaffold.agent.journal import Kind
from scaffold.cli.safe import printable
from scaffold.cli.screen import paint
from scaffold.core.conversation import CallDelta, Delta, Superseded, TextDelta, ThinkingDelta, Waiting

Format = Literal["text", "json", "stream-json"]

LINE = 120
"""Characters of a tool call that people get to see."""


class Teller(Protocol):
    """Is told what happens, and tells it on; also an agent's journal."""

    for_people: bool
    """Whether errors are to be told in words, on standard error, and not in the result."""

    def session(self, **fields: str) -> None:
        """Take the beginning: which conversation, which model, where."""
        ...

    def hear(self, delta: Delta) -> None:
        """Take what a model says while it says it."""
        ...

    def note(self, kind: Kind, **fields: Any) -> None:
        """Take what was said and done."""
        ...

    def result(self, shape: Mapping[str, object]) -> None:
        """Take the end; `shape` is the object that `--output-format json` prints."""
        ...


def teller(output: Format) -> Teller:
    """Return who tells in this format."""
    match output:
        case "text":
            return Plain(live=sys.stderr is not None and sys.stderr.isatty())
        case "json":
            return Quiet()
        case "stream-json":
            return Stream()
        case _:
            assert_never(output)


class Plain:
    """The answer on standard output; on a terminal each step on standard error, so that a wait can be understood."""

    for_people = True

    def __init__(self, *, live: bool) -> None:
        self._live = live

    def session(self, **fields: str) -> None:
        """Say nothing: whoever asks knows where."""

    def hear(self, delta: Delta) -> None:
        """Say why nothing comes."""
        match delta:
            case Waiting(seconds=seconds, reason=reason):
                click.echo(f"waiting {seconds:.0f} s: {printable(reason)}", err=True)
            case Superseded(reason=reason):
                click.echo(f"asking again: {printable(reason)}", err=True)
            case TextDelta() | ThinkingDelta() | CallDelta():
                pass
            case _:
                assert_never(delta)

    def note(self, kind: Kind, **fields: Any) -> None:
        """Show what is done, if somebody watches, and what the user should know, always."""
        if kind == "notice":
            click.echo(printable(str(fields.get("text", ""))), err=True)
        elif kind == "tool_call" and self._live:
            args = msgspec.json.encode(fields.get("args")).decode()
            click.echo(paint(f"· {printable(fields['name'])} {_line(args)}", "bright_black"), err=True)

    def result(self, shape: Mapping[str, object]) -> None:
        """Print the answer; an error is told by whoever ends the command."""
        if shape["result"]:
            click.echo(printable(str(shape["result"])))


class Quiet:
    """Nothing but one object at the end."""

    for_people = False

    def session(self, **fields: str) -> None:
        """Ignore it."""

    def hear(self, delta: Delta) -> None:
        """Ignore it."""

    def note(self, kind: Kind, **fields: Any) -> None:
        """Ignore it."""

    def result(self, shape: Mapping[str, object]) -> None:
        """Print the object."""
        click.echo(msgspec.json.encode(shape))


class Stream:
    """One event a line, as it happens: words in pieces, tool calls and their results whole."""

    for_people = False

    def __init__(self) -> None:
        self._heard = ""

    def session(self, **fields: str) -> None:
        """Print the first line."""
        _event("session", **fields)

    def hear(self, delta: Delta) -> None:
        """Print the pieces of words and thoughts; a piece of a call is told when the call is whole."""
        match delta:
            case TextDelta(text=text):
                self._heard += text
                _event("text", text=text)
            case ThinkingDelta(text=text):
                _event("thinking", text=text)
            case Superseded(reason=reason):
                self._heard = ""
                _event("notice", notice="superseded", text=f"what this reply said so far is void: {reason}")
            case Waiting(seconds=seconds, reason=reason):
                _event("notice", notice="waiting", seconds=seconds, text=reason)
            case CallDelta():
                pass
            case _:
                assert_never(delta)

    def note(self, kind: Kind, **fields: Any) -> None:
        """Print what is no part of a reply's words; those were heard already."""
        if kind == "text" and fields["text"] not in self._heard:
            _event("text", **fields)
        if kind == "usage":
            self._heard = ""
        if kind == "news":
            _event("notice", notice="news", **fields)
        if kind in {"tool_call", "tool_result", "approval", "notice"}:
            _event(kind, **fields)

    def result(self, shape: Mapping[str, object]) -> None:
        """Print the last line."""
        _event("result", **shape)


def _event(kind: str, **fields: object) -> None:
    click.echo(msgspec.json.encode({"type": kind, **fields}))


def _line(text: str) -> str:
    flat = printable(text).replace("\n", " ")
    return flat if len(flat) <= LINE else f"{flat[: LINE - 1]}…"
