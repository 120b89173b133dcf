"""The output of a one-shot `ralph`: the answer as text, one JSON object, or one JSON event per line."""

import sys
from collections.abc import Mapping
from typing import Any, Literal, assert_never

import click
import msgspec

from scaffold.agent.journal import EntryKind
from scaffold.cli.render.terminal.style import paint, print_json
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.core.conversation import Delta, RetryWait, StreamReset, TextDelta, ThinkingDelta, ToolCallDelta
from scaffold.core.printable_text import printable
from scaffold.session.reporter import Reporter
from scaffold.views.text_format import clip, waiting_text

OutputFormat = Literal["text", "json", "stream-json"]

MAX_CALL_CELLS = 120
"""Columns shown of a tool call's arguments."""


def reporter_for(output: OutputFormat) -> Reporter:
    """Return the reporter for this format."""
    match output:
        case "text":
            return TextReporter(live=sys.stderr is not None and sys.stderr.isatty())
        case "json":
            return JsonReporter()
        case "stream-json":
            return StreamJsonReporter()
        case _:
            assert_never(output)


class TextReporter:
    """Prints the answer on standard output and, on a terminal, each step on standard error."""

    for_people = True

    def __init__(self, *, live: bool) -> None:
        self._live = live

    def session(self, **fields: str) -> None:
        """Print nothing."""

    def on_delta(self, delta: Delta) -> None:
        """Print the reason why the model does not answer yet."""
        match delta:
            case RetryWait(seconds=seconds, reason=reason):
                print_text(f"{waiting_text(seconds)}: {reason}", err=True)
            case StreamReset(reason=reason):
                print_text(f"asking again: {reason}", err=True)
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                pass
            case _:
                assert_never(delta)

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Print notices, and on a terminal tool calls."""
        if kind == "notice":
            print_text(str(fields.get("text", "")), err=True)
        elif kind == "tool_call" and self._live:
            args = msgspec.json.encode(fields.get("args")).decode()
            shown = f"· {printable(fields['name'])} {clip(args, MAX_CALL_CELLS)}"
            click.echo(paint(shown, "bright_black"), err=True)

    def result(self, shape: Mapping[str, object]) -> None:
        """Print the answer; the caller prints an error."""
        if shape["result"]:
            click.echo(printable(str(shape["result"])))


class JsonReporter:
    """Prints one JSON object at the end."""

    for_people = False

    def session(self, **fields: str) -> None:
        """Ignore it."""

    def on_delta(self, delta: Delta) -> None:
        """Ignore it."""

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Ignore it."""

    def result(self, shape: Mapping[str, object]) -> None:
        """Print the object."""
        print_json(shape)


class StreamJsonReporter:
    """Prints one event per line as it happens: text in pieces, tool calls and their results whole."""

    for_people = False

    def __init__(self) -> None:
        self._streamed = ""

    def session(self, **fields: str) -> None:
        """Print the first line."""
        _print_event("session", **fields)

    def on_delta(self, delta: Delta) -> None:
        """Print the pieces of text and thinking; a tool call is printed by `note` once it is complete."""
        match delta:
            case TextDelta(text=text):
                self._streamed += text
                _print_event("text", text=text)
            case ThinkingDelta(text=text):
                _print_event("thinking", text=text)
            case StreamReset(reason=reason):
                self._streamed = ""
                _print_event(
                    "notice", notice="superseded", text=f"the text of this reply so far is discarded: {reason}"
                )
            case RetryWait(seconds=seconds, reason=reason):
                _print_event("notice", notice="waiting", seconds=seconds, text=reason)
            case ToolCallDelta():
                pass
            case _:
                assert_never(delta)

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Print everything but the reply's text, which `on_delta` has printed already."""
        if kind == "text" and fields["text"] not in self._streamed:
            _print_event("text", **fields)
        if kind == "usage":
            self._streamed = ""
        if kind == "news":
            _print_event("notice", notice="news", **fields)
        if kind in {"tool_call", "tool_result", "approval", "notice"}:
            _print_event(kind, **fields)

    def result(self, shape: Mapping[str, object]) -> None:
        """Print the last line."""
        _print_event("result", **shape)


def _print_event(kind: str, **fields: object) -> None:
    print_json({"type": kind, **fields})
