"""Verification of an attempt's work: its contract, seen to fail before it, and the gates of the repository."""

import json
import sys

import pytest

from builders import machine_sandbox
from integration.worker.builders import WITH_CRITIC, critique_text, hand_in, run_criticised
from scaffold.core.events import ContractSealed
from scaffold.core.proof.contract import Check, Contract
from scaffold.core.proof.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.core.states import Failed
from scaffold.git import refs
from scaffold.orchestrator.supervisor.goal_view import read_goal_view
from scaffold.orchestrator.user_control.inbox_decisions import InboxDecision, decide_items
from scaffold.plan.decide import AskHuman, decide
from scaffold.plan.text.file_format import contract_document
from scaffold.run.attempts.assignment import TESTING_ROLE
from scaffold.run.failures.escalation_question import ask_about_failure
from scaffold.worker.attempt_records import CandidateReady
from support.harness import UNSANDBOXED, act, goal

LINT = Gate(kind="lint", command="! grep -rn bad .", runner="findings")


def written(*commands):
    """Return a contract as its drafter writes it."""
    contract = Contract(intent="it is there", commands=tuple(Check(command=command) for command in commands))
    return f"```json\n{json.dumps(contract_document(contract))}\n```"


async def begin(harness, *, check="test -f a", **settings):
    return await harness.own(goal("g", act("a", check=check)), **(WITH_CRITIC | {"critic": False} | settings))


def hold(harness, run, *gates, variables=None):
    """Give the run a baseline of passing gates."""
    environment = CheckEnvironment(fingerprint="f", variables=variables or {})
    runs = tuple(GateRun(gate=gate, commit=run.base_sha, environment="f", exit_code=0) for gate in gates)
    with harness.store.transaction():
        harness.store.baselines.hold(run.id, Baseline(environment=environment, runs=runs), "tree")


def phases(harness, run):
    return [event.phase for event in harness.events(run, ContractSealed)]


@pytest.mark.parametrize(("check", "red"), [("test -f a", ("test -f a",)), ("test -f list", ())], ids=["red", "green"])
async def test_a_contract_that_passes_before_the_work_is_weak(harness, check, red):
    """AL-8: checks that were red on the base are stored with the candidate; without any, it is weak."""
    run = await begin(harness, check=check)
    await run_criticised(harness, run, ["echo one > a"])
    (attempt,) = harness.attempts(run, "a")
    assert (attempt.verification.failed_on_base, attempt.verification.strength) == (red, "proven" if red else "weak")


@pytest.mark.slow
async def test_a_worse_gate_is_returned_with_its_new_failures(harness):
    """AL-9: after the contract, against the baseline; then it is fixed."""
    run = await begin(harness)
    hold(harness, run, LINT)
    await hand_in(harness, run, ["echo bad > a", "echo good > a"])
    assert "The linter (`! grep -rn bad .`): 1 new finding:\n- a:1: bad\n    bad\n" in harness.prompts()[1]
    (attempt,) = harness.attempts(run, "a")
    assert [(each.gate.name, each.verdict) for each in attempt.verification.gates] == [("lint", "pass")]


