"""Describe new failures: the test or finding, its place, and the runner's message."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import structs

from scaffold.core.printable_text import utf8_safe
from scaffold.core.proof.gates import GateResult, GateRun, Regression, TestVerdict
from scaffold.git import commits
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.locate_tests import path_from_top, path_of_test

MAX_REGRESSIONS = 20
"""New failures told in full, and as many tests that no longer run."""
MAX_SOURCE_CHARS = 160
RUNNERS_NAMING_NO_FILES = frozenset({"unittest", "go"})
"""The runners whose test names have to be mapped to files."""


def regressions(
    before: GateRun | None, now: GateRun, verdicts: Mapping[str, TestVerdict], lost: Collection[str]
) -> tuple[Regression, ...]:
    """Return the first new failures by name, then the first of the tests `lost`, which passed before."""
    new = sorted(name for name, verdict in verdicts.items() if verdict == "new_failure" and name not in lost)
    found = [each for name in new for each in _describe_failure(before, now, name)]
    gone = [
        Regression(
            name=name,
            kind="skipped" if name in now.outcomes else "missing",
            message="\n".join(now.messages.get(name, ())),
        )
        for name in sorted(lost)
    ]
    return (*found[:MAX_REGRESSIONS], *gone[:MAX_REGRESSIONS])


async def with_places(result: GateResult, tree: Tree) -> GateResult:
    """Return the result with the file of each regression, and with the source lines of findings."""
    if not result.regressions:
        return result
    gate, paths = result.gate, frozenset[str]()
    if gate.runner in RUNNERS_NAMING_NO_FILES:
        # A test that is missing has its file on the base at most.
        listed = [await commits.listed_paths(tree.git, commit) for commit in (tree.commit, tree.base)]
        paths = frozenset(path for each in listed for path in each)
    placed = []
    for each in result.regressions:
        if each.kind == "finding" and each.file:
            file = path_from_top(gate, each.file)
            placed.append(structs.replace(each, file=file, source=await _source_line(tree, file, each.line)))
        elif gate.runner in RUNNERS_NAMING_NO_FILES:
            placed.append(structs.replace(each, file=path_of_test(gate, each.name, paths) or None))
        else:
            placed.append(each)
    return structs.replace(result, regressions=tuple(placed))


def _describe_failure(before: GateRun | None, now: GateRun, name: str) -> Iterator[Regression]:
    # Hooks may print findings or not.
    if now.gate.runner == "findings" or name in now.lines:
        yield from _new_occurrences(before, now, name)
    else:
        yield Regression(name=name, kind="fails", message="\n".join(now.messages.get(name, ())))


def _new_occurrences(before: GateRun | None, now: GateRun, name: str) -> Iterator[Regression]:
    """Yield a finding's new occurrences: those whose text is new, or all if no text is."""
    known, said = Counter(before.messages.get(name, ()) if before else ()), now.messages.get(name, ())
    if not said:
        yield Regression(name=name, kind="finding")
        return
    new = Counter(said) - known or Counter(said)
    lines: Sequence[int | None] = now.lines.get(name) or [None] * len(said)
    # Which of several equal texts is new cannot be told, so the last ones are shown: added code is rarely at the top.
    for text, line in sorted(zip(said, lines, strict=False), key=lambda each: each[1] or 0, reverse=True):
        if new[text] > 0:
            new[text] -= 1
            file, _, message = text.partition(": ")
            yield Regression(name=name, kind="finding", file=file, line=line, message=message)


async def _source_line(tree: Tree, file: str, line: int | None) -> str:
    """Return a line of a file; empty if there is none."""
    if line is None:
        return ""
    text = (await commits.file_contents(tree.git, tree.commit, file) or b"").decode(errors="replace")
    lines = text.splitlines()
    return utf8_safe(lines[line - 1].strip()[:MAX_SOURCE_CHARS]) if 0 < line <= len(lines) else ""
