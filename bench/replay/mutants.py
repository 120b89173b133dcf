"""Wrong changes made of a right one: a commit with a line changed, a part left out, or other code broken."""

import re
from collections.abc import Iterator, Sequence
from random import Random  # noqa: TID251 - handed a seed, so that each run makes the same changes
from typing import Literal

from msgspec import Struct

from replay.commits import Change, is_code
from replay.oracle import AT_ONE_TIME
from replay.place import Place

Kind = Literal["gold", "tests alone", "part left out", "changed line", "other code broken"]
"""The commit itself | its tests without its code | without one hunk of its code | with one of its lines changed |
with a line changed in a file of code that it does not touch."""
KINDS: tuple[Kind, ...] = ("gold", "tests alone", "part left out", "changed line", "other code broken")
SWAPS = (
    (r"==", "!="),
    (r"!==?", "=="),
    (r"<=", ">"),
    (r">=", "<"),
    (r" < ", " >= "),
    (r" > ", " <= "),
    (r"(?<!\+)\+(?![+=])", "-"),
    (r"(?<!-)-(?![->=])", "+"),
    (r"\band\b", "or"),
    (r"\bor\b", "and"),
    (r"&&", "||"),
    (r"\|\|", "&&"),
    (r"\bnot ", ""),
    (r"\bTrue\b", "False"),
    (r"\bFalse\b", "True"),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
    (r"\b0\b", "1"),
    (r"\b1\b", "2"),
    (r"\bif (?=[^:{]*[:{])", "if not "),
)
"""What one place of a line becomes; a text that is no code any longer is a wrong change, too."""
COMMENT = re.compile(r"\s*(#|//|/?\*|\"\"\"|''')")
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


class Variant(Struct, frozen=True, kw_only=True):
    """A commit, or a wrong change that is made of it."""

    kind: Kind
    where: str
    """File and line, and what stands there instead: the same text each time."""
    path: str = ""
    old: str = ""
    new: str = ""
    """The text of the file in the commit, and what it becomes."""


def variants_of(change: Change, place: Place, random: Random) -> dict[Kind, list[Variant]]:
    """Return the candidates of each kind, in an order that `random` decides; whether one is wrong is not known yet."""
    code = [path for path in change.files if is_code(path) and path not in change.added]
    spans = {path: _spans(place, change, path) for path in code}
    texts = {path: _text(place, change.commit, path) for path in code if path not in change.removed}
    touched = [
        variant
        for path, text in texts.items()
        for variant in _changed_lines(path, text, _numbers(spans[path]), "changed line")
    ]
    parts = [_without(place, change, path, text, span) for path, text in texts.items() for span in spans[path]]
    others = sorted(set(map(str, filter(is_code, _paths(place, change.commit)))) - set(change.files))
    random.shuffle(others)
    broken = [
        variant
        for path in others[:6]
        for text in [_text(place, change.commit, path)]
        for variant in _changed_lines(path, text, range(1, text.count("\n") + 1), "other code broken")
    ]
    for each in (touched, parts, broken):
        random.shuffle(each)
    alone = Variant(kind="tests alone", where="the code of its base")
    return {
        "gold": [Variant(kind="gold", where="the commit")],
        "tests alone": [alone],
        "part left out": parts,
        "changed line": touched,
        "other code broken": broken,
    }


def commit_of(variant: Variant, change: Change, place: Place) -> str:
    """Return the commit of a variant, on the commit that it is made of."""
    if variant.kind == "gold":
        return change.commit
    place.reset(change.commit)
    if variant.kind == "tests alone":
        code = [path for path in change.files if is_code(path)]
        kept = [path for path in code if path not in change.added]
        if kept:
            place.git("checkout", "--quiet", change.base, "--", *kept)
        for path in set(code) - set(kept):
            (place.repo / path).unlink()
    else:
        (place.repo / variant.path).write_text(variant.new, newline="")
    place.git("add", "--all")  # not by force: the environment is ignored, and would be gone with the next checkout
    place.git("commit", "--quiet", "--allow-empty", "--no-verify", "--message", variant.kind, environ=AT_ONE_TIME)
    return place.git("rev-parse", "HEAD").strip()


def _changed_lines(path: str, text: str, numbers: Sequence[int], kind: Kind) -> Iterator[Variant]:
    lines = text.splitlines(keepends=True)
    for number in numbers:
        line = lines[number - 1] if number <= len(lines) else ""
        if COMMENT.match(line):
            continue
        for pattern, other in SWAPS:
            for match in re.finditer(pattern, line):
                now = line[: match.start()] + other + line[match.end() :]
                new = "".join([*lines[: number - 1], now, *lines[number:]])
                yield Variant(kind=kind, where=f"{path}:{number}: {now.strip()}", path=path, old=text, new=new)


def _spans(place: Place, change: Change, path: str) -> list[tuple[int, int]]:
    """Return the first line and the number of lines of each hunk, as the commit leaves them."""
    diff = place.git("diff", "-U0", "--no-renames", change.base, change.commit, "--", path)
    return [(int(first), int(count or 1)) for first, count in _HUNK.findall(diff)]


def _numbers(spans: Sequence[tuple[int, int]]) -> list[int]:
    return [number for first, count in spans for number in range(first, first + count)]


def _without(place: Place, change: Change, path: str, text: str, span: tuple[int, int]) -> Variant:
    """Return the commit without one of its hunks."""
    lines, (first, count) = text.splitlines(keepends=True), span
    start = first - 1 if count else first  # a hunk that only removes names the line before it
    new = "".join([*lines[:start], *_removed(place, change, path, span), *lines[start + count :]])
    return Variant(kind="part left out", where=f"{path}:{first}: {count} lines", path=path, old=text, new=new)


def _removed(place: Place, change: Change, path: str, span: tuple[int, int]) -> list[str]:
    """Return the lines that a hunk took out."""
    diff = place.git("diff", "-U0", "--no-renames", change.base, change.commit, "--", path)
    found = list(_HUNK.finditer(diff))
    for match, following in zip(found, [*found[1:], None], strict=True):
        if (int(match[1]), int(match[2] or 1)) == span:
            hunk = diff[match.end() : following.start() if following else len(diff)]
            return [line[1:] for line in hunk.splitlines(keepends=True)[1:] if line.startswith("-")]
    return []


def _paths(place: Place, commit: str) -> list[str]:
    return place.git("ls-tree", "-r", "--name-only", "-z", commit).split("\0")[:-1]


def _text(place: Place, commit: str, path: str) -> str:
    return place.git("show", f"{commit}:{path}")