@pytest.mark.slow
async def test_work_is_pinned_while_old_tests_replace_its_own(harness, tmp_path):
    """BX-3, BX-15: a worker killed then leaves a worktree without the new tests."""
    code = (
        f"git for-each-ref --format='%(refname) %(objectname)' refs/scaffold > {tmp_path}/refs; ls > {tmp_path}/files"
    )
    old = f"import subprocess\n\n\ndef test_old():\n    subprocess.run({code!r}, shell=True, check=True)\n"
    (harness.repo / "test_old.py").write_text(old)
    await harness.sh("git add -A; git commit -qm tests")
    run = await harness.own(
        goal("g", act("a", check="test -f a", files=("a", "test_old.py"))), **(WITH_CRITIC | {"critic": False})
    )
    gate = Gate(kind="test", command=f"{sys.executable} -m pytest -q", runner="pytest")
    before = GateRun(
        gate=gate, commit=run.base_sha, environment="f", exit_code=0, outcomes={"test_old.py::test_old": "passed"}
    )
    with harness.store.transaction():
        environment = CheckEnvironment(fingerprint="f")
        harness.store.baselines.hold(run.id, Baseline(environment=environment, runs=(before,)), "tree")
    turn = "touch a; rm test_old.py; printf 'def test_new():\\n    pass\\n' > test_new.py"
    await hand_in(harness, run, [turn])
    (attempt,) = harness.attempts(run, "a")
    assert f"{refs.work_ref(attempt.id)} {attempt.head_sha}" in (tmp_path / "refs").read_text().splitlines()
    assert {"test_old.py", "test_new.py"} & set((tmp_path / "files").read_text().split()) == {"test_old.py"}


async def test_an_attempt_that_leaves_a_gate_worse_has_failed_by_it(harness):
    """AL-6, AL-9: the contract passed, the gate did not."""
    run = await begin(harness, iterations=1)
    hold(harness, run, LINT)
    ending = await run_criticised(harness, run, ["echo bad > a"])
    assert ending.outcome == "gate_failed"
    assert ending.error.startswith("The linter (`! grep -rn bad .`): 1 new finding:")


async def test_agent_and_checks_use_the_same_environment(harness):
    """AL-9: the agent works with what was prepared for checks."""
    run = await begin(harness, check='test "$(cat a)" = "$MARK"')
    hold(harness, run, variables={"MARK": "{top}/made"})
    await hand_in(harness, run, ['echo "$MARK" > a'])
    (attempt,) = harness.attempts(run, "a")
    assert (await harness.show(f"{attempt.head_sha}:a")).endswith(f"{attempt.id}/made")


async def test_uncommitted_files_of_an_agent_decide_nothing(harness):
    """AL-8: checks run in a clean tree; an ignored file is no part of the work."""
    run = await begin(harness, check="test -f planted", iterations=1)
    ending = await run_criticised(harness, run, ["echo planted > .gitignore; touch planted"])
    assert ending.error.startswith("The check `test -f planted` failed")


@pytest.mark.slow
async def test_a_contract_is_drafted_before_the_work_and_refined_after_it(harness):
    """AL-7, AL-8: the agent knows the draft; what the final contract adds is verified, too."""
    run = await begin(harness, check=None, drafter=True)
    drafts = {"draft": [written("grep -q one a")], "refine": [written("grep -q one a", "grep -q two a")]}
    await hand_in(harness, run, ["echo one > a", "echo one two > a"], drafts=drafts)
    first, second = harness.prompts()
    assert "`grep -q one a`" in first
    assert "two" not in first
    assert "The check `grep -q two a` failed" in second
    assert phases(harness, run) == ["draft", "final"]
    (attempt,) = harness.attempts(run, "a")
    assert [each.name for each in attempt.verification.results] == ["grep -q one a", "grep -q two a"]
    assert (attempt.verification.failed_on_base, attempt.verification.strength) == (
        ("grep -q one a", "grep -q two a"),
        "proven",
    )


@pytest.mark.slow
async def test_checks_added_by_a_final_contract_run_on_the_base_as_well(harness):
    """AL-8, BX-5: a check added after the work distinguishes it from nothing if it fails without it."""
    run = await begin(harness, check=None, drafter=True)
    drafts = {"draft": [written("true"), written("true")], "refine": [written("true", "grep -q one a")]}
    await hand_in(harness, run, ["echo one > a"], drafts=drafts)
    (attempt,) = harness.attempts(run, "a")
    assert (attempt.verification.failed_on_base, attempt.verification.strength) == (("grep -q one a",), "proven")
    assert await harness.show(f"{attempt.head_sha}:a") == "one"


