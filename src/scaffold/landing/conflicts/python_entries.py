"""Merge two changes of one statement by the entries of its brackets: parameters, arguments, keys, items, imports.

Pure. An entry has an identity, e.g. the name of a parameter, so both sides may add some in one place. Where the order
has a meaning, as in most lists, only one side may.
"""

import ast
import functools
import io
import itertools
import tokenize
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from scaffold.landing.conflicts.line_merge import merge_lines, merged_keys
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.python_entities import FUNCTIONS, parse_python

ONE_LINE = 88
"""Entries of one line stay on one line up to this length, or up to the longest line of a version."""
INNER: Mapping[type[ast.AST], Sequence[str]] = {
    ast.Expr: ("value",),
    ast.Assign: ("value",),
    ast.AnnAssign: ("annotation", "value"),
    ast.AugAssign: ("value",),
    ast.Return: ("value",),
    ast.Await: ("value",),
    ast.keyword: ("value",),
    ast.Attribute: ("value",),
    ast.Call: ("func",),
    ast.FunctionDef: ("returns",),
    ast.AsyncFunctionDef: ("returns",),
    ast.Compare: ("comparators",),
}
"""The parts of a syntax node that are merged by themselves."""
ENTRIES: Mapping[type[ast.AST], Sequence[str]] = {
    ast.Call: ("args", "keywords"),
    ast.Dict: ("keys", "values"),
    ast.Set: ("elts",),
    ast.List: ("elts",),
    ast.Tuple: ("elts",),
    ast.ImportFrom: ("names",),
    ast.FunctionDef: ("args",),
    ast.AsyncFunctionDef: ("args",),
}
"""The parts of a syntax node that are entries in brackets; an import may have none."""
SETS_BY_CALL: Mapping[str, int] = {"set": 0, "frozenset": 0, "isinstance": 1, "issubclass": 1}
"""{builtin: which of its arguments is a collection whose order has no meaning}."""


@functools.lru_cache(maxsize=4)
def _lines_of(source: str) -> tuple[list[str], list[int]]:
    """Return the lines, and where each begins; once for all entries of a large table."""
    lines = source.splitlines(keepends=True)
    return lines, [0, *itertools.accumulate(map(len, lines))]


class _Part(Struct, frozen=True):
    """A syntax node and the source that it was parsed from; `in_any_order` says so of its entries."""

    source: str
    node: ast.AST
    in_any_order: bool = False

    @property
    def span(self) -> tuple[int, int]:
        """Where its text begins and ends in the source."""
        node, (lines, starts) = self.node, _lines_of(self.source)
        ends = [(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))]
        ends.append((getattr(node, "end_lineno", 1), getattr(node, "end_col_offset", 0)))
        start, end = (starts[row - 1] + len(lines[row - 1].encode()[:at].decode()) for row, at in ends)
        return start, end

    @property
    def text(self) -> str:
        """Its own text."""
        start, end = self.span
        return self.source[start:end]

    @property
    def meaning(self) -> str:
        """What it says, without layout and comments."""
        return ast.dump(self.node)

    def inner(self, name: str) -> Sequence["_Part"]:
        """Return the nodes in a field."""
        found = getattr(self.node, name)
        nodes = [each for each in (found if isinstance(found, list) else [found]) if each is not None]
        return [_Part(self.source, each, in_any_order=self._orders_nothing(each)) for each in nodes]

    def _orders_nothing(self, inner: ast.AST) -> bool:
        match self.node:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")])
                | ast.AnnAssign(target=ast.Name(id="__all__"))
                | ast.AugAssign(target=ast.Name(id="__all__"))
                | ast.Compare(ops=[ast.In() | ast.NotIn()])
            ):
                return True
            case ast.Call(func=ast.Name(id=name), args=args) if name in SETS_BY_CALL:
                return args.index(inner) == SETS_BY_CALL[name] if inner in args else False
        return isinstance(inner, ast.Set | ast.Dict)


