"""The prompts of a worker and its critic."""

import msgspec
import pytest
from inline_snapshot import snapshot

import builders
from builders import a_goal, an_attempt
from scaffold.core.model import Fact
from scaffold.core.printable_text import truncate_text
from scaffold.core.proof.contract import Check, CheckResult, Contract, OutputContains, Verification
from scaffold.core.proof.gates import Gate, GateResult
from scaffold.run.attempts.assignment import Assignment, Declaration, task_of
from scaffold.run.context import safe_file_name
from scaffold.worker.review.critic import critique_prompt, improve_prompt, malformed_prompt
from scaffold.worker.review.critique import Critique
from scaffold.worker.task_prompts import files_section, task_prompt

GOAL = a_goal(description="A shop that sells.")


def an_action(key, **fields):
    return builders.an_action(key, **({"description": f"Build the {key}."} | fields))


def a_fact(assertion, **fields):
    given = {"state": "holds", "commit": "c0ffee1234" * 4, "paths": (), "evidence": ()}
    return Fact(goal_id="g", assertion=assertion, **(given | fields))


def prompt(action, *before, facts=(), briefing="", parent=None, goal=GOAL):
    """Return the prompt of an action's worker, with the results of earlier actions."""
    attempt = an_attempt(action, briefing=briefing)
    return task_prompt(
        Assignment(
            run=None, goal=goal, action=action, attempt=attempt, prerequisites=before, facts=facts, parent=parent
        )
    )


def test_a_prompt_has_goal_task_paths_and_completion_criteria():
    """OR-9, SC-13: the goal in short, the task, the role, the relevant paths, and the contract."""
    contract = Contract(
        intent="It sells.",
        commands=(Check(command="make test"), Check(command="./shop", expect=OutputContains("sold"), required=False)),
        must_exist=("api.py",),
        must_not_exist=("**/*.orig",),
        must_not_change=("tests/**",),
    )
    text = prompt(an_action("api", files=("api.py", "docs/*.md"), contract=contract))
    assert text == snapshot(
        """\
# Goal: shop
A shop that sells.

# Your task: api (role: implementation)
Build the api.

# Files this task is expected to change
- api.py
- docs/*.md
Ask for others with `request_files` before you change them; new tests in new files need no request.
Work is refused at once, and its attempt ends, if it changes existing tests, their data, what configures checks (such as
conftest.py), or protected files and areas that were neither listed nor granted.

# The work counts as done when
It sells.
- `make test` ends with exit code 0
- `./shop` prints `sold` (optional)
- must exist: api.py
- must not exist: **/*.orig
- must not change: tests/**\
"""
    )


def test_a_goal_is_described_in_two_sentences_and_a_summary_beside_them():
    """OR-9, SC-13: a summary is a model's, and two workers once took "all done" for their goal."""
    long = msgspec.structs.replace(GOAL, description="It sells. It ships! It bills. It taxes.\n\nMore.")
    assert prompt(an_action("api"), goal=long).startswith("# Goal: shop\nIt sells. It ships!\n\n# Your task")
    summed = msgspec.structs.replace(GOAL, description="It sells.", summary="All done, I say.")
    assert prompt(an_action("api"), goal=summed).startswith("# Goal: shop\nIt sells.\nSo far: All done, I say.\n\n")


def test_a_child_action_names_its_parent():
    """SC-13."""
    text = prompt(an_action("api"), parent=an_action("backend", kind="compound"))
    assert [line for line in text.splitlines() if "backend" in line] == snapshot(
        ["It is a part of backend: Build the backend."]
    )


def test_a_prompt_lists_the_facts_and_their_commits():
    """SC-13: of its preconditions, and of what the goal desires."""
    text = prompt(an_action("api"), facts=(a_fact("store_works"),))
    assert text.partition("Build the api.")[2] == snapshot("""\


# Files
None is listed.
Ask for others with `request_files` before you change them; new tests in new files need no request.
Work is refused at once, and its attempt ends, if it changes existing tests, their data, what configures checks (such as
conftest.py), or protected files and areas that were neither listed nor granted.

# What already holds
- store_works (shown at c0ffee12)\
""")


def test_a_prompt_lists_the_tests_that_a_task_without_files_names():
    """AL-9: so that an agent need not ask for them."""
    action = an_action("api")
    declared = files_section(Declaration(task=task_of(action), planned=()), ["test_api.py"], asks=True)
    assert declared.splitlines()[:3] == [
        "# Files",
        "None is listed. These may change, as the task names them or what they test:",
        "- test_api.py",
    ]


def test_a_prompt_has_the_results_of_its_providers():
    """OR-9, SC-11: the stored answers of earlier actions, not conversations."""
    before = (an_action("store", result="The store keeps things."), an_action("log"))
    text = prompt(an_action("api"), *before)
    assert text.endswith("# What was done before\n## store: Build the store.\nThe store keeps things.")
    assert "log" not in text


def test_a_verifying_action_gets_full_results_paths_and_commits():
    """SC-13, SC-7: the results, the paths that changed, and the commits."""
    store = an_action("store", effects=("stored", "listed"), result="r" * 9_000)
    facts = (a_fact("stored", paths=("b.py", "a.py")), a_fact("listed", paths=("b.py",)), a_fact("other", paths=("z",)))
    for role in ("code_review", "reviewer", "testing"):
        text = prompt(an_action("look", role=role), store, facts=facts)
        assert "\n- c0ffee12: stored, listed\n\n" in text
        assert "\n- a.py\n- b.py\n\n" in text
        assert ("`request_files`" in text) == (role == "testing")
        headings = [line for line in text.splitlines() if line.startswith("# ") and line != "# Files"]
        assert headings[2:] == snapshot(
            [
                "# What already holds",
                "# Commits of the work that you verify (see `git show COMMIT`)",
                "# Paths it changed",
                "# What its agents reported",
            ]
        )
        assert text.endswith("\n## store: Build the store.\n" + "r" * 9_000)