@pytest.mark.slow
async def test_the_next_attempt_uses_the_contract_sealed_by_the_one_before(harness):
    """AL-7: it is not drafted again, however the first attempt failed."""
    run = await begin(harness, check=None, drafter=True, iterations=1)
    drafts = {"draft": [written("grep -q one a")]}
    assert (await run_criticised(harness, run, ["echo zero > a"], drafts=drafts)).outcome == "contract_failed"
    again = {"draft": [written("true")], "refine": [written("grep -q one a")]}
    assert (await run_criticised(harness, run, ["echo zero > a"], drafts=again)).outcome == "contract_failed"
    assert phases(harness, run) == ["draft"]


@pytest.mark.slow
async def test_a_critic_gets_the_final_contract(harness):
    run = await begin(harness, check=None, drafter=True, critic=True)
    drafts = {"draft": [written("grep -q one a")], "refine": [written("grep -q one a", "test -s a")]}
    await hand_in(harness, run, ["echo one > a"], {1: [critique_text(9)]}, drafts=drafts)
    journal = (harness.repo / ".scaffold/logs/g/a.jsonl").read_text().splitlines()
    (asked,) = [each["text"] for each in map(json.loads, journal) if each.get("role") == "critic" and "text" in each][
        :1
    ]
    assert "- pass: test -s a" in asked


REFUSALS = {
    "a protected file": (
        "echo 'registry=http://example.invalid' > .npmrc",
        ".npmrc is protected as `.npmrc`, .npmrc configures how the work is checked",
    ),
    "a protected area": ("mkdir auth; echo one > auth/x.py", "auth/x.py is in the protected area `**/auth/**`"),
    "a path that the contract keeps": ("echo more >> list", "Not so: these files must stay as they were: `li*` (list)"),
    "an existing test": ("echo '# more' >> test_old.py", "test_old.py is an existing test or test data"),
    "a file that judges the work": ("echo > conftest.py", "conftest.py controls how tests run"),
    "what is left out of archives": (
        "echo 'a export-ignore' > .gitattributes",
        ".gitattributes changes `a export-ignore`",
    ),
    "several of them": (
        "mkdir auth; echo one > auth/x.py; echo more >> list",
        "Not so: these files must stay as they were: `li*` (list), auth/x.py is in the protected area `**/auth/**`",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("command", "said"), REFUSALS.values(), ids=REFUSALS)
async def test_work_that_changes_what_it_may_not_ends_its_attempt_and_its_action(harness, tmp_path, command, said):
    """RA-14, AL-9: no iteration, no attempt and no other approach follows, though the agent would undo it."""
    (harness.repo / "test_old.py").write_text("def test_old():\n    pass\n")
    await harness.sh("git add -A; git commit -qm tests")
    contract = Contract(commands=(Check(command="test -f a"),), must_not_change=("li*",))
    settings = WITH_CRITIC | {"critic": False, "iterations": 3}
    run = await harness.own(goal("g", act("a", contract=contract)), **settings)
    # The file tools and the policy never see the names.
    script = tmp_path / "setup"
    script.write_text(command)
    ending = await harness.work(run, "a", f"echo one > a; sh {script}", "git checkout HEAD~ .")
    assert (ending.outcome, ending.error.partition("\n")[0]) == ("contract_failed", said)
    assert len(harness.prompts()) == 1
    assert harness.action(run, "a").state == Failed(ending.error)
    (attempt,) = harness.attempts(run, "a")
    assert attempt.escalation == "failed"


@pytest.mark.slow
async def test_a_human_may_retry_what_was_refused(harness):
    """AL-9, AL-19: a planner is asked nothing, not even for smaller actions."""
    contract = Contract(commands=(Check(command="test -f a"),), must_not_change=("li*",))
    run = await harness.own(goal("g", act("a", contract=contract)), planner=True, replans=3, reviewer=None)
    await harness.work(run, "a", "echo one > a; echo more >> list")
    action = harness.action(run, "a")
    assert harness.attempts(run, "a")[-1].escalation == "human"
    view = read_goal_view(harness.store, run, harness.store.goals.for_run(run.id)[0])
    assert decide(view) == (AskHuman(action.id),)
    with harness.store.transaction():
        ask_about_failure(harness.store, run, action.id)
    (item,) = harness.store.inbox.open_of_run(run.id)
    assert item.text == "`a` failed after 1 attempt, and its work changes what it may not. How should it go on?"
    decide_items(harness.store, [item.id], InboxDecision(to="answered", words="retry: leave the list alone"))
    assert isinstance(await harness.work(run, "a", "echo one > a"), CandidateReady)


PYTHON_CALC = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": (
        "import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n\n\n"
        "def test_sub():\n    assert calc.sub(3, 1) == 2\n"
    ),
}
SUB = "printf '\\n\\ndef sub(a, b):\\n    return a - b\\n' >> calc.py"
RUNS_TESTS = f"{sys.executable} -m pytest -q -p no:cacheprovider test_calc.py"


