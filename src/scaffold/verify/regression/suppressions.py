"""Count the comments and attributes that the work adds to silence linters and type checkers: `# noqa`, `@ts-ignore`.

A silenced finding may be wrong or the actual defect; no gate can tell any more. The same holds for comments that
exclude lines from a coverage with a threshold.
"""

import io
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.core.printable_text import count_of, join_limited, utf8_safe
from scaffold.core.proof.contract import Doubt
from scaffold.core.proof.gates import Gate, GateKind, GateResult
from scaffold.git import commits
from scaffold.git.commits import PathChange
from scaffold.git.trees.links import follow_links
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.locate_tests import path_from_gate
from scaffold.verify.paths.loaded_files import says_commands

MAX_FILES = 5
"""The most files named in a doubt."""


class Suppression(Struct, frozen=True):
    """One way to silence a tool."""

    name: str
    """The name shown to people: `type: ignore`."""
    pattern: re.Pattern[str]
    """Matches a comment, or for Rust the code without comments."""
    silences: frozenset[GateKind]
    tools: frozenset[str]
    """The programs that obey it, as commands name them."""


def _make_suppression(name: str, pattern: str, silences: set[GateKind], *tools: str) -> Suppression:
    return Suppression(name, re.compile(pattern), frozenset(silences), frozenset(tools))


_STRICTER = (
    r"(?:(?:strict|warn|disallow|check)[\w-]*(?:\s*=\s*(?:true|yes|on|1))?"
    r"|enable[_-]error[_-]code\s*=\s*(?:\"[^\"]*\"|[\w-]+))"
)
"""An option in a comment for mypy with which it reports more."""
_PYTHON = (
    _make_suppression("noqa", r"(?i)#\s*(?:(?:ruff|flake8)\s*[:=]\s*)?noqa\b", {"lint"}, "ruff", "flake8"),
    _make_suppression(
        "type: ignore", r"#\s*type:\s*ignore\b", {"typecheck"}, "mypy", "dmypy", "pyright", "basedpyright"
    ),
    _make_suppression(
        "mypy", rf"(?i)#\s*mypy:(?!\s*{_STRICTER}(?:\s*,\s*{_STRICTER})*\s*$)", {"typecheck"}, "mypy", "dmypy"
    ),
    _make_suppression("pyright", r"#\s*pyright:(?!\s*strict)", {"typecheck"}, "pyright", "basedpyright"),
    _make_suppression("pylint: disable", r"#\s*pylint:\s*(?:disable|skip-file)", {"lint"}, "pylint"),
    _make_suppression("nosec", r"#\s*nosec\b", {"lint"}, "bandit", "ruff"),
    _make_suppression("no cover", r"(?i)#\s*pragma[:\s]\s*no\s*(?:cover|branch)\b", {"test"}),
)
_SCRIPT = (
    _make_suppression("eslint-disable", r"^/[/*]\s*eslint(?:-disable|\s)", {"lint"}, "eslint"),
    _make_suppression("biome-ignore", r"^/[/*]\s*biome-ignore", {"lint"}, "biome"),
    _make_suppression(
        "coverage ignore", r"^/[/*]\s*(?:(?:istanbul|c8|v8)\s+ignore|node:coverage\s+(?:ignore|disable))\b", {"test"}
    ),
    _make_suppression("ts-ignore", r"@ts-(?:ignore|nocheck|expect-error)\b", {"typecheck", "build"}, "tsc", "vue-tsc"),
)
_GO = (
    _make_suppression("nolint", r"^//\s*nolint\b", {"lint"}, "golangci-lint"),
    _make_suppression("lint:ignore", r"^//lint:(?:file-)?ignore\b", {"lint"}, "golangci-lint", "staticcheck"),
)
_RUST = (
    _make_suppression("allow", r"#!?\[\s*(?:cfg_attr\b[^\]]*\b)?(?:allow|expect)\s*\(", {"lint", "build"}, "cargo"),
)
_STUB = _make_suppression("stub", "", {"typecheck"}, "mypy", "dmypy")
"""A stub beside a module, which mypy reads instead of the module's code."""
OTHER_TOOLS = frozenset({"vet", "black", "isort"})
"""Linters that none of these comments silences."""
TOOLS = OTHER_TOOLS.union(*(each.tools for each in (*_PYTHON, *_SCRIPT, *_GO, *_RUST)))

