"""The first parser, tree-sitter's bash grammar. It also finds the visible commands in a text it cannot parse."""

import re
from collections.abc import Iterator

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from scaffold.policy.shell.parse.unquoting import Variables, expand_braces, unquote_word, unroll
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

_LANGUAGE = Language(tree_sitter_bash.language())
_WORDS = frozenset({
    *("word", "string", "raw_string", "concatenation", "number", "ansi_c_string", "translated_string"),
    *("simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"),
    *("brace_expression", "test_operator", "regex", "extglob_pattern"),
})  # fmt: skip
_REDIRECTED = frozenset({"command", "test_command", "list", "pipeline"})
_AROUND_BODY = frozenset({"do", "done"})
_HERE_DOCUMENT = frozenset({"<<", "heredoc_start", "heredoc_body", "heredoc_end"})
_QUOTED_DELIMITER = re.compile(r"'[A-Za-z_]+'|\"[A-Za-z_]+\"|\\[A-Za-z_]+")
_NONE: Variables = {}
_IN_TEST = frozenset({"[", "]", "!", "=", "==", "!=", "-a", "-o"})


class _AmbiguousNode(Exception):
    """The tree contains something that may not be literal; the argument names it."""


def parse_with_tree_sitter(command: str) -> ParseResult:
    """Return the parse result for `command`, which must have passed the precheck."""
    source = command.encode()
    root = Parser(_LANGUAGE).parse(source).root_node
    if root.has_error:
        return UnparsedCommand("is not valid bash or cannot be parsed", tuple(_visible_commands(root)))
    # The grammar drops an escaped blank without an error, and bash does not.
    if not _is_whole(root, source):
        return UnparsedCommand("contains text that the parser skips")
    try:
        commands = tuple(_read_statements(root))
    except _AmbiguousNode as unclear:
        return UnparsedCommand(str(unclear), tuple(_visible_commands(root)))
    if not commands:
        return UnparsedCommand("runs nothing")
    return ParsedCommand(commands)


def _read_statements(root: Node, variables: Variables = _NONE) -> Iterator[SimpleCommand]:
    link: Connector = ""
    for child in root.children:
        if child.is_named:
            yield from _read_statement(child, link, variables)
            link = ";"
        elif child.type not in {";", "\n", *_AROUND_BODY}:
            raise _AmbiguousNode(f"contains `{child.type}`")


def _is_whole(root: Node, source: bytes) -> bool:
    # A shell may run text that the parser drops: only spaces may lie between the leaves.
    at = 0
    for leaf in _leaf_nodes(root):
        if source[at : leaf.start_byte].replace(b"\\\n", b"").strip(b" \t\n"):
            return False
        at = leaf.end_byte
    return not source[at:].strip(b" \t\n")


def _leaf_nodes(node: Node) -> Iterator[Node]:
    if node.type in _WORDS or not node.children:
        yield node
        return
    for child in node.children:
        yield from _leaf_nodes(child)


def _read_statement(node: Node, link: Connector, variables: Variables) -> Iterator[SimpleCommand]:
    match node.type:
        case "command" | "test_command":
            yield _read_simple(node, link, variables)
        case "redirected_statement":
            yield from _read_redirected(node, link, variables)
        case "list" | "pipeline":
            yield from _list_commands(node, link, variables)
        case "for_statement":
            yield from _read_loop(node, link, variables)
        case "comment":
            raise _AmbiguousNode("contains a comment")
        case other:
            raise _AmbiguousNode(f"has a part that is not a simple command ({other.replace('_', ' ')})")


def _list_commands(node: Node, link: Connector, variables: Variables) -> Iterator[SimpleCommand]:
    for child in node.children:
        if child.is_named:
            yield from _read_statement(child, link, variables)
        elif child.type == "&&":
            link = "&&"
        elif child.type == "||":
            link = "||"
        elif child.type == "|":
            link = "|"
        else:
            raise _AmbiguousNode(f"contains `{child.type}`")


def _read_loop(node: Node, link: Connector, variables: Variables) -> Iterator[SimpleCommand]:
    # `select` has the same node, but waits for a person.
    name, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
    if name is None or body is None or body.type != "do_group" or node.children[0].type != "for":
        raise _AmbiguousNode("has a loop of an unsupported kind")
    items = [word for value in node.children_by_field_name("value") for word in _read_words(value, variables)]
    passes = unroll(_node_text(name), items, lambda known: _read_statements(body, known), variables, link)
    if passes is None:
        raise _AmbiguousNode("has a loop that cannot be unrolled")
    yield from passes


def _read_redirected(node: Node, link: Connector, variables: Variables) -> Iterator[SimpleCommand]:
    """Yield the commands of the body, the last one with the redirects, and those that a here-document is piped to."""
    body = node.child_by_field_name("body")
    if body is None or body.type not in _REDIRECTED:
        raise _AmbiguousNode("redirects something that is not a simple command")
    *before, last = _read_statement(body, link, variables)
    words: list[Word] = []
    redirects: list[Redirect] = []
    piped: list[SimpleCommand] = []
    for part in _redirect_parts(node):
        match part.type:
            case "file_redirect":
                redirect, more = _read_redirect(part, variables)
                redirects.append(redirect)
                words += more
            case "heredoc_redirect":
                redirects.append(_here_document(part))
            case "pipeline":
                piped += _list_commands(part, "", variables)
            case other:
                raise _AmbiguousNode(f"has an unsupported redirect ({other.replace('_', ' ')})")
    yield from before
    # The grammar attaches the redirects to the whole list; bash gives them to its last command.
    yield SimpleCommand((*last.words, *words), last.assignments, (*last.redirects, *redirects), last.link)
    yield from piped


