"""Contracts run on a real checkout."""

import msgspec
import pytest
from inline_snapshot import snapshot

from integration.verify.builders import verify_contract
from scaffold.core.proof.contract import Check, Contract, ExitCode, OutputContains
from scaffold.git import refs
from scaffold.git.checkouts import worktree
from scaffold.policy.secret.redaction import Redactor
from scaffold.verify.contract.check_runs import Tree

CHECKED = ("commands", "must_exist", "must_not_exist", "must_not_change")


@pytest.fixture
async def tree(harness, tmp_path):
    """A checkout of a commit that changed `list`."""
    base = await refs.resolve(harness.context.git, "HEAD")
    await harness.sh("echo four >> list; git commit -qam more")
    head = await refs.resolve(harness.context.git, "HEAD")
    git = await worktree.add(harness.context.repository, tmp_path / "tree", head)
    return Tree(git=git, base=base, commit=head, environ=dict(harness.context.environ))


def contract(*commands, **fields):
    return Contract(commands=tuple(Check(command=command, **fields) for command in commands))


def verdicts(verification):
    return [result.verdict for result in verification.results]


async def test_every_command_runs_even_if_an_earlier_one_fails(tree):
    checked = await verify_contract(contract("exit 1", "grep four list", "nosuchcommand"), tree)
    assert verdicts(checked) == ["fail", "pass", "error"]
    assert [failure.name for failure in checked.failures] == ["exit 1", "nosuchcommand"]
    assert (checked.commit, checked.strength, checked.passed) == (tree.commit, "weak", False), (
        "nobody saw them fail before"
    )


async def test_a_failing_optional_check_warns_and_proves_nothing(tree):
    """AL-8: it does not block, and if all checks are optional the fact is weak; zero tests have a separate verdict."""
    checked = await verify_contract(contract("false", required=False), tree)
    assert (verdicts(checked), checked.passed, checked.strength) == (["warn"], True, "weak")
    assert verdicts(await verify_contract(contract("python3 -m unittest discover -s ."), tree)) == ["vacuous"]


async def test_without_a_contract_a_change_is_enough(tree):
    for nothing in (None, Contract(intent="just do it")):
        checked = await verify_contract(nothing, tree)
        assert (checked.results[0].name, checked.passed, checked.strength) == ("change", True, "weak")


async def test_an_unchanged_tree_is_vacuous_whatever_the_contract_says(tree):
    """BX-5: an empty change proves nothing."""
    same = Tree(git=tree.git, base=tree.commit, commit=tree.commit, environ=tree.environ)
    assert verdicts(await verify_contract(contract("true"), same)) == ["vacuous"]


async def test_a_check_finds_tracked_files_as_committed_and_untracked_files_of_earlier_checks(tree):
    """What lands is what passed: no check repairs the tree for the next one."""
    checked = await verify_contract(
        contract(
            "echo mended > list; echo built > out",
            "grep -q mended list",
            "test -f out",
            "git commit -qam x",
            "grep four list",
        ),
        tree,
    )
    assert verdicts(checked) == ["pass", "fail", "pass", "fail", "pass"]


async def test_a_check_ended_by_a_signal_is_repeated_once(tree, tmp_path):
    """Also if it was killed inside its shell."""
    once = f"test -f {tmp_path}/again || {{ touch {tmp_path}/again; kill -9 $$; }}"
    inside = f"test -f {tmp_path}/inside || {{ touch {tmp_path}/inside; sh -c 'kill -9 $$'; exit $?; }}"
    checked = await verify_contract(contract(once, inside, "kill -9 $$"), tree)
    assert verdicts(checked) == ["pass", "pass", "error"]
    assert checked.results[2].detail.partition("\n")[0] == snapshot("Killed by signal 9 twice.")


@pytest.mark.slow
async def test_a_check_with_too_many_processes_is_stopped_and_not_repeated(tree, tmp_path):
    crowd = f"echo begun >> {tmp_path}/log; for i in $(seq 1100); do sleep 60 & done; wait"
    checked = await verify_contract(contract(crowd), tree)
    assert (verdicts(checked), (tmp_path / "log").read_text()) == (["error"], "begun\n")
    assert "too many processes" in checked.results[0].detail


@pytest.mark.slow
async def test_a_check_that_hangs_is_ended(tree):
    checked = await verify_contract(contract("echo begun; sleep 60", timeout_s=2.0), tree)
    assert (verdicts(checked), checked.results[0].exit_code) == (["timeout"], None)
    assert "begun" in checked.results[0].detail


async def test_the_end_of_a_long_output_is_kept(tree):
    checked = await verify_contract(contract("seq 100000; echo the end; exit 1"), tree)
    assert checked.results[0].detail.endswith("the end")
    assert len(checked.results[0].detail) < 2100


async def test_a_check_gets_only_the_given_environment(tree):
    given = msgspec.structs.replace(tree, environ={**tree.environ, "SCAFFOLD_RUN": "r1"})
    checked = await verify_contract(contract('test "$SCAFFOLD_RUN" = r1', 'test -z "$SECRET"'), given)
    assert verdicts(checked) == ["pass", "pass"]


async def test_output_of_a_check_is_redacted_after_it_is_judged(tree):
    """BX-9: the detail goes into prompts, stores and reports; expected text is searched in the original."""
    expected = Contract(commands=(Check(command="echo token canary-7f3e6a1d", expect=OutputContains("canary-7f3e")),))
    discreet = msgspec.structs.replace(tree, clean=Redactor({"MY_TOKEN": "canary-7f3e6a1d"}).clean)
    checked = await verify_contract(expected, discreet)
    assert checked.passed
    assert checked.results[0].detail.endswith("\ntoken [redacted:MY_TOKEN]")


WRONG = (
    Contract(commands=(Check(command="exit 3", expect=ExitCode(4)),)),
    Contract(commands=(Check(command="echo yes >&2", expect=OutputContains("yes")),)),
    Contract(commands=(Check(command="sleep 60", timeout_s=0.1),)),
    Contract(must_exist=("nowhere/**",)),
    Contract(must_not_exist=("li*",)),
    Contract(must_not_change=("list",)),
)


async def test_every_declared_check_runs_and_counts(tree):
    """AL-8: whichever check fails, all others are shown beside it, and it blocks."""
    right = Contract(
        commands=(Check(command="true"), Check(command="cat list", expect=OutputContains("four"))),
        must_exist=("list",),
        must_not_exist=("nowhere",),
        must_not_change=("README",),
    )
    assert (await verify_contract(right, tree)).passed
    for wrong in WRONG:
        both = Contract(**{field: getattr(wrong, field) + getattr(right, field) for field in CHECKED})
        checked = await verify_contract(both, tree)
        assert sorted(verdicts(checked)) in (["fail", *["pass"] * 5], [*["pass"] * 5, "timeout"]), wrong
        assert not checked.passed
