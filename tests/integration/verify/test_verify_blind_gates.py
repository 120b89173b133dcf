"""A gate that could not have refused any work: its result is no evidence, and the work has a doubt."""

import pytest

from scaffold.core.proof.contract import Check, Contract
from scaffold.core.proof.gates import GREEN_ANYWAY, RED_ANYWAY, Gate
from scaffold.verify.proof import prove_candidate
from scaffold.verify.proof_request import ProofRequest

MAKEFILE = "test:\n\tsh check.sh\nlist:\n\tls *.sh\nwords:\n\t! grep -q SPOILT check.sh\n"
CHECK = Check(command="grep -q two more")


@pytest.mark.parametrize(
    ("command", "script", "said"),
    [
        ("true", "exit 0\n", GREEN_ANYWAY),
        ("sh check.sh || true", "exit 1\n", GREEN_ANYWAY),
        ("make list", "exit 0\n", GREEN_ANYWAY),
        ("! grep -r BROKEN .", "exit 0\n", ""),
        (r"! grep -rE 'console\.log\(|TO.BE' --include=*.sh .", "exit 0\n", ""),
        ("test ! -f LEFTOVER", "exit 0\n", ""),
        ("grep -q MARK check.sh || true", "# MARK\n", GREEN_ANYWAY),
        ("grep -q MARK check.sh", "# MARK\n", ""),
        ("make test", "exit 0\n", ""),
        pytest.param("make words", "exit 0\n", "", marks=pytest.mark.slow),
        ("make test", "exit 1\n", RED_ANYWAY),
    ],
)
async def test_a_gate_counts_only_where_it_could_have_failed(candidates, command, script, said):
    """BX-4: told by its runs before the work, on unreadable code and on the work, not by the words of its command."""
    base = await candidates.commit({"Makefile": MAKEFILE, "check.sh": script, "more": "one\n"})
    captured = await candidates.capture(base, Gate(kind="test", command=command))
    head = await candidates.commit({"more": "two\n"})
    request = ProofRequest(
        contract=Contract(commands=(CHECK,)), failed_on_base=(CHECK.command,), baseline=captured.baseline
    )
    tree = await candidates.tree(base, head)
    found = await prove_candidate(request, tree)
    assert found.passed
    assert [(gate.blind, gate.counts_for_work) for gate in found.gates] == [(said, not said)]
    assert [(each.code, each.text) for each in found.doubts] == (
        [("gates_blind", f"`{command}` {said}")] if said else []
    )
    assert (tree.git.cwd / "check.sh").read_text() == script
    assert not (tree.git.cwd / "LEFTOVER").exists()


async def test_another_gate_takes_the_place_of_a_blind_one_of_its_kind(candidates):
    """BX-4: and a blind linter leaves no doubt, since style decides nothing about behaviour."""
    base = await candidates.commit({"check.sh": "exit 0\n", "pkg/more": "one\n"})
    gates = [
        Gate(kind="test", command="sh check.sh"),
        Gate(kind="test", command="false", folder="pkg"),
        Gate(kind="lint", command="false"),
    ]
    captured = await candidates.capture(base, *gates)
    head = await candidates.commit({"pkg/more": "two\n"})
    check = Check(command="grep -q two pkg/more")
    request = ProofRequest(
        contract=Contract(commands=(check,)), failed_on_base=(check.command,), baseline=captured.baseline
    )
    found = await prove_candidate(request, await candidates.tree(base, head))
    assert [bool(gate.blind) for gate in found.gates] == [False, True, True]
    assert found.doubts == ()


async def test_checks_that_nobody_saw_fail_before_the_work_show_nothing(candidates):
    """BX-1: where they did not run on the base, too."""
    base = await candidates.commit({"more": "one\n"})
    head = await candidates.commit({"more": "two\n"})
    found = await prove_candidate(ProofRequest(contract=Contract(commands=(CHECK,))), await candidates.tree(base, head))
    assert [doubt.code for doubt in found.doubts] == ["passes_without_work"]