def _redirect_parts(node: Node) -> Iterator[Node]:
    # The grammar puts what follows a here-document's delimiter inside it.
    for child in node.children[1:]:
        yield child
        inside = child.children if child.type == "heredoc_redirect" else ()
        yield from (each for each in inside if each.type not in _HERE_DOCUMENT)


def _here_document(node: Node) -> Redirect:
    # The delimiter must be quoted, so that nothing in the text expands.
    [start] = [each for each in node.children if each.type == "heredoc_start"]
    if not _QUOTED_DELIMITER.fullmatch(_node_text(start)):
        raise _AmbiguousNode("has a here-document in which the shell may expand something")
    return Redirect("<<", Word("".join(_node_text(each) for each in node.children if each.type == "heredoc_body")))


def _read_redirect(node: Node, variables: Variables) -> tuple[Redirect, list[Word]]:
    # The grammar takes the arguments after a redirect for further targets.
    descriptor: int | None = None
    operator = ""
    targets: list[Word] = []
    for child in node.children:
        if child.type == "file_descriptor":
            text = _node_text(child)
            if not text.isdecimal() or len(text) > 4:
                raise _AmbiguousNode("names a stream in an unsupported way")
            descriptor = int(text)
        elif child.is_named:
            targets.append(_read_word(child, variables))
        else:
            operator = child.type
    if operator not in OPERATORS or not targets:
        raise _AmbiguousNode(f"has an unsupported redirect (`{operator}`)")
    redirect = Redirect(OPERATORS[operator], targets[0], descriptor)
    # Bash runs a substitution in such a target even out of single quotes.
    if operator in {">&", "<&"} and not redirect.duplicates:
        raise _AmbiguousNode(f"has a target after `{operator}`, which bash expands twice")
    return redirect, targets[1:]


def _read_simple(node: Node, link: Connector, variables: Variables) -> SimpleCommand:
    words: list[Word] = []
    assignments: list[tuple[str, str]] = []
    redirects: list[Redirect] = []
    for child in _command_parts(node):
        match child.type:
            case "variable_assignment":
                assignments.append(_read_assignment(child))
            case "file_redirect":
                redirect, more = _read_redirect(child, variables)
                redirects.append(redirect)
                words += more
            case _:
                words += _read_words(child, variables)
    return SimpleCommand(tuple(words), tuple(assignments), tuple(redirects), link)


def _command_parts(node: Node) -> Iterator[Node]:
    if node.type != "test_command":
        for child in node.children:
            yield from child.children if child.type == "command_name" else (child,)
        return
    if _node_text(node).startswith(("[[", "((")):
        raise _AmbiguousNode("contains `[[` or `((`")
    yield from _leaf_nodes(node)


def _read_assignment(node: Node) -> tuple[str, str]:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None or name.type != "variable_name" or _node_text(node)[len(_node_text(name)) :][:1] != "=":
        raise _AmbiguousNode("sets a variable in an unsupported way")
    if value is None:
        return _node_text(name), ""
    word = _read_word(value, _NONE)
    if not word.literal:
        raise _AmbiguousNode(f"has a value that is not literal ({_node_text(value)[:60]!r})")
    return _node_text(name), word.text


def _read_words(node: Node, variables: Variables) -> tuple[Word, ...]:
    # An argument with braces becomes several words.
    braced = expand_braces(_node_text(node)) if node.type in _WORDS else None
    if braced is None:
        return (_read_word(node, variables),)
    return tuple(word for text in braced if (word := unquote_word(text)))


def _read_word(node: Node, variables: Variables) -> Word:
    text = _node_text(node)
    if node.type not in _WORDS and text not in _IN_TEST:
        raise _AmbiguousNode(f"has a part that is not a word ({node.type.replace('_', ' ')})")
    word = unquote_word(text, variables)
    if word is None:
        raise _AmbiguousNode(f"has a word that is not literal ({text[:60]!r})")
    return word


def _node_text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _visible_commands(node: Node) -> Iterator[SimpleCommand]:
    """Yield every simple command and redirect within `node`; words that are not literal keep their raw text."""
    if node.type in {"command", "test_command", "declaration_command"}:
        leaves = [part for part in _loose_parts(node) if part.type != "file_redirect"]
        assigned = [part for part in leaves if part.type == "variable_assignment"]
        words = tuple(_as_written(part) for part in leaves if part.type != "variable_assignment")
        yield SimpleCommand(words, tuple(_loose_assignment(part) for part in assigned))
    elif node.type == "file_redirect":
        operator = next((child.type for child in node.children if child.type in OPERATORS), None)
        for target in node.children_by_field_name("destination") if operator else ():
            yield SimpleCommand((), redirects=(Redirect(OPERATORS[operator or ">"], _as_written(target)),))
    for child in node.children:
        yield from _visible_commands(child)


def _loose_parts(node: Node) -> Iterator[Node]:
    for child in node.children:
        if child.type == "command_name":
            yield from child.children
        else:
            yield child


def _loose_assignment(node: Node) -> tuple[str, str]:
    name, _, value = _node_text(node).partition("=")
    return name, value


def _as_written(node: Node) -> Word:
    text = _node_text(node)
    return unquote_word(text) or Word(text, sure=False)
