"""The form of what is proposed: whether names can be names, texts can be kept, and lists are of a sane size."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from scaffold.core.ids import Assertion
from scaffold.core.plan import ActionSpec, GoalSpec
from scaffold.plan.fields import any_text
from scaffold.plan.planfile import bad_glob, bad_key, bad_name
from scaffold.plan.wording import shown

MOST_ACTIONS = 1_000
"""Actions in one list."""
MOST_ASSERTIONS = 1_000
"""Assertions in one list."""
LONGEST_NAME = 200
LONGEST_TEXT = 20_000


class Problem(Struct, frozen=True):
    """What is wrong with which thing, and what to do."""

    what: str
    fix: str


def bad_text(text: str) -> str | None:
    """Return why `text` cannot be kept, None if it can."""
    return f"is longer than {LONGEST_TEXT} characters" if len(text) > LONGEST_TEXT else any_text(text)


def _bad_word(name: str) -> str | None:
    return f"is longer than {LONGEST_NAME} characters" if len(name) > LONGEST_NAME else bad_name(name)


def _unfit(what: str, texts: Iterable[str], complaint: Callable[[str], str | None]) -> Iterator[Problem]:
    for text in texts:
        if wrong := complaint(text):
            yield Problem(f"the {what} {shown(text)} {wrong}", f"Write another {what}.")


def _unfit_assertions(what: str, names: Sequence[Assertion]) -> Iterator[Problem]:
    if len(names) > MOST_ASSERTIONS:
        yield Problem(f"{len(names)} {what}s are more than {MOST_ASSERTIONS}", "Say it with fewer.")
    yield from _unfit(what, names, _bad_word)


def unfit_goal(spec: GoalSpec) -> Iterator[Problem]:
    """Yield what is wrong with a new goal."""
    yield from _unfit("name", [spec.name], _bad_word)
    yield from _unfit("description", [spec.description], bad_text)
    yield from _unfit_assertions("assertion", spec.goal_state)
    if not spec.goal_state:
        yield Problem("its goal state is empty", "Name at least one assertion that holds once the goal is reached.")
    if spec.actions:
        yield Problem("it comes with actions", "Create the goal first, then its actions.")


def unfit_batch(specs: Sequence[ActionSpec]) -> Iterator[Problem]:
    """Yield what is wrong with the size of a list of new actions."""
    if not specs:
        yield Problem("there is no action in the list", "Name at least one.")
    if len(specs) > MOST_ACTIONS:
        fix = f"Create at most {MOST_ACTIONS} in one call; compounds leave the rest for later."
        yield Problem(f"{len(specs)} actions are too many at once", fix)


def unfit_action(place: int, spec: ActionSpec) -> Iterator[Problem]:
    """Yield what is wrong with a new action, the one at `place` in its list; a contract was judged when it was read."""
    problems = (
        *_unfit("key", [spec.key], bad_key),
        *_unfit("role", [spec.role], _bad_word),
        *_unfit("description", [spec.description], bad_text),
        *_unfit("file", spec.files, bad_glob),
        *_unfit_assertions("precondition", spec.preconditions),
        *_unfit_assertions("effect", spec.effects),
    )
    return (Problem(f"actions[{place}]: {problem.what}", problem.fix) for problem in problems)


def unfit_proposal(assertions: Collection[Assertion], evidence: str, summary: str | None) -> Iterator[Problem]:
    """Yield what is wrong with a claim, but for the names in it: whoever knows the goal knows those."""
    yield from _unfit("evidence", [evidence], bad_text)
    yield from _unfit("summary", [summary or ""], bad_text)
    if len(assertions) > MOST_ASSERTIONS:
        yield Problem(f"{len(assertions)} assertions are more than {MOST_ASSERTIONS}", "Name fewer.")
    if not assertions and summary is None:
        yield Problem("nothing is said", "Name an assertion, or write a summary.")