class _BracketEntry(Struct, frozen=True):
    """An entry of a bracket: its identity, its text, what is before it since the last comma, a comment on its line."""

    key: Hashable
    text: str
    before: str
    comment: str
    at: int
    """Where its text begins in the source."""
    part: _Part | None = None

    @property
    def meaning(self) -> str:
        """What it says, without layout and comments."""
        return self.part.meaning if self.part else " ".join(_words(self.text))


class _Bracket(Struct, frozen=True):
    """The entries of a bracket, where the text between its ends is, and what follows the last entry."""

    entries: tuple[_BracketEntry, ...]
    start: int
    end: int
    rest: str
    comma: bool
    """Whether a comma follows the last one."""

    @property
    def by_key(self) -> dict[Hashable, _BracketEntry]:
        """The entries by their identity."""
        if len(found := {each.key: each for each in self.entries}) < len(self.entries):
            raise NotMergeable("an entry occurs twice")
        return found


def merge_entries(base: str, ours: str, theirs: str, *, name: str, is_head: bool = False) -> str:
    """Return a statement, or the head of a function, with the entries of both sides in the form of ours.

    Raises NotMergeable with the reason.
    """
    was, mine, other = (_parse_alone(text, is_head=is_head) for text in (base, ours, theirs))
    start, end = mine.span
    text = mine.source[:start] + _merge_parts(was, mine, other, name) + mine.source[end:]
    text = text.removeprefix(_INDENTED)
    return text[: text.rindex("\n", 0, -1) + 1] if is_head else text


_INDENTED = "if 1:\n"


def _parse_alone(text: str, *, is_head: bool) -> _Part:
    margin = text[: len(text) - len(text.lstrip())]
    source = (_INDENTED if margin else "") + text + (f"{margin}    pass\n" if is_head else "")
    body: Sequence[ast.stmt] = parse_python(source).body
    if margin and isinstance(body[0], ast.If):
        body = body[0].body
    if len(body) != 1:
        raise NotMergeable("several statements share a line")
    return _Part(source, body[0])


def _merge_parts(base: _Part, ours: _Part, theirs: _Part, name: str) -> str:
    """Return the text of ours with what theirs changed. Raises NotMergeable if both changed what has no entries."""
    if theirs.meaning in (base.meaning, ours.meaning):
        return ours.text
    if ours.meaning == base.meaning:
        return theirs.text
    kind = type(ours.node)
    if len({_frame(each.node) for each in (base, ours, theirs)}) > 1:
        raise NotMergeable(f"both sides change the same lines of the part `{name}`")
    edits = []
    for field in INNER.get(kind, ()):
        inner = [each.inner(field) for each in (base, ours, theirs)]
        if len({len(each) for each in inner}) > 1:
            raise NotMergeable(f"both sides change the same lines of the part `{name}`")
        edits += [(o.span, _merge_parts(b, o, t, name)) for b, o, t in zip(*inner, strict=True)]
    if kind in ENTRIES:
        edits.append(_merge_brackets(base, ours, theirs, name))
    start, end = ours.span
    text = ours.source
    for (at, until), now in sorted(edits, reverse=True):
        text = text[:at] + now + text[until:]
    return text[start : end + len(text) - len(ours.source)]


def _frame(node: ast.AST) -> str:
    """Return what a node says without the parts that are merged by themselves; all of it if it has none."""
    inner = {*INNER.get(type(node), ()), *ENTRIES.get(type(node), ())}
    return ast.dump(type(node)(**{name: None if name in inner else value for name, value in ast.iter_fields(node)}))


def _merge_brackets(base: _Part, ours: _Part, theirs: _Part, name: str) -> tuple[tuple[int, int], str]:
    """Return (where the entries are in ours, the merged ones)."""
    was, mine, other = (_read_bracket(each) for each in (base, ours, theirs))
    versions = [each.by_key for each in (was, mine, other)]
    merged: dict[Hashable, _BracketEntry] = {}
    for key in dict.fromkeys(key for each in versions for key in each):
        base_one, our_one, their_one = (each.get(key) for each in versions)
        entry = _merge_entry(base_one, our_one, their_one, name)
        if entry is not None:
            merged[key] = entry
    keys = [list(each) for each in versions]
    if isinstance(ours.node, ast.List | ast.Tuple) and not ours.in_any_order:
        order = merge_lines(*keys)
        if order is None:
            raise NotMergeable(f"both sides change one place of a list in `{name}`, whose order may matter")
    else:
        order = tuple(merged_keys(*keys))
    if isinstance(ours.node, FUNCTIONS):
        _require_defaults(was, mine, other, name)
    if isinstance(ours.node, ast.ImportFrom) and not order:
        raise NotMergeable("both sides together import nothing from a module")
    like = (
        theirs
        if "\n" in _inside(theirs, other) and "\n" not in _inside(ours, mine) and ours.source[mine.start - 1] in "([{"
        else ours
    )
    shape = other if like is theirs else mine
    return (mine.start, mine.end), _written([merged[key] for key in order], like, shape)


