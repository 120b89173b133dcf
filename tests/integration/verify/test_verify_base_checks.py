"""Results of contracts before the work."""

import msgspec
import pytest

from scaffold.core.proof.contract import Check, Contract, ExitCode, OutputContains
from scaffold.core.proof.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.git import commits, refs
from scaffold.git.checkouts import worktree
from scaffold.verify.contract.base_checks import (
    BaseCheckResults,
    CheckResultCache,
    recall_results,
    run_on_base,
    with_timeouts,
)
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.proof import prove_candidate
from scaffold.verify.proof_request import ProofRequest

COUNTED = "echo x >> {count}; grep -q four list"


def cache(harness, environment, *runs):
    return CheckResultCache(
        harness.store, Baseline(environment=CheckEnvironment(fingerprint=environment), runs=tuple(runs))
    )


@pytest.fixture
async def base(harness, tmp_path):
    """A checkout of the base."""
    commit = await refs.resolve(harness.context.git, "HEAD")
    git = await worktree.add(harness.context.repository, tmp_path / "tree", commit)
    return Tree(git=git, base=commit, commit=commit, environ=dict(harness.context.environ))


@pytest.fixture
def memory(harness):
    return cache(harness, "e1")


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
    """BX-5: by tree, command, expectation and environment."""
    check = Check(command=COUNTED.format(count=tmp_path / "count"))
    other = msgspec.structs.replace(check, expect=ExitCode(1))
    for contract in (Contract(commands=(check,)), Contract(commands=(check,)), Contract(commands=(other,))):
        await run_on_base(contract, base, memory)
    assert (tmp_path / "count").read_text() == "x\nx\n"
    await run_on_base(Contract(commands=(check,)), base, cache(harness, "e2"))
    assert (tmp_path / "count").read_text() == "x\nx\nx\n"
    tree = await commits.tree_of(base.git, base.commit)
    assert recall_results(Contract(commands=(check, other)), tree, memory).failed_on_base == (check.command,)
    assert recall_results(Contract(commands=(Check(command="new"),)), tree, memory) == BaseCheckResults()


def suite_run(base, **fields):
    given = {"commit": base.commit, "environment": "e1", "exit_code": 0, "duration_s": 100.0}
    return GateRun(gate=Gate(kind="test", command="false", runner="pytest"), **(given | fields))


async def test_a_check_that_is_a_gate_is_known_from_that_gate(base, harness):
    """BX-5: it does not run on the base again; before that, what it showed before the run is assumed if it passed."""
    contract, tree = Contract(commands=(Check(command="false"),)), await commits.tree_of(base.git, base.commit)
    before = suite_run(base)
    memory = cache(harness, "e1", before)
    assert (await run_on_base(contract, base, memory)).failed_on_base == ()
    assert with_timeouts(contract, recall_results(contract, tree, memory)).commands[0].timeout_s == 300.0
    with harness.store.transaction():
        harness.store.baselines.keep(suite_run(base, exit_code=1), tree)
    assert (await run_on_base(contract, base, memory)).failed_on_base == ("false",)


async def test_a_check_that_a_gate_says_nothing_of_runs_on_the_base(base, harness):
    """BX-5: it failed and may be mended, it has no result, or something else is expected."""
    for number, (run, expect) in enumerate([({"exit_code": 1}, 0), ({"problem": "timeout"}, 0), ({}, 1)]):
        contract = Contract(commands=(Check(command="false", expect=ExitCode(expect)),))
        known = suite_run(base, environment=f"e{number}", **run)
        found = await run_on_base(contract, base, cache(harness, f"e{number}", known))
        assert found.failed_on_base == (() if expect else ("false",))
        assert found.durations["false"] < 100


async def test_a_check_runs_on_the_base_as_committed_whatever_the_previous_one_did(base, memory):
    contract = Contract(commands=(Check(command="echo four >> list"), Check(command="grep -q four list")))
    assert (await run_on_base(contract, base, memory)).failed_on_base == ("grep -q four list",)


async def test_a_contract_without_a_distinguishing_required_check_is_weak(harness, tmp_path, base, memory):
    """BX-5: red on the base, or marked weak."""
    red = Check(command="grep -q four list")
    strengths = {
        Contract(commands=(red,)): "proven",
        Contract(commands=(Check(command="true"),)): "weak",
        Contract(commands=(msgspec.structs.replace(red, required=False), Check(command="true"))): "weak",
        Contract(must_exist=("new",)): "proven",
        Contract(must_exist=("list",), must_not_change=("README",)): "weak",
    }
    on_base = {contract: (await run_on_base(contract, base, memory)).failed_on_base for contract in strengths}
    await harness.sh("echo four >> list; touch new; git add -A; git commit -qm work")
    head = await refs.resolve(harness.context.git, "HEAD")
    git = await worktree.add(harness.context.repository, tmp_path / "work", head)
    tree = msgspec.structs.replace(base, git=git, commit=head)
    found = {}
    for contract, failed in on_base.items():
        verification = await prove_candidate(ProofRequest(contract=contract, failed_on_base=failed), tree)
        assert set(verification.failed_on_base) == set(failed)
        found[contract] = verification.strength if verification.passed else "failed"
    assert found == strengths


def test_a_checks_timeout_is_three_times_its_time_on_the_base_and_at_least_a_minute():
    """AL-8: the default of a timeout."""
    contract = Contract(commands=(Check(command="slow"), Check(command="quick"), Check(command="given", timeout_s=5.0)))
    found = BaseCheckResults(durations={"slow": 40.0, "quick": 1.0, "given": 100.0})
    assert [check.timeout_s for check in with_timeouts(contract, found).commands] == [120.0, None, 5.0]
