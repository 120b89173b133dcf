"""Prompts for the second reviewer: pure text, bounded however large the change is."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from scaffold.core.model import Action
from scaffold.core.plan import full_text
from scaffold.core.printable_text import truncate_text
from scaffold.core.proof.contract import Contract, Verification
from scaffold.worker.review.critic import result_lines
from scaffold.worker.task_prompts import contract_section

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
    return _joined(
        *_about(subject.action, subject.contract),
        _listed("# What was checked", result_lines(subject.verification)),
        _listed("# Why you are asked", (f"- {reason}" for reason in reasons)),
        section_of_tests("# Tests of the base that are gone or changed", subject.tests),
        _diff(subject),
        "Is what the reasons name a legitimate consequence of the request, and is the change right?",
        VERDICT_RULES,
    )


def losses_prompt(subject: ReviewSubject) -> str:
    """Return the question whether tests that the change makes fail may go."""
    others = [f"- {doubt.text}" for doubt in subject.verification.doubts if doubt.code != "tests_lost"]
    return _joined(
        *_about(subject.action, subject.contract),
        _listed("# What was checked", result_lines(subject.verification)),
        _listed("# What else no check can decide", others),
        section_of_tests("# Tests of the base that are gone or changed", subject.tests),
        _diff(subject),
        "The tests that are lost passed before the change; now they fail or are skipped, and no version of them that "
        "passes is left. The change lands without them only if you approve. For each of them: does the request ask for "
        "behaviour that contradicts it, or for its subject to go? And is the change right in the rest?",
        VERDICT_RULES,
    )


def paths_prompt(action: Action, paths: Sequence[str], why: str) -> str:
    """Return the question whether an action may change further paths, for the reason that its agent gives."""
    return _joined(
        *_about(action, None),
        _listed("# Files it may change now", (f"- {path}" for path in action.files)),
        _listed("# Files its agent asks to change, too", (f"- {path}" for path in paths)),
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


def _about(action: Action, contract: Contract | None) -> Iterable[str]:
    yield f"# The request: {action.key} (role: {action.role})\n{truncate_text(full_text(action), TASK_CHARS)}"
    yield truncate_text(contract_section(contract), CONTRACT_CHARS)


def _diff(subject: ReviewSubject) -> str:
    return f"# The change\n```diff\n{truncate_text(subject.diff, DIFF_CHARS)}\n```"


def _listed(heading: str, lines: Iterable[str]) -> str:
    every = list(lines)
    more = [f"- … and {len(every) - MAX_LISTED} more"] if len(every) > MAX_LISTED else []
    return "\n".join([heading, *every[:MAX_LISTED], *more]) if every else ""


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
