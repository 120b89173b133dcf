"""Results of contracts before the work."""

import msgspec
import pytest

from scaffold.core.contract import Check, Contract, ExitCode, OutputContains
from scaffold.git import refs, worktree
from scaffold.verify.contract.base_checks import (
    BaseCheckResults,
    CheckResultCache,
    recall_results,
    run_on_base,
    with_timeouts,
)
from scaffold.verify.contract.checks import Tree
from scaffold.verify.proof import prove_candidate
from scaffold.verify.request import ProofRequest

COUNTED = "echo x >> {count}; grep -q four list"


@pytest.fixture
async def base(harness, tmp_path):
    """A checkout of the base."""
    commit = await refs.resolve(harness.context.git, "HEAD")
    git = await worktree.add(harness.context.repository, tmp_path / "tree", commit)
    return Tree(git=git, base=commit, commit=commit, environ=dict(harness.context.environ))


@pytest.fixture
def memory(harness):
    return CheckResultCache(harness.store, "e1")


async def test_a_check_that_fails_before_the_work_is_red_for_any_reason(base, memory):
    """BX-5: it failed, its tool or test does not exist yet, it ran no test, its file is missing."""
    contract = Contract(
        commands=(
            Check(command="grep -q four list"),
            Check(command="nosuchtool --check"),
            Check(command="echo Ran 0 tests in 1s >&2 # unittest"),
            Check(command="false", required=False),
            Check(command="grep -q one list"),
            Check(command="cat list", expect=OutputContains("four")),
            Check(command="exit 3", expect=ExitCode(3)),
        ),
        must_exist=("new.py", "list"),
        must_not_exist=("README",),
        must_not_change=("README",),
    )
    found = await run_on_base(contract, base, memory)
    assert found.failed_on_base == (
        *("grep -q four list", "nosuchtool --check", "echo Ran 0 tests in 1s >&2 # unittest", "false", "cat list"),
        *("must_exist: new.py", "must_not_exist: README"),
    )


async def test_known_results_on_the_same_base_are_not_repeated(base, memory, tmp_path, harness):
    """BX-5: by commit, command, expectation and environment."""
    check = Check(command=COUNTED.format(count=tmp_path / "count"))
    other = msgspec.structs.replace(check, expect=ExitCode(1))
    for contract in (Contract(commands=(check,)), Contract(commands=(check,)), Contract(commands=(other,))):
        await run_on_base(contract, base, memory)
    assert (tmp_path / "count").read_text() == "x\nx\n"
    await run_on_base(Contract(commands=(check,)), base, CheckResultCache(harness.store, "e2"))
    assert (tmp_path / "count").read_text() == "x\nx\nx\n"
    assert recall_results(Contract(commands=(check, other)), base.commit, memory).failed_on_base == (check.command,)
    assert recall_results(Contract(commands=(Check(command="new"),)), base.commit, memory) == BaseCheckResults()


async def test_a_check_runs_on_the_base_as_committed_whatever_the_previous_one_did(base, memory):
    contract = Contract(commands=(Check(command="echo four >> list"), Check(command="grep -q four list")))
    assert (await run_on_base(contract, base, memory)).failed_on_base == ("grep -q four list",)


@pytest.mark.parametrize(
    ("contract", "weak"),
    [
        (Contract(commands=(Check(command="grep -q four list"),)), False),
        (Contract(commands=(Check(command="true"),)), True),
        (Contract(commands=(Check(command="grep -q four list", required=False), Check(command="true"))), True),
        (Contract(must_exist=("new",)), False),
        (Contract(must_exist=("list",), must_not_change=("README",)), True),
    ],
)
async def test_a_contract_without_a_distinguishing_required_check_is_weak(
    harness, tmp_path, base, memory, contract, weak
):
    """BX-5: red on the base, or marked weak."""
    found = await run_on_base(contract, base, memory)
    await harness.sh("echo four >> list; touch new; git add -A; git commit -qm work")
    head = await refs.resolve(harness.context.git, "HEAD")
    git = await worktree.add(harness.context.repository, tmp_path / "work", head)
    tree = msgspec.structs.replace(base, git=git, commit=head)
    verification = await prove_candidate(ProofRequest(contract=contract, failed_on_base=found.failed_on_base), tree)
    assert (verification.passed, verification.strength) == (True, "weak" if weak else "proven")
    assert set(verification.failed_on_base) == set(found.failed_on_base)


def test_a_checks_timeout_is_three_times_its_time_on_the_base_and_at_least_a_minute():
    """AL-8: the default of a timeout."""
    contract = Contract(commands=(Check(command="slow"), Check(command="quick"), Check(command="given", timeout_s=5.0)))
    found = BaseCheckResults(durations={"slow": 40.0, "quick": 1.0, "given": 100.0})
    assert [check.timeout_s for check in with_timeouts(contract, found).commands] == [120.0, None, 5.0]