def _merge_entry(
    base: _BracketEntry | None, ours: _BracketEntry | None, theirs: _BracketEntry | None, name: str
) -> _BracketEntry | None:
    was, mine, other = (each and each.meaning for each in (base, ours, theirs))
    if other in (was, mine):
        return ours
    if mine == was:
        return theirs
    if ours and theirs and base and ours.part and theirs.part and base.part:
        (start, end), merged = ours.part.span, _merge_parts(base.part, ours.part, theirs.part, name)
        text = ours.text[: start - ours.at] + merged + ours.text[end - ours.at :]
        return structs.replace(ours, text=text)
    what = ours or theirs or base
    said = what.text if what else ""
    raise NotMergeable(
        f"both sides change `{said}` of `{name}`" if base else f"both sides add `{said}`, and differently"
    )


def _require_defaults(was: _Bracket, mine: _Bracket, other: _Bracket, name: str) -> None:
    # A parameter that one side moves to another place is safe only if no caller has to give it by its place.
    added = [[each for each in side.entries if each.key not in was.by_key] for side in (mine, other)]
    if all(added) and any("=" not in _words(each.text) for side in added for each in side):
        raise NotMergeable(f"both sides add parameters to `{name}`, and one without a default")


def _inside(part: _Part, bracket: _Bracket) -> str:
    return part.source[bracket.start : bracket.end]


class _Token(Struct, frozen=True):
    kind: int
    text: str
    start: int
    end: int
    row: int


def _tokens_of(text: str) -> list[_Token]:
    """Return what a text inside of brackets consists of, with offsets in it."""
    lines = [0, *(at + 1 for at, char in enumerate(text) if char == "\n")]
    found = tokenize.generate_tokens(io.StringIO(f"({text}\n)").readline)
    try:
        inner = [each for each in found if each.type not in {tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER}][1:-1]
    except tokenize.TokenError as error:
        raise NotMergeable(f"its brackets cannot be read: {error}") from error
    tokens = []
    for each in inner:
        start, end = (lines[row - 1] + column - (row == 1) for row, column in (each.start, each.end))
        tokens.append(_Token(each.type, each.string, start, end, each.end[0]))
    return tokens


def _bracket_span(part: _Part) -> tuple[int, int]:
    """Return where the text between the brackets of a node begins and ends."""
    (start, end), node = part.span, part.node
    if isinstance(node, ast.Call):
        return part.source.index("(", part.inner("func")[0].span[1]) + 1, end - 1
    if not isinstance(node, (ast.ImportFrom, *FUNCTIONS)):
        bracketed = not isinstance(node, ast.Tuple) or (part.source[start] == "(" and part.text[-1:] == ")")
        return (start + 1, end - 1) if bracketed else (start, end)
    depth, opened = 0, start
    for each in _tokens_of(part.text):
        if each.kind == tokenize.NAME and each.text == "import" and isinstance(node, ast.ImportFrom):
            opened = start + each.end
        if each.kind == tokenize.OP and each.text in "([{":
            opened, depth = (start + each.end if depth == 0 and each.text == "(" else opened), depth + 1
        elif each.kind == tokenize.OP and each.text in ")]}":
            depth -= 1
            if depth == 0 and each.text == ")":
                return opened, start + each.start
    return opened + len(part.source[opened:end]) - len(part.source[opened:end].lstrip()), end


