"""The types of steps: what each receives and produces, when it is done, and how it is worked."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

CONTEXT_GATHERING = """
Explore; decide nothing and change no file of the project. List what someone who plans this story has to know.

- Find the code that the story touches, and its callers. Search for names from the story before you read whole folders.
- Find the data it works on: types, schemas, tables, configuration, file formats.
- Find how the project does similar things, and the conventions that its documents ask for.
- Find the tests of this code, how they are run, and what they share.
- Describe what happens today for each acceptance criterion.

Name each thing by path, and by line where it matters. Say what you looked for and did not find. Write the details into
the story's scratch file.
"""

PLANNING = """
Decide; change no file of the project. Base the plan on the gathered context, and read only what it leaves open.

- For each acceptance criterion, say which change makes it true and in which files.
- Choose the smallest approach that fits the project. Name the alternative that you rejected, and why.
- Order the changes so that the project works after each of them.
- Name the risks: what could break, and which test would show it.

Fit the workflow to the story. If it is too large for one round of coding, split the coding step into parts that each
make sense alone. If a step has nothing to do, skip it. Write the plan into the story's scratch file.
"""

ARCHITECTURE = """
Design the structure; change no file of the project.

- List the files to add and to change, and what each is responsible for.
- Give the signatures, types, schemas and messages that other code will rely on, and what stays compatible.
- Follow the project's layers and rules about dependencies, and check each new dependency against them.
- Say whether data has to be migrated, and how that can be undone.
- Reuse what exists; say where.

If the design shows that coding needs more or other steps, such as a migration of its own, edit the workflow.
"""

TEST_ARCHITECTURE = """
Design the tests; change no file of the project. Derive them from the acceptance criteria, not from how the code will
be written.

- For each criterion, name the cases that show it: the normal one, edge cases, errors.
- Name the test files and follow the project's way of writing tests.
- Say which fixtures exist and which have to be created.
- Leave out what existing tests already show.

The coding step writes what you plan. If a criterion cannot be tested with this design, edit the workflow so that the
design is revised first.
"""

CODING = """
Implement what this step describes, with its tests, according to the plan, the design and the test plan.

- Change nothing else; report other problems that you find.
- Follow the conventions of the code around your change, and run the project's programs in the way its documents say.
- Write each planned test and see it fail without your change.
- Leave no dead code, no debugging output and no unfinished parts.
- Run what you wrote: it has to build or load, and the tests closest to it have to pass.

If it turns out to be more than one step's work, finish a part that works and add steps for the rest. If the approach is
wrong, restart this step with a better description instead of patching on.
"""

LINTING = """
Run the project's formatters and lint checks, and fix what they find until they pass.

- Use the commands given below, or those that the project's documents and configuration name.
- Fix causes. Do not switch off a rule, exclude a file or add a comment that silences a finding; if a finding is wrong,
  say why in your answer.
- Change no behaviour.
"""

INITIAL_TESTING = """
Run the tests that this story can affect, the wider ones last, in the way the project runs them. Fix nothing here.

- Report how many tests passed, failed and were skipped, and name each that failed.
- For each failure find the root cause, with file and line, and say whether the test also fails without this story.
- If tests fail because of this story, add steps after this one: coding, linting, initial_testing. Describe in the
  coding step what is wrong and where.
- Never weaken, skip or rewrite a test to make it pass.
"""

REVIEW = """
Review the work as someone who did not write it. Read the whole change and the code around it.

Judge each acceptance criterion on a line of its own, with the file and line that implements it:

    CRITERION 1: met - src/cart.py:41, tests/test_cart.py:12
    CRITERION 2: unmet - an empty cart raises an error

A criterion without a location that exists is not met, whatever else you write. Then look for what the criteria do not
say: errors, edge cases, concurrent use, security, layers, names, documents that are no longer true.

Small defects you may fix yourself. For everything else add steps that fix it, and describe in them what is wrong.
"""

PRUNE_TESTS = """
Look at the tests that this story added, and remove those that show nothing new.

- Remove a test that repeats another one, or that tests how the code is written instead of what it does.
- Keep a test that covers another edge case, another error or another acceptance criterion.
- Leave tests that existed before this story alone.
- Give a reason for each removal, and run the rest.

If nothing is redundant, change nothing and say so.
"""

FINAL_REVIEW = """
Verify the whole story once more, from what you see and not from the notes.

- Run the project's lint checks and the tests that this story can affect. Both have to pass.
- Judge each acceptance criterion on a line of its own, with a location that exists:
  `CRITERION 1: met - src/cart.py:41`
