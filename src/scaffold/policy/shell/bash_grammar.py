"""The first parser, tree-sitter's grammar for bash: what it says a command runs, and what it sees where it cannot."""

from collections.abc import Iterator

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from scaffold.policy.shell.script import OPERATORS, Link, NotUnderstood, Reading, Redirect, Simple, Understood, Word
from scaffold.policy.shell.word import literal

_LANGUAGE = Language(tree_sitter_bash.language())
_WORDS = frozenset({
    *("word", "string", "raw_string", "concatenation", "number", "ansi_c_string", "translated_string"),
    *("simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"),
    *("brace_expression", "test_operator", "regex", "extglob_pattern"),
})  # fmt: skip
_REDIRECTED = frozenset({"command", "test_command", "list", "pipeline"})
_IN_TEST = frozenset({"[", "]", "!", "=", "==", "!=", "-a", "-o"})


class _Unclear(Exception):
    """The tree holds something that is not surely literal; the argument names it."""


def read_by_grammar(command: str) -> Reading:
    """Return what the grammar makes of `command`, which must be fit to be parsed."""
    source = command.encode()
    root = Parser(_LANGUAGE).parse(source).root_node
    if root.has_error:
        return NotUnderstood("is no valid bash, or none that can be parsed", tuple(_seen(root)))
    if not _is_whole(root, source):
        return NotUnderstood("has something in it that its parser passes over")
    try:
        commands = tuple(_statements(root))
    except _Unclear as unclear:
        return NotUnderstood(str(unclear), tuple(_seen(root)))
    if not commands:
        return NotUnderstood("runs nothing")
    return Understood(commands)


def _statements(root: Node) -> Iterator[Simple]:
    link: Link = ""
    for child in root.children:
        if child.is_named:
            yield from _statement(child, link)
            link = ";"
        elif child.type not in {";", "\n"}:
            raise _Unclear(f"has `{child.type}` in it")


def _is_whole(root: Node, source: bytes) -> bool:
    """Tell whether nothing but blanks is left out between the leaves: what the parser drops, a shell may not."""
    at = 0
    for leaf in _leaves(root):
        if source[at : leaf.start_byte].replace(b"\\\n", b"").strip(b" \t\n"):
            return False
        at = leaf.end_byte
    return not source[at:].strip(b" \t\n")


def _leaves(node: Node) -> Iterator[Node]:
    if node.type in _WORDS or not node.children:
        yield node
        return
    for child in node.children:
        yield from _leaves(child)


def _statement(node: Node, link: Link) -> Iterator[Simple]:
    match node.type:
        case "command" | "test_command":
            yield _simple(node, link)
        case "redirected_statement":
            yield from _redirected(node, link)
        case "list" | "pipeline":
            yield from _joined(node, link)
        case "comment":
            raise _Unclear("has a comment in it")
        case other:
            raise _Unclear(f"has a part that is not a simple command ({other.replace('_', ' ')})")


def _joined(node: Node, link: Link) -> Iterator[Simple]:
    for child in node.children:
        if child.is_named:
            yield from _statement(child, link)
        elif child.type == "&&":
            link = "&&"
        elif child.type == "||":
            link = "||"
        elif child.type == "|":
            link = "|"
        else:
            raise _Unclear(f"has `{child.type}` in it")


def _redirected(node: Node, link: Link) -> Iterator[Simple]:
    """Yield the commands of the body, the redirects at the last of them, which is the one they are meant for."""
    body = node.child_by_field_name("body")
    if body is None or body.type not in _REDIRECTED:
        raise _Unclear("redirects something that is not a simple command")
    *before, last = _statement(body, link)
    words: list[Word] = []
    redirects: list[Redirect] = []
    for child in node.children[1:]:
        if child.type != "file_redirect":
            raise _Unclear(f"has a redirect that is not read here ({child.type.replace('_', ' ')})")
        redirect, more = _redirect(child)
        redirects.append(redirect)
        words += more
    yield from before
    yield Simple((*last.words, *words), last.assignments, (*last.redirects, *redirects), last.link)


