"""The second parser: read shfmt's JSON syntax tree of a command."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from scaffold.policy.shell.parse.unquoting import Variables, expand_braces, unroll, value_of
from scaffold.policy.shell.parsed_command import (
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
_NONE: Variables = {}
_PLAIN_VARIABLE = frozenset({"Type", "Pos", "End", "Dollar", "Rbrace", "Short", "Param"})
"""The keys of a variable without an operator."""


class _AmbiguousJson(Exception):
    """The tree contains something that may not be literal; the argument names it."""


def parse_shfmt_tree(tree: bytes) -> ParseResult:
    """Return the parse result from shfmt's tree of a command; anything unknown in it makes the result unparsed."""
    try:
        file = msgspec.json.decode(tree, type=_Tree)
        commands = tuple(_file_commands(file))
    except msgspec.DecodeError:
        return UnparsedCommand("is not valid bash for the second parser")
    except (KeyError, TypeError, AttributeError):
        return UnparsedCommand("has an unknown form in the second parser")
    except _AmbiguousJson as unclear:
        return UnparsedCommand(str(unclear))
    return ParsedCommand(commands) if commands else UnparsedCommand("runs nothing")


def _file_commands(file: _Tree) -> Iterator[SimpleCommand]:
    if file.get("Last"):
        raise _AmbiguousJson("contains a comment")
    yield from _read_statements(file.get("Stmts") or [], _NONE)


def _read_statements(statements: Iterable[_Tree], variables: Variables) -> Iterator[SimpleCommand]:
    link: Connector = ""
    for statement in statements:
        yield from _read_statement(statement, link, variables)
        link = ";"


def _read_statement(statement: _Tree, link: Connector, variables: Variables) -> Iterator[SimpleCommand]:
    for mark in _UNSUPPORTED:
        if statement.get(mark):
            raise _AmbiguousJson(f"is more than simple commands ({mark.lower()})")
    command = statement.get("Cmd")
    redirects = tuple(_read_redirect(each, variables) for each in statement.get("Redirs") or [])
    if command is None:
        raise _AmbiguousJson("only redirects")
    match command["Type"]:
        case "CallExpr":
            words = tuple(word for argument in command.get("Args") or [] for word in _read_words(argument, variables))
            assignments = tuple(_read_assignment(each) for each in command.get("Assigns") or [])
            yield SimpleCommand(words, assignments, redirects, link)
        case "BinaryCmd" if not redirects and command["Op"] in _CONNECTORS:
            yield from _read_statement(command["X"], link, variables)
            yield from _read_statement(command["Y"], _CONNECTORS[command["Op"]], variables)
        case "ForClause" if not redirects and not command.get("Select"):
            yield from _read_loop(command, link, variables)
        case other:
            raise _AmbiguousJson(f"has a part that is not a simple command ({other})")


def _read_loop(command: _Tree, link: Connector, variables: Variables) -> Iterator[SimpleCommand]:
    loop = command["Loop"]
    if loop["Type"] != "WordIter":
        raise _AmbiguousJson("has a loop of an unsupported kind")
    items = [word for item in loop.get("Items") or [] for word in _read_words(item, variables)]
    passes = unroll(loop["Name"]["Value"], items, lambda known: _read_statements(command["Do"], known), variables, link)
    if passes is None:
        raise _AmbiguousJson("has a loop that cannot be unrolled")
    yield from passes


def _read_assignment(assign: _Tree) -> tuple[str, str]:
    if any(assign.get(mark) for mark in ("Append", "Naked", "Index", "Array")):
        raise _AmbiguousJson("sets a variable in an unsupported way")
    name = assign["Name"]["Value"]
    if not assign.get("Value"):
        return name, ""
    word = _read_word(assign["Value"], _NONE)
    if not word.literal:
        raise _AmbiguousJson("has a value that is not literal")
    return name, word.text


def _read_redirect(redirect: _Tree, variables: Variables) -> Redirect:
    operator = OPERATORS.get(redirect["Op"])
    if operator == "<<":
        quoted = any(part["Type"] != "Lit" or "\\" in part["Value"] for part in redirect["Word"]["Parts"])
        parts = (redirect.get("Hdoc") or {}).get("Parts") or []
        if not quoted or redirect.get("N") or any(part["Type"] != "Lit" for part in parts):
            raise _AmbiguousJson("has a here-document in which the shell may expand something")
        return Redirect("<<", Word("".join(part["Value"] for part in parts)))
    if operator is None or redirect.get("Hdoc"):
        raise _AmbiguousJson(f"has an unsupported redirect (`{redirect['Op']}`)")
    number = redirect["N"]["Value"] if redirect.get("N") else None
    if number is not None and not number.isdecimal():
        raise _AmbiguousJson("names a stream in an unsupported way")
    return Redirect(operator, _read_word(redirect["Word"], variables), None if number is None else int(number))


def _read_words(word: _Tree, variables: Variables) -> tuple[Word, ...]:
    # An argument with braces becomes several words.
    parts = word["Parts"]
    braced = expand_braces(parts[0]["Value"]) if len(parts) == 1 and parts[0]["Type"] == "Lit" else None
    if braced is None:
        return (_read_word(word, variables),)
    return tuple(Word(text, glob=_bare_text(text)[1] and text != "[") for text in braced)


def _read_word(word: _Tree, variables: Variables) -> Word:
    parts = word["Parts"]
    first = parts[0]
    opening = first["Value"] if first["Type"] == "Lit" else ""
    tilde = opening.startswith("~")
    # `~"/x"` is not expanded, since the quote ends the prefix, and `~name` is another user's home.
    if tilde and (opening[1:2] not in {"", "/"} or (opening == "~" and len(parts) > 1)):
        raise _AmbiguousJson("has a word whose `~` is not the home directory")
    text: list[str] = []
    glob = loose = False
    for part in parts:
        match part["Type"]:
            case "Lit":
                piece, wild = _bare_text(part["Value"])
                glob = glob or wild
            case "SglQuoted" if not part.get("Dollar"):
                piece = part.get("Value", "")
            case "DblQuoted" if not part.get("Dollar"):
                inner = [_quoted_word(each, variables) for each in part.get("Parts") or []]
                piece = "".join(each.text for each in inner)
                glob = glob or any(each.glob for each in inner)
            case "ParamExp":
                value = _variable_value(part, variables, quoted=False)
                piece, glob, loose = value.text, glob or value.glob, loose or value.loose
            case other:
                raise _AmbiguousJson(f"has a word that is not literal ({other})")
        text.append(piece)
    return Word("".join(text), tilde=tilde, glob=glob and text != ["["], loose=loose)


def _bare_text(value: str) -> tuple[str, bool]:
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


def _quoted_word(part: _Tree, variables: Variables) -> Word:
    if part["Type"] == "ParamExp":
        return _variable_value(part, variables, quoted=True)
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
    return Word("".join(text))


def _variable_value(part: _Tree, variables: Variables, *, quoted: bool) -> Word:
    name = part.get("Param", {}).get("Value", "")
    value = value_of(name, variables, quoted=quoted) if set(part) <= _PLAIN_VARIABLE else None
    if value is None:
        raise _AmbiguousJson("has a word that is not literal (ParamExp)")
    return value