def test_another_approach_comes_before_the_failures():
    """SC-20."""
    text = prompt(an_action("api", guidance="Use a queue."), briefing="It failed so.")
    assert text.partition("Build the api.")[2] == snapshot("""\


# Another approach to take
Use a queue.

# Files
None is listed.
Ask for others with `request_files` before you change them; new tests in new files need no request.
Work is refused at once, and its attempt ends, if it changes existing tests, their data, what configures checks (such as
conftest.py), or protected files and areas that were neither listed nor granted.

# What earlier attempts showed
It failed so.\
""")


def test_long_texts_are_shortened_in_the_middle_with_a_notice():
    text = prompt(an_action("api"), an_action("store", result="a" * 3000 + "b" * 3000))
    assert len(text) < 4600
    assert "a\n... 2001 characters omitted ...\nb" in text
    assert truncate_text("short", 5) == "short"


@pytest.mark.parametrize("role", ["implementation", "code_review"])
def test_the_length_of_a_prompt_does_not_grow_with_the_plan(role):
    """SC-13: bounded at 10, 100 and 1,000 providers, about four characters a token."""
    sizes = []
    for number in (10, 100, 1_000):
        before = [an_action(f"a{n}", effects=(f"f{n}",), result="said " * 2_000) for n in range(number)]
        facts = tuple(a_fact(f"f{n}", paths=(f"src/module_{n}.py",)) for n in range(number))
        files = tuple(f"src/module_{n}.py" for n in range(number))
        text = prompt(an_action("look", role=role, files=files), *before, facts=facts, briefing="b" * 100_000)
        sizes.append(len(text) // 4)
        assert number == 10 or "more actions" in text
    assert max(sizes) < (13_000 if role == "implementation" else 22_000)
    assert sizes[2] < 1.2 * sizes[1]


def test_a_drafted_contract_is_shown_like_a_given_one():
    """AL-7: the agent knows the checks of its work."""
    action = an_action("api")
    assignment = Assignment(run=None, goal=GOAL, action=action, attempt=an_attempt(action))
    assert "counts as done" not in task_prompt(assignment)
    drafted = Contract(commands=(Check(command="make test"),))
    assert "`make test`" in task_prompt(assignment, drafted)


def test_a_critic_gets_task_checks_and_change_all_bounded():
    """AL-5."""
    lint = GateResult(gate=Gate(kind="lint", command="ruff check"), verdict="pre_existing")
    passed = (CheckResult(name="make test", verdict="pass", detail="secret of the trade"),)
    verification = Verification(commit="c", results=passed, gates=(lint,))
    contract = Contract(intent="It sells.", commands=(Check(command="make test"),))
    asked = critique_prompt(an_action("api"), contract, verification, "+sold\n", iteration=2, maximum=5)
    assert asked == snapshot(
        "# The task: api (role: implementation)\nBuild the api.\n\n"
        "# The work counts as done when\nIt sells.\n- `make test` ends with exit code 0\n\n"
        "# What was checked\n- pass: make test\n- pre_existing: lint, `ruff check`\n\n"
        "# The change\n```diff\n+sold\n\n```\n\nThis is iteration 2 of 5. Critique the change."
    )
    many = Verification(commit="c", results=passed * 1_000)
    long = an_action("api", description="x" * 100_000)
    assert len(critique_prompt(long, contract, many, "+" * 200_000, iteration=1, maximum=1)) < 80_000


def test_a_critique_becomes_the_agents_next_message():
    """AL-5: with the score, bounded."""
    text = improve_prompt(Critique(total=5, remarks="Handle the empty basket."))
    assert text.startswith("The work passes its checks. A critic gave it 5 of 9:\n\nHandle the empty basket.")
    assert text.endswith("Where the critic is wrong, change nothing and say why.")
    assert len(improve_prompt(Critique(total=5, remarks="x" * 60_000))) < 13_000


def test_a_critic_is_asked_for_the_missing_parts_of_its_answer():
    assert malformed_prompt("No total.") == snapshot("""\
That is not a valid critique. No total.
Write it again and end it with the lines `Correctness: N/3`, `Readability: N/3`, `Edge cases: N/3`, `Total: N/9`.\
""")


def test_a_name_becomes_one_path_segment():
    assert safe_file_name("US-001.store_2") == "US-001.store_2"
    assert safe_file_name("größe") == "größe"
    assert safe_file_name("US-001/step 5") == "US-001_step_5-aed97b78"
    assert safe_file_name("../../etc").startswith("_.._etc-")
    assert safe_file_name("..").startswith("_-")
    assert len(safe_file_name("鍵" * 100).encode()) <= 100


def test_two_names_never_share_a_path_segment():
    names = ["a/b", "a_b", "a b", "@{", "{}", "..x", "x", "k" * 100, "k" * 101, "k" * 102, "鍵" * 40, "鍵" * 41]
    assert len({safe_file_name(name) for name in names}) == len(names)