async def begin_calc(harness, check=RUNS_TESTS, **files):
    for name, text in {**PYTHON_CALC, **files}.items():
        (harness.repo / name).write_text(text)
    await harness.sh("git add -A; git commit -qm calc")
    action = act("a", check=check, files=("calc.py", "test_calc.py"))
    return await harness.own(goal("g", action), **(WITH_CRITIC | {"critic": False, "iterations": 1}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "executed", "doubts"),
    [
        (RUNS_TESTS, (1, 1), ()),
        (f"{sys.executable} -c 'import calc; calc.sub'", (1, 0), ("not_executed",)),
        ("grep -q sub calc.py", None, ()),
    ],
)
async def test_a_change_that_its_checks_do_not_execute_is_weak(harness, check, executed, doubts):
    """BX-5, BX-22: with the number of changed lines, as far as that can be told."""
    run = await begin_calc(harness, check)
    await hand_in(harness, run, [SUB])
    (attempt,) = harness.attempts(run, "a")
    lines = attempt.verification.executed_lines
    assert (lines and (lines.total, lines.executed)) == executed
    assert tuple(doubt.code for doubt in attempt.verification.doubts) == doubts


WEAKENED = "sed -i 's/ == 2/ or True/' test_calc.py; printf '\\ndef sub(a, b):\\n    return 0\\n' >> calc.py"
CHEATS = {
    "skips": "sed -i 's/^def test_sub/import pytest\\n\\n\\n@pytest.mark.skip\\n&/' test_calc.py",
    "expects-failure": "sed -i 's/^def test_sub/import pytest\\n\\n\\n@pytest.mark.xfail\\n&/' test_calc.py",
    "deletes": "sed -i '/^def test_sub/,$d' test_calc.py; echo 'def test_new(): pass' >> test_calc.py",
    "weakens": WEAKENED,
    "skips-the-file": "echo 'import pytest; pytest.skip(allow_module_level=True)' > test_calc.py; "
    "echo 'def test_new(): pass' > test_new.py",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "turn",
    [pytest.param(turn, id=name, marks=[] if name == "skips" else pytest.mark.slow) for name, turn in CHEATS.items()],
)
async def test_a_test_that_was_to_pass_cannot_be_skipped_removed_or_weakened(harness, turn):
    """BX-5: it failed before the work, in the very check that the work had to make pass."""
    run = await begin_calc(harness, RUNS_TESTS.replace("test_calc.py", "test_*.py"))
    ending = await run_criticised(harness, run, [turn])
    assert ending.error.startswith("The check `point of the contract` failed")
    assert "- test_calc.py::test_sub " in ending.error