def _redirect(node: Node) -> tuple[Redirect, list[Word]]:
    """Return the redirect and the arguments that follow it, which the grammar takes for further targets."""
    descriptor: int | None = None
    operator = ""
    targets: list[Word] = []
    for child in node.children:
        if child.type == "file_descriptor":
            descriptor = _number(_text(child))
        elif child.is_named:
            targets.append(_word(child))
        else:
            operator = child.type
    if operator not in OPERATORS or not targets:
        raise _Unclear(f"has a redirect that is not read here (`{operator}`)")
    redirect = Redirect(OPERATORS[operator], targets[0], descriptor)
    if operator in {">&", "<&"} and not redirect.duplicates:
        raise _Unclear(f"has a target after `{operator}`, which bash expands twice")
    return redirect, targets[1:]


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 4:
        raise _Unclear("names a stream in a way that is not read here")
    return int(text)


def _simple(node: Node, link: Link) -> Simple:
    words: list[Word] = []
    assignments: list[tuple[str, str]] = []
    redirects: list[Redirect] = []
    for child in _parts(node):
        match child.type:
            case "variable_assignment":
                assignments.append(_assignment(child))
            case "file_redirect":
                redirect, more = _redirect(child)
                redirects.append(redirect)
                words += more
            case _:
                words.append(_word(child))
    return Simple(tuple(words), tuple(assignments), tuple(redirects), link)


def _parts(node: Node) -> Iterator[Node]:
    """Yield the words, assignments and redirects of a command in their order."""
    if node.type != "test_command":
        for child in node.children:
            yield from child.children if child.type == "command_name" else (child,)
        return
    if _text(node).startswith(("[[", "((")):
        raise _Unclear("has a `[[` or `((` in it")
    yield from _leaves(node)


def _assignment(node: Node) -> tuple[str, str]:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None or name.type != "variable_name" or _text(node)[len(_text(name)) :][:1] != "=":
        raise _Unclear("sets a variable in a way that is not read here")
    if value is None:
        return _text(name), ""
    return _text(name), _literal(value).text


def _literal(node: Node) -> Word:
    word = _word(node)
    if not word.literal:
        raise _Unclear(f"has a value that is not literal ({_text(node)[:60]!r})")
    return word


def _word(node: Node) -> Word:
    text = _text(node)
    if node.type not in _WORDS and text not in _IN_TEST:
        raise _Unclear(f"has a part that is not a word ({node.type.replace('_', ' ')})")
    word = literal(text)
    if word is None:
        raise _Unclear(f"has a word that is not literal ({text[:60]!r})")
    return word


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _seen(node: Node) -> Iterator[Simple]:
    """Yield every simple command and every redirect within `node`, words that are not literal as they are written."""
    if node.type in {"command", "test_command", "declaration_command"}:
        leaves = [part for part in _loose_parts(node) if part.type != "file_redirect"]
        assigned = [part for part in leaves if part.type == "variable_assignment"]
        words = tuple(_as_written(part) for part in leaves if part.type != "variable_assignment")
        yield Simple(words, tuple(_loose_assignment(part) for part in assigned))
    elif node.type == "file_redirect":
        yield from _loose_redirect(node)
    for child in node.children:
        yield from _seen(child)


def _loose_parts(node: Node) -> Iterator[Node]:
    for child in node.children:
        if child.type == "command_name":
            yield from child.children
        else:
            yield child


def _loose_assignment(node: Node) -> tuple[str, str]:
    name, _, value = _text(node).partition("=")
    return name, value


def _loose_redirect(node: Node) -> Iterator[Simple]:
    operator = next((child.type for child in node.children if child.type in OPERATORS), None)
    for target in node.children_by_field_name("destination") if operator else ():
        yield Simple((), redirects=(Redirect(OPERATORS[operator or ">"], _as_written(target)),))


def _as_written(node: Node) -> Word:
    text = _text(node)
    return literal(text) or Word(text, sure=False)
