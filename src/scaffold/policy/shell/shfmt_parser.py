"""The second parser: read shfmt's JSON syntax tree of a command."""

from collections.abc import Iterator
from typing import Any

import msgspec

from scaffold.policy.shell.script import (
    OPERATORS,
    Connector,
    ParsedCommand,
    ParseResult,
    Redirect,
    SimpleCommand,
    UnparsedCommand,
    Word,
)

ARGUMENTS = ("--language-dialect=bash", "--to-json")
"""Arguments that make shfmt print the syntax tree of its standard input as JSON."""

_CONNECTORS: dict[str, Connector] = {"&&": "&&", "||": "||", "|": "|"}
_QUOTED_ESCAPES = frozenset('\\"$`')
_UNSUPPORTED = frozenset({"Negated", "Background", "Coprocess", "Disown", "Comments"})
"""Marks of statements that are not supported here."""

_Tree = dict[str, Any]


class _AmbiguousJson(Exception):
    """The tree contains something that may not be literal; the argument names it."""


def parse_shfmt_tree(tree: bytes) -> ParseResult:
    """Return the parse result from shfmt's tree of a command; anything unknown in it makes the result unparsed."""
    try:
        file = msgspec.json.decode(tree, type=_Tree)
        commands = tuple(_file(file))
    except msgspec.DecodeError:
        return UnparsedCommand("is not valid bash for the second parser")
    except (KeyError, TypeError, AttributeError):
        return UnparsedCommand("has an unknown form in the second parser")
    except _AmbiguousJson as unclear:
        return UnparsedCommand(str(unclear))
    return ParsedCommand(commands) if commands else UnparsedCommand("runs nothing")


def _file(file: _Tree) -> Iterator[SimpleCommand]:
    if file.get("Last"):
        raise _AmbiguousJson("contains a comment")
    link: Connector = ""
    for statement in file.get("Stmts") or []:
        yield from _statement(statement, link)
        link = ";"


def _statement(statement: _Tree, link: Connector) -> Iterator[SimpleCommand]:
    for mark in _UNSUPPORTED:
        if statement.get(mark):
            raise _AmbiguousJson(f"is more than simple commands ({mark.lower()})")
    command = statement.get("Cmd")
    redirects = tuple(_redirect(each) for each in statement.get("Redirs") or [])
    if command is None:
        raise _AmbiguousJson("only redirects")
    match command["Type"]:
        case "CallExpr":
            yield _call(command, redirects, link)
        case "BinaryCmd" if not redirects and command["Op"] in _CONNECTORS:
            yield from _statement(command["X"], link)
            yield from _statement(command["Y"], _CONNECTORS[command["Op"]])
        case other:
            raise _AmbiguousJson(f"has a part that is not a simple command ({other})")


def _call(command: _Tree, redirects: tuple[Redirect, ...], link: Connector) -> SimpleCommand:
    words = tuple(_word(word) for word in command.get("Args") or [])
    assignments = tuple(_assignment(each) for each in command.get("Assigns") or [])
    return SimpleCommand(words, assignments, redirects, link)


def _assignment(assign: _Tree) -> tuple[str, str]:
    if any(assign.get(mark) for mark in ("Append", "Naked", "Index", "Array")):
        raise _AmbiguousJson("sets a variable in an unsupported way")
    name = assign["Name"]["Value"]
    if not assign.get("Value"):
        return name, ""
    word = _word(assign["Value"])
    if not word.literal:
        raise _AmbiguousJson("has a value that is not literal")
    return name, word.text


def _redirect(redirect: _Tree) -> Redirect:
    operator = OPERATORS.get(redirect["Op"])
    if operator is None or redirect.get("Hdoc"):
        raise _AmbiguousJson(f"has an unsupported redirect (`{redirect['Op']}`)")
    number = redirect["N"]["Value"] if redirect.get("N") else None
    if number is not None and not number.isdecimal():
        raise _AmbiguousJson("names a stream in an unsupported way")
    return Redirect(operator, _word(redirect["Word"]), None if number is None else int(number))


def _word(word: _Tree) -> Word:
    parts = word["Parts"]
    first = parts[0]
    opening = first["Value"] if first["Type"] == "Lit" else ""
    tilde = opening.startswith("~")
    # `~"/x"` is not expanded, since the quote ends the prefix, and `~name` is another user's home.
    if tilde and (opening[1:2] not in {"", "/"} or (opening == "~" and len(parts) > 1)):
        raise _AmbiguousJson("has a word whose `~` is not the home directory")
    text: list[str] = []
    glob = False
    for part in parts:
        match part["Type"]:
            case "Lit":
                piece, wild = _bare(part["Value"])
                glob = glob or wild
            case "SglQuoted" if not part.get("Dollar"):
                piece = part.get("Value", "")
            case "DblQuoted" if not part.get("Dollar"):
                piece = "".join(_quoted(inner) for inner in part.get("Parts") or [])
            case other:
                raise _AmbiguousJson(f"has a word that is not literal ({other})")
        text.append(piece)
    # `[` alone is the command of that name.
    return Word("".join(text), tilde=tilde, glob=glob and text != ["["])


def _bare(value: str) -> tuple[str, bool]:
    """Return the text of an unquoted part, and whether it is a glob."""
    text: list[str] = []
    glob = False
    chars = iter(value)
    for char in chars:
        if char == "\\":
            text.append(next(chars, "").replace("\n", ""))
        else:
            glob = glob or char in "*?["
            text.append(char)
    return "".join(text), glob


def _quoted(part: _Tree) -> str:
    if part["Type"] != "Lit":
        raise _AmbiguousJson(f"has a word that is not literal ({part['Type']})")
    text: list[str] = []
    chars = iter(part["Value"])
    for char in chars:
        if char != "\\":
            text.append(char)
            continue
        after = next(chars, "")
        text.append(after if after in _QUOTED_ESCAPES else "" if after == "\n" else char + after)
    return "".join(text)