HONEST = {
    "as-it-was": SUB,
    "renames": f"{SUB}; sed -i 's/test_sub/test_difference/' test_calc.py",
    "moves": f"{SUB}; sed -n '/^import/p; /^def test_sub/,$p' test_calc.py > test_new.py; "
    "sed -i '/^def test_sub/,$d' test_calc.py",
    "parametrizes": f"{SUB}; sed -i '/^def test_sub/,$d' test_calc.py; printf 'import pytest\\n"
    '@pytest.mark.parametrize("a", [3])\\ndef test_sub(a):\\n    assert calc.sub(a, 1) == 2\\n\' >> test_calc.py',
}


@pytest.mark.slow
@pytest.mark.parametrize("turn", HONEST.values(), ids=[*HONEST])
async def test_a_test_that_was_to_pass_may_be_renamed_moved_and_parametrized(harness, turn):
    """BX-5, BX-22: it would pass as it was, too; and the work is restored afterwards."""
    run = await begin_calc(harness, RUNS_TESTS.replace("test_calc.py", "test_*.py"))
    found = await run_criticised(harness, run, [turn])
    assert isinstance(found, CandidateReady), found.error
    (attempt,) = harness.attempts(run, "a")
    assert (attempt.verification.strength, attempt.verification.executed_lines.executed) == ("proven", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("turn", "why"),
    [
        ("echo 'def sub(a, b): return a - b' > more.py", None),
        (
            "echo 'def sub(a, b): return 0' > more.py; sed -i 's/ == 2/ == 0/' test_calc.py",
            "test_calc.py::test_sub fails",
        ),
        ("echo 'def test_new(): pass' > test_calc.py", "test_calc.py has no test that passes as it was"),
    ],
)
async def test_a_test_file_that_could_not_be_loaded_before_has_to_pass_as_it_was(harness, turn, why):
    """BX-5: its tests are known only with the work."""
    tests = "import more\n\n\ndef test_sub():\n    assert more.sub(3, 1) == 2\n"
    run = await begin_calc(harness, **{"test_calc.py": tests})
    found = await run_criticised(harness, run, [turn])
    assert isinstance(found, CandidateReady) if why is None else f"- {why}" in found.error


@pytest.mark.slow
async def test_a_tester_may_change_the_tests_that_failed(harness):
    """BX-5: the tests are the work then."""
    for name, text in PYTHON_CALC.items():
        (harness.repo / name).write_text(text)
    await harness.sh("git add -A; git commit -qm calc")
    action = act("a", check=RUNS_TESTS, files=("test_calc.py",), role=TESTING_ROLE)
    run = await harness.own(goal("g", action), **(WITH_CRITIC | {"critic": False, "iterations": 1}))
    await hand_in(harness, run, [CHEATS["skips"]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("turn", "clean"),
    [
        ("echo one > a", True),
        ("echo one > a; chmod 600 a", False),
        ("echo one > a; mkdir -m 700 b; echo two > b/c", False),
    ],
    ids=["as usual", "another mode", "another mode of a folder"],
)
async def test_work_counts_as_proven_in_a_clean_checkout_only_if_nothing_of_its_agent_is_left(harness, turn, clean):
    """AL-13: otherwise it is proven again when it lands."""
    if (await machine_sandbox()).level not in {"bubblewrap", "landlock"}:
        pytest.skip("needs a sandbox")
    run = await harness.own(goal("g", act("a", check="test -f a")))
    assert isinstance(await harness.work(run, "a", turn), CandidateReady)
    (attempt,) = harness.attempts(run, "a")
    assert bool(attempt.verification.proof_key) is clean


async def test_work_of_an_agent_without_a_sandbox_is_proven_again_when_it_lands(harness):
    """AL-13: its commands could have changed what git sees."""
    run = await harness.own(goal("g", act("a", check="test -f a")), **UNSANDBOXED)
    assert isinstance(await harness.work(run, "a", "echo one > a"), CandidateReady)
    (attempt,) = harness.attempts(run, "a")
    assert (attempt.verification.passed, attempt.verification.proof_key) == (True, "")
