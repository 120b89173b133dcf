"""The second parser, shfmt: what its tree of a command, written as JSON, says the command runs."""

from collections.abc import Iterator
from typing import Any

import msgspec

from scaffold.policy.shell.script import OPERATORS, Link, NotUnderstood, Reading, Redirect, Simple, Understood, Word

ARGUMENTS = ("--language-dialect=bash", "--to-json")
"""What makes shfmt write the tree of its standard input as JSON."""

_JOINS: dict[str, Link] = {"&&": "&&", "||": "||", "|": "|"}
_QUOTED_ESCAPES = frozenset('\\"$`')
_LONE = frozenset({"Negated", "Background", "Coprocess", "Disown", "Comments"})
"""What a statement may be besides a command; none of it is read here."""

_Tree = dict[str, Any]


class _Unclear(Exception):
    """The tree holds something that is not surely literal; the argument names it."""


def read_syntax(tree: bytes) -> Reading:
    """Return what shfmt makes of a command, from the tree it wrote; nothing in it is guessed."""
    try:
        file = msgspec.json.decode(tree, type=_Tree)
        commands = tuple(_file(file))
    except msgspec.DecodeError:
        return NotUnderstood("is no valid bash for its second parser")
    except (KeyError, TypeError, AttributeError):
        return NotUnderstood("has a shape in its second parser that is not known here")
    except _Unclear as unclear:
        return NotUnderstood(str(unclear))
    return Understood(commands) if commands else NotUnderstood("runs nothing")


def _file(file: _Tree) -> Iterator[Simple]:
    if file.get("Last"):
        raise _Unclear("has a comment in it")
    link: Link = ""
    for statement in file.get("Stmts") or []:
        yield from _statement(statement, link)
        link = ";"


def _statement(statement: _Tree, link: Link) -> Iterator[Simple]:
    for mark in _LONE:
        if statement.get(mark):
            raise _Unclear(f"is more than simple commands ({mark.lower()})")
    command = statement.get("Cmd")
    redirects = tuple(_redirect(each) for each in statement.get("Redirs") or [])
    if command is None:
        raise _Unclear("only redirects")
    match command["Type"]:
        case "CallExpr":
            yield _call(command, redirects, link)
        case "BinaryCmd" if not redirects and command["Op"] in _JOINS:
            yield from _statement(command["X"], link)
            yield from _statement(command["Y"], _JOINS[command["Op"]])
        case other:
            raise _Unclear(f"has a part that is not a simple command ({other})")


def _call(command: _Tree, redirects: tuple[Redirect, ...], link: Link) -> Simple:
    words = tuple(_word(word) for word in command.get("Args") or [])
    assignments = tuple(_assignment(each) for each in command.get("Assigns") or [])
    return Simple(words, assignments, redirects, link)


def _assignment(assign: _Tree) -> tuple[str, str]:
    if any(assign.get(mark) for mark in ("Append", "Naked", "Index", "Array")):
        raise _Unclear("sets a variable in a way that is not read here")
    name = assign["Name"]["Value"]
    if not assign.get("Value"):
        return name, ""
    word = _word(assign["Value"])
    if not word.literal:
        raise _Unclear("has a value that is not literal")
    return name, word.text


def _redirect(redirect: _Tree) -> Redirect:
    operator = OPERATORS.get(redirect["Op"])
    if operator is None or redirect.get("Hdoc"):
        raise _Unclear(f"has a redirect that is not read here (`{redirect['Op']}`)")
    number = redirect["N"]["Value"] if redirect.get("N") else None
    if number is not None and not number.isdecimal():
        raise _Unclear("names a stream in a way that is not read here")
    return Redirect(operator, _word(redirect["Word"]), None if number is None else int(number))


def _word(word: _Tree) -> Word:
    parts = word["Parts"]
    first = parts[0]
    opening = first["Value"] if first["Type"] == "Lit" else ""
    tilde = opening.startswith("~")
    if tilde and (opening[1:2] not in {"", "/"} or (opening == "~" and len(parts) > 1)):
        raise _Unclear("has a word whose `~` is not the home directory")
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
                raise _Unclear(f"has a word that is not literal ({other})")
        text.append(piece)
    return Word("".join(text), tilde=tilde, glob=glob and text != ["["])


def _bare(value: str) -> tuple[str, bool]:
    """Return the text of an unquoted part, and whether it may stand for names of files."""
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
        raise _Unclear(f"has a word that is not literal ({part['Type']})")
    text: list[str] = []
    chars = iter(part["Value"])
    for char in chars:
        if char != "\\":
            text.append(char)
            continue
        after = next(chars, "")
        text.append(after if after in _QUOTED_ESCAPES else "" if after == "\n" else char + after)
    return "".join(text)
