"""The types of steps: what each receives and produces, when it is done, and how it is worked."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from scaffold.plan.story import instructions

StepType = Literal[
    "context_gathering",
    "planning",
    "architecture",
    "test_architecture",
    "coding",
    "linting",
    "initial_testing",
    "review",
    "prune_tests",
    "final_review",
    "rebase_resolve",
]
MANDATORY: frozenset[StepType] = frozenset({"linting", "final_review"})
"""Types whose steps are never skipped, and of which every workflow has one."""
NOT_REQUESTED: frozenset[StepType] = frozenset({"final_review", "rebase_resolve"})
"""Types of which no agent adds a step: a workflow has one final review, and conflicts are found by us."""


class StepDefinition(Struct, frozen=True, kw_only=True):
    """What is fixed about the steps of one type."""

    description: str
    """Of the step in the default workflow."""
    receives: str
    produces: str
    done_when: str
    """The exit criteria, as the rest of the sentence "The step is done when"."""
    may_edit: bool
    """Whether its agent may edit the workflow."""
    timeout_s: int
    instructions: str
    """How to work; a user's own prompt for the role may replace it."""


def _step(
    description: str, receives: str, produces: str, done_when: str, text: str, *, minutes: int, may_edit: bool
) -> StepDefinition:
    return StepDefinition(
        description=description,
        receives=receives,
        produces=produces,
        done_when=done_when,
        instructions=text.strip(),
        timeout_s=minutes * 60,
        may_edit=may_edit,
    )


STEP_TYPES: Mapping[StepType, StepDefinition] = {
    "context_gathering": _step(
        "Explore codebase, DB schema, docs, and related code",
        "the story with its acceptance criteria, and the scratch files",
        "a list of the relevant files, data structures, conventions and tests, and of how it behaves today",
        "everything that the story touches is listed with its path",
        instructions.CONTEXT_GATHERING,
        minutes=15,
        may_edit=False,
    ),
    "planning": _step(
        "Produce implementation plan based on gathered context",
        "the notes of the gathered context, the acceptance criteria, and the scratch files",
        "a plan: what to change, in which files, in which order, and by which approach",
        "the plan covers every acceptance criterion and names the files to change",
        instructions.PLANNING,
        minutes=10,
        may_edit=True,
    ),
    "architecture": _step(
        "Design code structure and identify files to modify",
        "the notes of the context and the plan, and the scratch files",
        "the design: new and changed files, interfaces, data and migrations, and what depends on what",
        "every structural decision is written down and its dependencies are allowed in this project",
        instructions.ARCHITECTURE,
        minutes=10,
        may_edit=True,
    ),
    "test_architecture": _step(
        "Design test strategy and identify test files",
        "the notes of the design, the project's existing tests, and the scratch files",
        "a test plan: test files, cases, fixtures that exist, fixtures to create, edge cases",
        "the test plan covers every acceptance criterion",
        instructions.TEST_ARCHITECTURE,
        minutes=10,
        may_edit=True,
    ),
    "coding": _step(
        "Implement the changes",
        "the notes of the design and the test plan, and the story's scratch file",
        "the changed code with its tests",
        "all that this step is to change is implemented, and it builds or loads without an error",
        instructions.CODING,
        minutes=30,
        may_edit=True,
    ),
    "linting": _step(
        "Run formatters and lint checks",
        "the current state of the code",
        "code on which the project's formatters and lint checks pass",
        "the project's formatters and lint checks pass",
        instructions.LINTING,
        minutes=5,
        may_edit=False,
    ),
    "initial_testing": _step(
        "Run tests and identify failures",
        "the current state of the code, and the notes of the test plan",
        "the result of each relevant test; for each failure its root cause",
        "all relevant tests ran, and each failure is explained",
        instructions.INITIAL_TESTING,
        minutes=20,
        may_edit=True,
    ),
    "review": _step(
        "Self-review against acceptance criteria",
        "the notes of all earlier steps, the acceptance criteria, the results of the tests, and the scratch files",
        "a verdict on each acceptance criterion with the file and line that implements it",
        "each criterion is judged, and no defect that you know of remains without a step to fix it",
        instructions.REVIEW,
        minutes=10,
        may_edit=True,
    ),
    "prune_tests": _step(
        "Remove redundant tests",
        "the tests of this story, and the notes of all earlier steps",
        "fewer tests that show the same",
        "no test of this story repeats another one, and every acceptance criterion is still tested",
        instructions.PRUNE_TESTS,
        minutes=10,
        may_edit=False,
    ),
    "final_review": _step(
        "Final verification and commit",
        "the whole story, the notes of all earlier steps, and the scratch files",
        "a verdict on each acceptance criterion, and passing tests and lint checks",
        "every acceptance criterion is met, the tests pass, and the lint checks pass",
        instructions.FINAL_REVIEW,
        minutes=15,
        may_edit=True,
    ),
    "rebase_resolve": _step(
        "Resolve the conflicts with what landed since the story began",
        "the conflicting files, the notes of all earlier steps, and what landed meanwhile",
        "the story's work on the new base, without conflict markers",
        "no conflict is left, and both this story's change and the one that landed work",
        instructions.REBASE_RESOLVE,
        minutes=20,
        may_edit=False,
    ),
}
DEFAULT_WORKFLOW: tuple[StepType, ...] = tuple(each for each in STEP_TYPES if each != "rebase_resolve")
"""The types of a new story's steps, in order."""


def step_type(name: str) -> StepType:
    """Return the type of a step with this name; LookupError if there is none."""
    for each in STEP_TYPES:
        if each == name:
            return each
    raise LookupError(name)
