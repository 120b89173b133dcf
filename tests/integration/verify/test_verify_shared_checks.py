"""A check of a contract that is also a gate: one execution for both, as strict as two."""

import pytest
from msgspec import structs

from integration.verify.builders import CALC, PYTEST, TEST
from scaffold.core.proof.contract import Check, Contract, ExitCode
from scaffold.core.proof.gates import CheckEnvironment, CopiedFile, Gate
from scaffold.verify.environment.provisioning import clean_again, is_clean
from scaffold.verify.proof import proof_key, prove_candidate
from scaffold.verify.proof_request import ProofRequest

PASSING = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"


class Counted:
    """A gate that counts its executions, and a candidate."""

    def __init__(self, candidates, count):
        self.candidates = candidates
        self.count = count
        self.command = f"grep -q add calc.py && echo x >> {count} && ! test -e left"

    async def capture(self):
        self.base = await self.candidates.commit({"calc.py": CALC, "command": self.command})
        self.captured = await self.candidates.capture(self.base, Gate(kind="test", command=self.command))
        self.head = await self.candidates.commit({"more": self.command})
        self.count.write_text("")

    async def prove(self, *checks, **terms):
        tree = await self.candidates.tree(self.base, self.head)
        request = ProofRequest(contract=Contract(commands=checks), baseline=self.captured.baseline, **terms)
        return await prove_candidate(request, tree)

    @property
    def executed(self):
        return len(self.count.read_text().split())


@pytest.fixture
async def counted(candidates, tmp_path):
    return Counted(candidates, tmp_path / "count")


async def test_a_check_that_is_a_gate_runs_once_for_both(counted):
    """AL-9, BX-4: the result is that of the check and of the gate."""
    await counted.capture()
    found = await counted.prove(Check(command=counted.command))
    assert found.passed
    assert [(each.name, each.verdict, each.exit_code) for each in found.results[:1]] == [(counted.command, "pass", 0)]
    assert [gate.verdict for gate in found.gates] == ["pass"]
    assert counted.executed == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "verdicts", "times"),
    [
        ({"expect": ExitCode(1)}, ["fail"], 1),
        ({"timeout_s": 0.5}, ["timeout"], 1),
        ({"expect": ExitCode(1), "required": False}, ["warn"], 2),
    ],
    ids=["another expectation", "too slow as a check", "not required"],
)
async def test_a_check_keeps_its_own_terms(counted, fields, verdicts, times):
    """AL-8: what it expects, how long it may take, whether it is required."""
    if "timeout_s" in fields:
        counted.command += " && sleep 1.5"
    await counted.capture()
    found = await counted.prove(Check(command=counted.command, **fields))
    assert [each.verdict for each in found.results if each.name == counted.command] == verdicts
    assert counted.executed == times


async def test_a_gate_sees_nothing_of_what_the_checks_left(counted):
    """BX-4: after a check that leaves something, the gate runs by itself, in a clean checkout."""
    await counted.capture()
    found = await counted.prove(Check(command="touch left"), Check(command=f"{counted.command} || true"))
    assert [gate.verdict for gate in found.gates] == ["pass"]
    refused = await counted.prove(Check(command="touch left"), Check(command=counted.command))
    assert [each.verdict for each in refused.results[:2]] == ["pass", "fail"]
    quiet = await counted.prove(Check(command="true"), Check(command=counted.command))
    assert quiet.passed
    assert counted.executed == 2 + 1 + 1


@pytest.mark.slow
async def test_a_check_passes_only_if_the_report_of_the_runner_says_so_too(candidates):
    """BX-4: an early exit with code 0 is an error, and skipped tests are none."""
    base = await candidates.commit({"calc.py": CALC, "test_calc.py": PASSING})
    captured = await candidates.capture(base)
    exits = await candidates.commit({"calc.py": f"import os\n\nos._exit(0)\n\n\n{CALC}"})
    request = ProofRequest(contract=Contract(commands=(Check(command=PYTEST),)), baseline=captured.baseline)
    found = await prove_candidate(request, await candidates.tree(base, exits))
    assert [each.verdict for each in found.results if each.name == TEST.command] == ["error"]
    assert not found.passed


async def test_a_checkout_of_another_commit_is_not_clean(candidates):
    """AL-10: what ran on the base has perhaps left nothing, and the next test must not run there."""
    tree, _ = await candidates.worked({"a": "base"}, {"a": "work"})
    await tree.git("checkout", "--quiet", "--detach", tree.base)
    assert not await is_clean(CheckEnvironment(fingerprint="e"), tree)
    await clean_again(CheckEnvironment(fingerprint="e"), tree)
    assert (tree.git.cwd / "a").read_text() == "work"


async def test_a_checkout_is_clean_without_other_files_than_those_provisioned(candidates, tmp_path):
    base = await candidates.commit({"calc.py": CALC, ".gitignore": "ignored\nmine\n"})
    tree = await candidates.tree(base, base)
    captured = await candidates.capture(base, Gate(kind="test", command="true"))
    source = tmp_path / "source"
    source.write_text("mine\n")
    environment = structs.replace(captured.baseline.environment, files=(CopiedFile(source=str(source), target="mine"),))
    top = tree.git.cwd
    (top / "mine").write_text("mine\n")
    assert await is_clean(environment, tree)
    for name, text in {"new": "", "ignored": "", "mine": "other\n", "calc.py": ""}.items():
        (top / name).write_text(text)
        assert not await is_clean(environment, tree), name
        await clean_again(environment, tree)
        assert await is_clean(environment, tree), name
        assert (top / "mine").read_text() == "mine\n"


async def test_what_was_proven_is_known_by_its_trees_and_terms(candidates, harness):
    """AL-13: the message of a commit does not matter; the base, the contract and the declaration do."""
    base = await candidates.commit({"calc.py": CALC})
    head = await candidates.commit({"more.py": ""})
    captured = await candidates.capture(base, Gate(kind="test", command="true"))
    request = ProofRequest(
        contract=Contract(commands=(Check(command="true"),)), files=("more.py",), baseline=captured.baseline
    )
    repository = harness.context.git
    same = await harness.sh(f"git commit-tree -p {base} -m squashed {head}^{{tree}}")
    key = await proof_key(request, repository, base, head)
    assert key == await proof_key(structs.replace(request, failed_on_base=("true",)), repository, base, same)
    others = (
        {"contract": Contract(commands=(Check(command="false"),))},
        {"files": ()},
        {"accepted_losses": frozenset({"test"})},
        {"baseline": None},
    )
    keys = {await proof_key(structs.replace(request, **each), repository, base, head) for each in others}
    keys |= {await proof_key(request, repository, head, head), key}
    assert len(keys) == len(others) + 2
