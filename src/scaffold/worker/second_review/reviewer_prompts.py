"""Prompts for the second reviewer, bounded however large the change is, with the tests of the base it decides about."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.model import Action
from scaffold.core.plan import full_text
from scaffold.core.printable_text import truncate_text
from scaffold.core.proof.contract import Contract, Verification, open_doubts
from scaffold.core.proof.gates import Gate, TestFate
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.verify.locate_tests import occurs_in, path_of_test
from scaffold.verify.regression.base_tests import shown_name
from scaffold.worker.task_prompts import contract_section, result_lines

MAX_SOURCES = 40
"""The most tests whose source is shown."""
MAX_LINES = 60
"""The lines shown of one test."""
FATES: Mapping[TestFate, str] = {
    "lost": "lost: as it was, it fails on the new code, and no version of it passes",
    "removed": "gone; as it was, it uses a name that the change removed",
    "changed": "changed; as it was, it fails on the new code",
}
"""The fates of tests that the reviewer decides about, as phrases; other tests lost nothing."""
CLOSERS = (")", "]", "}")
TASK_CHARS = 16_000
CONTRACT_CHARS = 8_000
DIFF_CHARS = 64_000
TEST_CHARS = 4_000
TESTS_CHARS = 32_000
MAX_LISTED = 60
VERDICT_RULES = """\
End your message with your verdict: one fenced JSON block, and nothing after it.

```json
{"verdict": "approve" or "reject", "citations": [{"file": PATH, "line": NUMBER, "note": TEXT}], "summary": TEXT}
```

Cite the file and line of everything your verdict is based on, at least one of them in a file that is in question. A
line as it was before the change, such as one of a deleted test, has `"before": true`. A verdict without citations, or
with a citation of something that does not exist, does not count."""


class BaseTest(Struct, frozen=True, kw_only=True):
    """A test of the base that is gone or changed, as the reviewer sees it."""

    name: str
    fate: str
    """What became of it, as a phrase: `removed with the code it tested`."""
    source: str = ""
    """Its numbered lines on the base, below its path; empty if unknown."""


class ReviewSubject(Struct, frozen=True, kw_only=True):
    """A change as the reviewer sees it."""

    action: Action
    contract: Contract | None
    verification: Verification
    tests: Sequence[BaseTest]
    """The tests of the base that are gone or changed; lost ones first."""
    diff: str


def change_prompt(subject: ReviewSubject, reasons: Sequence[str]) -> str:
    """Return the question whether a change that passed its checks is right."""
    return _join_sections(
        *_request_sections(subject.action, subject.contract),
        _list_section("# What was checked", result_lines(subject.verification)),
        _list_section("# Why you are asked", (f"- {reason}" for reason in reasons)),
        section_of_tests("# Tests of the base that are gone or changed", subject.tests),
        _diff_section(subject),
        "Is what the reasons name a legitimate consequence of the request, and is the change right?",
        VERDICT_RULES,
    )


def losses_prompt(subject: ReviewSubject) -> str:
    """Return the question whether tests that the change makes fail may go."""
    others = [f"- {doubt.text}" for doubt in open_doubts(subject.verification.doubts) if doubt.code != "tests_lost"]
    return _join_sections(
        *_request_sections(subject.action, subject.contract),
        _list_section("# What was checked", result_lines(subject.verification)),
        _list_section("# What else no check can decide", others),
        section_of_tests("# Tests of the base that are gone or changed", subject.tests),
        _diff_section(subject),
        "The tests that are lost passed before the change; now they fail or are skipped, and no version of them that "
        "passes is left. The change lands without them only if you approve. For each of them: does the request ask for "
        "behaviour that contradicts it, or for its subject to go? And is the change right in the rest?",
        VERDICT_RULES,
    )


def paths_prompt(action: Action, paths: Sequence[str], why: str) -> str:
    """Return the question whether an action may change further paths, for the reason that its agent gives."""
    return _join_sections(
        *_request_sections(action, None),
        _list_section("# Files it may change now", (f"- {path}" for path in action.files)),
        _list_section("# Files its agent asks to change, too", (f"- {path}" for path in paths)),
        f"# The agent's reason\n{truncate_text(why, TASK_CHARS)}",
        "The files it asks for help to decide whether work is right, such as tests and their configuration. Approve "
        "only if the request cannot be fulfilled without changing each of them. Cite lines that show it, as the files "
        "are before the change.",
        VERDICT_RULES,
    )


def unusable_prompt(why: str) -> str:
    """Return the prompt after a verdict that does not count."""
    return f"Your verdict cannot be used yet. {why}\n\nGive it again, at the end of your message."


def section_of_tests(heading: str, tests: Sequence[BaseTest]) -> str:
    """Return the tests with their source on the base, as far as they fit; empty without tests."""
    parts, room = [heading], TESTS_CHARS
    for test in tests[:MAX_LISTED]:
        source = truncate_text(test.source, TEST_CHARS)
        shown = source if len(source) <= room else ""
        room -= len(shown)
        parts.append(f"- {test.name}: {test.fate}" + (f"\n{shown}" if shown else ""))
    if len(tests) > MAX_LISTED:
        parts.append(f"- … and {len(tests) - MAX_LISTED} more")
    return "\n".join(parts) if tests else ""


def _request_sections(action: Action, contract: Contract | None) -> Iterable[str]:
    yield f"# The request: {action.key} (role: {action.role})\n{truncate_text(full_text(action), TASK_CHARS)}"
    yield truncate_text(contract_section(contract), CONTRACT_CHARS)


def _diff_section(subject: ReviewSubject) -> str:
    return f"# The change\n```diff\n{truncate_text(subject.diff, DIFF_CHARS)}\n```"


def _list_section(heading: str, lines: Iterable[str]) -> str:
    every = list(lines)
    more = [f"- … and {len(every) - MAX_LISTED} more"] if len(every) > MAX_LISTED else []
    return "\n".join([heading, *every[:MAX_LISTED], *more]) if every else ""


def _join_sections(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


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
    sources = [_test_source(gate, name, path, texts) for (gate, name, _), path in zip(named, places, strict=False)]
    sources += [""] * (len(named) - len(sources))
    pairs = zip(named, sources, strict=True)
    return tuple(
        BaseTest(name=shown_name(gate, name), fate=fate, source=source) for (gate, name, fate), source in pairs
    )


def _test_source(gate: Gate, name: str, path: str | None, texts: Mapping[str, bytes | None]) -> str:
    content = texts.get(path) if path is not None else None
    if content is None:
        return ""
    lines = content.decode(errors="replace").splitlines()
    begin = next((at for at, line in enumerate(lines) if occurs_in(line, gate, name)), None)
    if begin is None:
        return f"{path} (before the change)"
    shown = "\n".join(f"{number:>5}  {line}" for number, line in _indented_block(lines, begin))
    return f"{path} (before the change)\n```\n{shown}\n```"


def _indented_block(lines: Sequence[str], begin: int) -> Iterator[tuple[int, str]]:
    yield begin + 1, lines[begin]
    indent = _indent_width(lines[begin])
    for at in range(begin + 1, min(begin + MAX_LINES, len(lines))):
        line = lines[at]
        closes = line.strip().startswith(CLOSERS)
        if line.strip() and _indent_width(line) <= indent and not closes:
            return
        yield at + 1, line


def _indent_width(line: str) -> int:
    return len(line) - len(line.lstrip())
