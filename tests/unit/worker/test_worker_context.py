"""What a worker is told."""

from datetime import UTC, datetime

from scaffold.core.contract import Check, CheckResult, Contract, OutputContains, Verification
from scaffold.core.model import Action, Goal
from scaffold.core.states import Active, Pending
from scaffold.worker.context import clip, failure_prompt, summary, task_prompt
from scaffold.worker.site import file_name

THEN = datetime(2030, 1, 1, tzinfo=UTC)
GOAL = Goal(
    id="g",
    run_id="r",
    name="shop",
    description="A shop that sells.",
    desired=(),
    state=Active(),
    created_at=THEN,
    updated_at=THEN,
)


def an_action(key, **fields):
    given = {"description": f"Build the {key}.", "preconditions": (), "effects": (), "files": (), "contract": None}
    ids = {"id": key, "run_id": "r", "goal_id": "g", "parent_id": None, "position": 0, "unmet": 0}
    kinds = {"kind": "primitive", "method": "single", "role": "implementation", "state": Pending()}
    return Action(key=key, created_at=THEN, updated_at=THEN, **(ids | kinds | given | fields))


def test_a_worker_is_told_its_goal_its_task_its_paths_and_what_counts_as_done():
    """OR-9: the goal in short, the task, the relevant paths, and the contract."""
    contract = Contract(
        intent="It sells.",
        commands=(
            Check(command="make test"),
            Check(command="./shop", expect=OutputContains("sold"), required=False),
        ),
        must_exist=("api.py",),
        must_not_exist=("**/*.orig",),
        must_not_change=("tests/**",),
    )
    told = task_prompt(GOAL, an_action("api", files=("api.py", "docs/*.md"), contract=contract), (), "")
    assert told == (
        "# Goal: shop\nA shop that sells.\n\n# Your task: api\nBuild the api.\n\n"
        "# Files this task means to touch\n- api.py\n- docs/*.md\n\n"
        "# The work counts as done when\nIt sells.\n- `make test` ends with exit code 0\n"
        "- `./shop` prints `sold` (optional)\n- must exist: api.py\n"
        "- must not exist: **/*.orig\n- must not change: tests/**"
    )


def test_a_worker_reads_the_results_it_builds_on_and_nothing_of_those_without_one():
    """OR-9, SC-11: the stored answers of what came before, not conversations."""
    before = (an_action("store", result="The store keeps things."), an_action("log"))
    told = task_prompt(GOAL, an_action("api"), before, "")
    assert told.endswith("# What was done before\n## store: Build the store.\nThe store keeps things.")
    assert "log" not in told


def test_a_second_attempt_is_told_what_the_first_one_showed():
    assert task_prompt(GOAL, an_action("api"), (), "It failed so.").endswith(
        "# What earlier attempts showed\nIt failed so."
    )


def test_long_texts_lose_their_middle_and_say_so():
    told = task_prompt(GOAL, an_action("api"), (an_action("store", result="a" * 3000 + "b" * 3000),), "")
    assert len(told) < 4300
    assert "a\n… 2000 characters left out …\nb" in told
    assert clip("short", 5) == "short"


def test_what_failed_is_put_back_whole():
    """AL-6: each failure with its verdict, its command and the end of its output; what passed is not repeated."""
    results = (
        CheckResult(name="make", verdict="pass", detail="fine"),
        CheckResult(name="make test", verdict="fail", detail="Expected exit 0.\n1 failed"),
        CheckResult(name="must_exist: x", verdict="fail"),
        CheckResult(name="lint", verdict="warn", detail="untidy"),
    )
    told = summary(Verification(commit="c", results=results))
    assert told == "[fail] make test\nExpected exit 0.\n1 failed\n\n[fail] must_exist: x"
    assert failure_prompt(Verification(commit="c", results=results)).endswith(told)


def test_a_name_becomes_one_segment_of_a_path():
    assert file_name("US-001.store_2") == "US-001.store_2"
    assert file_name("größe") == "größe"
    assert file_name("US-001/step 5") == "US-001_step_5-aed97b78"
    assert file_name("../../etc").startswith("_.._etc-")
    assert file_name("..").startswith("_-")
    assert len(file_name("鍵" * 100).encode()) <= 100


def test_no_two_names_share_a_segment():
    names = ["a/b", "a_b", "a b", "@{", "{}", "..x", "x", "k" * 100, "k" * 101, "k" * 102, "鍵" * 40, "鍵" * 41]
    assert len({file_name(name) for name in names}) == len(names)