- Read the whole change: nothing missing, nothing left over, no file that does not belong to it.

If something is wrong, do not repair it here. Add the steps that fix it after the step before this one; this review
then runs again after them.
"""

REBASE_RESOLVE = """
Other work landed since this story began, and git could not merge the two.

- Read both sides of each conflict and find out what each is for: the story's notes tell one, the commits that landed
  tell the other.
- Keep the purpose of both. Never resolve a conflict by dropping one side.
- Look for conflicts that git does not see: a renamed function, a changed signature, two migrations with one number.
- Remove every conflict marker, then run the tests of both changes.
"""


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
"""Types whose steps are never skipped; every workflow has one of each."""
NOT_REQUESTED: frozenset[StepType] = frozenset({"final_review", "rebase_resolve"})
"""Types that agents cannot add: a workflow has one final review, and we find the conflicts."""


class StepDefinition(Struct, frozen=True, kw_only=True):
    """Constants of the steps of one type."""

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


def _define_step(
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
    "context_gathering": _define_step(
        "Explore codebase, DB schema, docs, and related code",
        "the story with its acceptance criteria, and the scratch files",
        "a list of the relevant files, data structures, conventions and tests, and of how it behaves today",
        "everything that the story touches is listed with its path",
        CONTEXT_GATHERING,
        minutes=15,
        may_edit=False,
    ),
    "planning": _define_step(
        "Produce implementation plan based on gathered context",
        "the notes of the gathered context, the acceptance criteria, and the scratch files",
        "a plan: what to change, in which files, in which order, and by which approach",
        "the plan covers every acceptance criterion and names the files to change",
        PLANNING,
        minutes=10,
        may_edit=True,
    ),
    "architecture": _define_step(
        "Design code structure and identify files to modify",
        "the notes of the context and the plan, and the scratch files",
        "the design: new and changed files, interfaces, data and migrations, and what depends on what",
        "every structural decision is written down and its dependencies are allowed in this project",
        ARCHITECTURE,
        minutes=10,
        may_edit=True,
    ),
    "test_architecture": _define_step(
        "Design test strategy and identify test files",
        "the notes of the design, the project's existing tests, and the scratch files",
        "a test plan: test files, cases, fixtures that exist, fixtures to create, edge cases",
        "the test plan covers every acceptance criterion",
        TEST_ARCHITECTURE,
        minutes=10,
        may_edit=True,
    ),
    "coding": _define_step(
        "Implement the changes",
        "the notes of the design and the test plan, and the story's scratch file",
        "the changed code with its tests",
        "all that this step is to change is implemented, and it builds or loads without an error",
        CODING,
        minutes=30,
        may_edit=True,
    ),
    "linting": _define_step(
        "Run formatters and lint checks",
        "the current state of the code",
        "code on which the project's formatters and lint checks pass",
        "the project's formatters and lint checks pass",
        LINTING,
        minutes=5,
        may_edit=False,
    ),
    "initial_testing": _define_step(
        "Run tests and identify failures",
        "the current state of the code, and the notes of the test plan",
        "the result of each relevant test; for each failure its root cause",
        "all relevant tests ran, and each failure is explained",
        INITIAL_TESTING,
        minutes=20,
        may_edit=True,
    ),
    "review": _define_step(
        "Self-review against acceptance criteria",
        "the notes of all earlier steps, the acceptance criteria, the results of the tests, and the scratch files",
        "a verdict on each acceptance criterion with the file and line that implements it",
        "each criterion is judged, and no defect that you know of remains without a step to fix it",
        REVIEW,
        minutes=10,
        may_edit=True,
    ),
    "prune_tests": _define_step(
        "Remove redundant tests",
        "the tests of this story, and the notes of all earlier steps",
        "fewer tests that show the same",
        "no test of this story repeats another one, and every acceptance criterion is still tested",
        PRUNE_TESTS,
        minutes=10,
        may_edit=False,
    ),
    "final_review": _define_step(
        "Final verification and commit",
        "the whole story, the notes of all earlier steps, and the scratch files",
        "a verdict on each acceptance criterion, and passing tests and lint checks",
        "every acceptance criterion is met, the tests pass, and the lint checks pass",
        FINAL_REVIEW,
        minutes=15,
        may_edit=True,
    ),
    "rebase_resolve": _define_step(
        "Resolve the conflicts with what landed since the story began",
        "the conflicting files, the notes of all earlier steps, and what landed meanwhile",
        "the story's work on the new base, without conflict markers",
        "no conflict is left, and both this story's change and the one that landed work",
        REBASE_RESOLVE,
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