def _read_bracket(part: _Part) -> _Bracket:
    start, end = _bracket_span(part)
    inner = part.source[start:end]
    found: list[_BracketEntry] = []
    done, depth, last, comma, own = 0, 0, 0, False, list[_Token]()
    for each in [*_tokens_of(inner), None]:
        if each and each.kind == tokenize.OP:
            depth += (each.text in "([{") - (each.text in ")]}")
        ends = each is None or (each.kind == tokenize.OP and each.text == "," and depth == 0)
        if ends and own:
            text = inner[own[0].start : own[-1].end]
            found.append(_BracketEntry(None, text, inner[done : own[0].start], "", at=start + own[0].start))
            done, comma, last, own = (each.end if each else own[-1].end), each is not None, own[-1].row, []
        elif each and each.kind == tokenize.COMMENT and not own and found and each.row == last:
            found[-1] = structs.replace(found[-1], comment=each.text)
            done = each.end
        elif each and each.kind != tokenize.COMMENT:
            own.append(each)
    return _Bracket(tuple(_identified(part, found)), start, end, inner[done:], comma)


def _identified(part: _Part, entries: Sequence[_BracketEntry]) -> Iterator[_BracketEntry]:
    node, keys = part.node, list[Hashable]()
    inner: Sequence[_Part | None] = [None] * len(entries)
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            words = [_words(each.text) for each in entries]
            keys = ["".join(each[:2] if each[0].startswith("*") else each[:1]) for each in words]
        case ast.ImportFrom(names=names):
            keys = [each.asname or each.name for each in names]
        case ast.Dict(keys=names):
            keys = [each.value if isinstance(each, ast.Constant) else each and ("", ast.dump(each)) for each in names]
            inner = part.inner("values")
        case ast.Call():
            parts = sorted([*part.inner("args"), *part.inner("keywords")], key=lambda each: each.span)
            kinds = [each.node.arg or "**" if isinstance(each.node, ast.keyword) else "" for each in parts]
            places = defaultdict[str, Iterator[int]](itertools.count)
            keys, inner = [(kind, next(places[kind])) for kind in kinds], parts
        case _:
            inner = items = part.inner("elts")
            keys = [each.meaning for each in items]
    if len(keys) != len(entries) or None in keys:
        raise NotMergeable("both sides change a bracket that has no plain entries")
    for key, entry, value in zip(keys, entries, inner, strict=True):
        yield structs.replace(entry, key=key, part=value)


def _words(text: str) -> list[str]:
    return [each.text for each in _tokens_of(text)]


def _written(entries: Sequence[_BracketEntry], like: _Part, shape: _Bracket) -> str:
    """Return the text between the brackets, laid out as in one version; what it has unchanged stays as it is."""
    inside, texts = _inside(like, shape), [each.text for each in entries]
    row = like.source[like.source.rfind("\n", 0, shape.start) + 1 : shape.start]
    margin = row[: len(row) - len(row.lstrip())]
    longest = max(ONE_LINE, *map(len, like.source.split("\n")))
    line = ", ".join(texts) + "," * shape.comma
    fits = "\n" not in inside + line and len(row) + len(line) < longest
    if like.source[shape.start - 1] not in "([{":
        is_import = isinstance(like.node, ast.ImportFrom)
        return line if fits or not is_import else f"(\n{margin}    " + f",\n{margin}    ".join(texts) + f",\n{margin})"
    if fits:
        return line
    if "\n" not in inside:
        own, first, rest = dict[Hashable, str](), f"\n{margin}    ", f"\n{margin}"
    else:
        own, first, rest = {each.key: each.before for each in shape.entries}, shape.entries[0].before, shape.rest
    broken = [each for each in own.values() if "\n" in each] or [first]
    default = " " if len(own) > 1 and own and broken == [first] else "\n" + broken[-1].rpartition("\n")[2]
    text = ""
    for at, each in enumerate(entries):
        before = own.get(each.key, each.before if "#" in each.before else first if at == 0 else default)
        # Only an entry that is the first may stand right behind the bracket.
        text += before if "\n" in before or (at and before) else first if at == 0 else default
        text += each.text
        text += "," * (at < len(entries) - 1 or shape.comma or not own) + (f"  {each.comment}" if each.comment else "")
    return text + rest