_THRESHOLD = re.compile(
    r"fail_under|--(?:cov-)?fail-under|check-coverage|coverageThreshold|\bthresholds[\"']?\s*[:=]|--test-coverage-\w+="
)
"""A setting or option by which a test command fails if too few lines are covered."""
_WORD = re.compile(r"[\w-]+")
_QUOTED = r"\"(?:\\.|[^\"\\\n])*\"|`(?:\\.|[^`\\])*`"
SCRIPT_PARTS = re.compile(rf"(?:{_QUOTED}|'(?:\\.|[^'\\\n])*')|(?P<comment>//[^\n]*|/\*.*?\*/)", re.DOTALL)
# A quote in Rust may begin the name of a lifetime.
_RUST_PARTS = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\\n])'|(?P<comment>//[^\n]*|/\*.*?\*/)", re.DOTALL)

Found = tuple[Suppression, str]
"""A suppression and its line, without the spaces around it."""


async def doubts_about_suppressions(
    tree: Tree, changes: Sequence[PathChange], gates: Iterable[GateResult]
) -> tuple[Doubt, ...]:
    """Return the doubt about the work's new suppressions; empty without any that one of the gates obeys."""
    judging = [result.gate for result in gates if result.verdict != "not_applicable"]
    followed = await follow_links(tree.git, tree.base, tree.commit, changes) if judging else ()
    read = [change for change in followed if _reader_for(change.path) and not change.is_gitlink]
    before = await _read_texts(tree, {change.path: change.former_id for change in read if change.kind != "A"})
    after = await _read_texts(tree, {change.path: change.object_id for change in read if change.kind != "D"})
    found = {**new_suppressions(before, after)}
    # Most stubs are of compiled modules; only those beside a module's code count.
    stubs = [change.path for change in read if change.kind == "A" and change.path.endswith(".pyi")]
    paths = frozenset(await commits.listed_paths(tree.git, tree.commit)) if stubs else frozenset[str]()
    for path in [path for path in stubs if path.removesuffix("i") in paths]:
        found[path] = found.get(path, Counter()) + Counter((_STUB,))
    uncovered = any("test" in each.silences for kinds in found.values() for each in kinds)
    if not uncovered or not await _has_coverage_threshold(tree, judging):
        judging = [gate for gate in judging if gate.kind != "test"]
    counted = {
        path: Counter({each.name: count for each, count in kinds.items() if is_obeyed(each, path, judging)})
        for path, kinds in found.items()
    }
    return _suppression_doubts({path: names for path, names in counted.items() if names})


async def _has_coverage_threshold(tree: Tree, gates: Iterable[Gate]) -> bool:
    if any(_THRESHOLD.search(gate.command) for gate in gates):
        return True
    read = [path for path in await commits.listed_paths(tree.git, tree.base) if says_commands(path)]
    contents = await commits.batch_contents(tree.git, [f"{tree.base}:{path}" for path in read])
    return any(_THRESHOLD.search(data.decode(errors="replace")) for data in contents if data)


def new_suppressions(before: Mapping[str, str], after: Mapping[str, str]) -> Mapping[str, Counter[Suppression]]:
    """Return the suppressions that only the second version of some files has, by path.

    A suppression is not new if it moved with its line to another file, or if only its line changed.
    """
    old = {path: Counter(_find_suppressions(path, text)) for path, text in before.items()}
    new = {path: Counter(_find_suppressions(path, text)) for path, text in after.items()}
    gone = {path: found - new.get(path, Counter()) for path, found in old.items()}
    moved = sum(gone.values(), Counter[Found]())
    counted: dict[str, Counter[Suppression]] = {}
    for path in sorted(new):
        added = new[path] - old.get(path, Counter())
        own = gone.get(path, Counter())
        here = added & (moved - own)
        moved -= here
        counted[path] = _count_by_kind(added - here) - _count_by_kind(own)
    return {path: kinds for path, kinds in counted.items() if kinds}


