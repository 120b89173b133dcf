"""The tests of the base that a change removed or changed, with their source, for the second reviewer."""

from collections.abc import Iterator, Mapping, Sequence

from scaffold.core.ids import Commit
from scaffold.core.proof.contract import Verification
from scaffold.core.proof.gates import Gate, TestFate
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.verify.locate_tests import occurs_in, path_of_test
from scaffold.verify.regression.base_tests import shown_name
from scaffold.worker.second_review.reviewer_prompts import BaseTest

MAX_SOURCES = 40
"""The tests whose source is looked up."""
MAX_LINES = 60
"""The lines shown of one test."""
FATES: Mapping[TestFate, str] = {
    "lost": "lost: as it was, it fails on the new code, and no version of it passes",
    "removed": "gone; as it was, it uses a name that the change removed",
    "changed": "changed; as it was, it fails on the new code",
}
"""What became of the tests that the reviewer decides about; of the others nothing is lost."""
CLOSERS = (")", "]", "}")


async def base_tests_in_doubt(git: Git, base: Commit, verification: Verification) -> tuple[BaseTest, ...]:
    """Return the tests of the base that are gone or changed, by name, with their lines on the base."""
    named = [
        (gate.gate, name, words)
        for wanted, words in FATES.items()
        for gate in verification.gates
        for name, fate in gate.base_tests.items()
        if fate == wanted
    ]
    return await with_sources(git, base, named)


async def with_sources(git: Git, base: Commit, named: Sequence[tuple[Gate, str, str]]) -> tuple[BaseTest, ...]:
    """Return the tests, each given as its gate, its name and its fate, with their lines on the base."""
    if not named:
        return ()
    paths = frozenset(await commits.listed_paths(git, base))
    places = [path_of_test(gate, name, paths) for gate, name, _ in named[:MAX_SOURCES]]
    files = sorted({path for path in places if path in paths})
    texts = dict(zip(files, await commits.batch_contents(git, [f"{base}:{path}" for path in files]), strict=True))
    sources = [_source(gate, name, path, texts) for (gate, name, _), path in zip(named, places, strict=False)]
    sources += [""] * (len(named) - len(sources))
    pairs = zip(named, sources, strict=True)
    return tuple(
        BaseTest(name=shown_name(gate, name), fate=fate, source=source) for (gate, name, fate), source in pairs
    )


def _source(gate: Gate, name: str, path: str | None, texts: Mapping[str, bytes | None]) -> str:
    """Return the path and the numbered lines of a test; empty if its file is unknown."""
    content = texts.get(path) if path is not None else None
    if content is None:
        return ""
    lines = content.decode(errors="replace").splitlines()
    begin = next((at for at, line in enumerate(lines) if occurs_in(line, gate, name)), None)
    if begin is None:
        return f"{path} (before the change)"
    shown = "\n".join(f"{number:>5}  {line}" for number, line in _block(lines, begin))
    return f"{path} (before the change)\n```\n{shown}\n```"


def _block(lines: Sequence[str], begin: int) -> Iterator[tuple[int, str]]:
    """Yield a line and the lines that belong to it by their indentation, numbered from 1."""
    yield begin + 1, lines[begin]
    indent = _indent(lines[begin])
    for at in range(begin + 1, min(begin + MAX_LINES, len(lines))):
        line = lines[at]
        closes = line.strip().startswith(CLOSERS)
        if line.strip() and _indent(line) <= indent and not closes:
            return
        yield at + 1, line


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
