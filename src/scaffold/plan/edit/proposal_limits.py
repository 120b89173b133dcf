"""Limits on proposals: valid names, storable texts, lists of reasonable size."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from scaffold.core.ids import Assertion
from scaffold.core.plan import ActionSpec, GoalSpec
from scaffold.plan.message_text import quoted
from scaffold.plan.text.fields import bad_characters, bad_line
from scaffold.plan.text.file_format import bad_glob, bad_key, bad_name

MAX_ACTIONS = 1_000
"""Maximum number of actions in one list."""
MAX_ASSERTIONS = 1_000
"""Maximum number of assertions in one list."""
MAX_NAME_CHARS = 200
MAX_TEXT_CHARS = 20_000


class ProposalProblem(Struct, frozen=True):
    """What is wrong, and how to fix it."""

    what: str
    fix: str


def bad_text(text: str) -> str | None:
    """Return why `text` cannot be stored; None if it can."""
    return f"is longer than {MAX_TEXT_CHARS} characters" if len(text) > MAX_TEXT_CHARS else bad_characters(text)


def _bad_name(name: str) -> str | None:
    return f"is longer than {MAX_NAME_CHARS} characters" if len(name) > MAX_NAME_CHARS else bad_name(name)


def _invalid_texts(what: str, texts: Iterable[str], check: Callable[[str], str | None]) -> Iterator[ProposalProblem]:
    for text in texts:
        if wrong := check(text):
            yield ProposalProblem(f"the {what} {quoted(text)} {wrong}", f"Write another {what}.")


# A long list is reported once, and each of its texts that is wrong.
def _invalid_list(
    whole: str, one: str, texts: Sequence[str], check: Callable[[str], str | None]
) -> Iterator[ProposalProblem]:
    if len(texts) > MAX_ASSERTIONS:
        yield ProposalProblem(f"{len(texts)} {whole} exceed the limit of {MAX_ASSERTIONS}", "Use fewer.")
    yield from _invalid_texts(one, texts, check)


def _invalid_assertions(what: str, names: Sequence[Assertion]) -> Iterator[ProposalProblem]:
    return _invalid_list(f"{what}s", what, names, _bad_name)


def goal_problems(spec: GoalSpec) -> Iterator[ProposalProblem]:
    """Yield the problems of a new goal."""
    yield from _invalid_texts("name", [spec.name], _bad_name)
    yield from _invalid_texts("description", [spec.description], bad_text)
    yield from _invalid_assertions("assertion", spec.goal_state)
    if not spec.goal_state:
        yield ProposalProblem(
            "its goal state is empty", "Name at least one assertion that holds once the goal is reached."
        )
    if spec.actions:
        yield ProposalProblem("it contains actions", "Create the goal first, then its actions.")


def batch_problems(specs: Sequence[ActionSpec]) -> Iterator[ProposalProblem]:
    """Yield the problems with the size of a list of new actions."""
    if not specs:
        yield ProposalProblem("the list of actions is empty", "Name at least one.")
    if len(specs) > MAX_ACTIONS:
        fix = f"Create at most {MAX_ACTIONS} in one call; use compounds to decompose the rest later."
        yield ProposalProblem(f"{len(specs)} actions are too many at once", fix)


def action_problems(index: int, spec: ActionSpec) -> Iterator[ProposalProblem]:
    """Yield the problems of a new action at `index` of its list."""
    return (ProposalProblem(f"actions[{index}]: {problem.what}", problem.fix) for problem in problems_of(spec))


def problems_of(spec: ActionSpec) -> Iterator[ProposalProblem]:
    """Yield the problems of a new action; its contract was validated when parsed."""
    yield from _invalid_texts("key", [spec.key], bad_key)
    yield from _invalid_texts("role", [spec.role], _bad_name)
    yield from _invalid_texts("title", [spec.title], bad_line)
    yield from _invalid_texts("description", [spec.description], bad_text)
    yield from _invalid_list("acceptance criteria", "criterion", spec.acceptance, bad_text)
    yield from _invalid_texts("verification intent", [spec.verification_intent], bad_text)
    yield from _invalid_texts("note", [spec.notes], bad_text)
    yield from _invalid_texts("file", spec.files, bad_glob)
    yield from _invalid_assertions("precondition", spec.preconditions)
    yield from _invalid_assertions("effect", spec.effects)


def proposal_problems(
    assertions: Collection[Assertion], evidence: str, summary: str | None
) -> Iterator[ProposalProblem]:
    """Yield the problems of a claim, except unknown assertion names, which only the goal's owner can check."""
    # Here, so that a tool can refuse a claim before it asks the goal's owner.
    yield from _invalid_texts("evidence", [evidence], bad_text)
    yield from _invalid_texts("summary", [summary or ""], bad_text)
    if len(assertions) > MAX_ASSERTIONS:
        yield ProposalProblem(f"{len(assertions)} assertions exceed the limit of {MAX_ASSERTIONS}", "Name fewer.")
    if not assertions and summary is None:
        yield ProposalProblem("the proposal is empty", "Name an assertion, or write a summary.")