def _count_by_kind(found: Mapping[Found, int]) -> Counter[Suppression]:
    kinds = Counter[Suppression]()
    for (each, _), count in found.items():
        kinds[each] += count
    return kinds


def _suppression_doubts(counted: Mapping[str, Mapping[str, int]]) -> tuple[Doubt, ...]:
    if not counted:
        return ()
    total = sum(sum(names.values()) for names in counted.values())
    files = [
        f"{path} ({', '.join(f'{count} {name}' for name, count in sorted(names.items()))})"
        for path, names in counted.items()
    ]
    text = f"{count_of(total, 'new suppression')}: {join_limited(files, MAX_FILES)}"
    return (Doubt("suppressions", utf8_safe(text)),)


def is_obeyed(suppression: Suppression, path: str, gates: Iterable[Gate]) -> bool:
    """Return True if the command of one of the gates checks the file and obeys the suppression."""
    return any(
        gate.kind in suppression.silences
        and path_from_gate(gate, path) is not None
        # A command such as `npm run lint` may start any tool, and so may a test command for coverage.
        and (
            gate.kind == "test"
            or not (named := TOOLS.intersection(_WORD.findall(gate.command)))
            or not named.isdisjoint(suppression.tools)
        )
        for gate in gates
    )


async def _read_texts(tree: Tree, blobs: Mapping[str, str]) -> Mapping[str, str]:
    """Return the contents of files, given as {path: blob id}."""
    contents = await commits.batch_contents(tree.git, [*blobs.values()])
    return {path: data.decode(errors="replace") for path, data in zip(blobs, contents, strict=True) if data is not None}


def _find_suppressions(path: str, text: str) -> Iterator[Found]:
    reader = _reader_for(path)
    if reader is None:
        return
    suppressions, parts = reader
    # Most files have none, and splitting a file into its parts takes far longer than a search.
    if not any(re.search(each.pattern.pattern.lstrip("^"), text) for each in suppressions):
        return
    lines = text.split("\n")
    for number, part in parts(text):
        yield from ((each, lines[number].strip()) for each in suppressions if each.pattern.search(part))


def _python_comments(text: str) -> Iterator[tuple[int, str]]:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        # The project may use a newer Python than ours.
        yield from ((at, line[line.index("#") :]) for at, line in enumerate(text.split("\n")) if "#" in line)
        return
    yield from ((token.start[0] - 1, token.string) for token in tokens if token.type == tokenize.COMMENT)


def _script_comments(text: str) -> Iterator[tuple[int, str]]:
    for part in SCRIPT_PARTS.finditer(text):
        if part["comment"]:
            yield text.count("\n", 0, part.start()), part["comment"]


def _rust_code(text: str) -> Iterator[tuple[int, str]]:
    code = _RUST_PARTS.sub(lambda part: "\n" * part[0].count("\n"), text)
    yield from enumerate(code.split("\n"))


Reader = tuple[Sequence[Suppression], Callable[[str], Iterator[tuple[int, str]]]]
"""The suppressions of a language, and a reader of the parts of a source that may contain one, with lines from 0."""
_READERS: Mapping[str, Reader] = {
    **dict.fromkeys(("py", "pyi"), (_PYTHON, _python_comments)),
    **dict.fromkeys(
        ("js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "vue", "svelte"), (_SCRIPT, _script_comments)
    ),
    "go": (_GO, _script_comments),
    "rs": (_RUST, _rust_code),
}


def _reader_for(path: str) -> Reader | None:
    return _READERS.get(path.rpartition(".")[2])
