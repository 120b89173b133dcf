"""How often a run executes the test suite of its repository: a slow one would take most of the time."""

import asyncio
import sys
from contextlib import asynccontextmanager

import pytest

from builders import machine_sandbox
from scaffold.core.proof.contract import Verification
from scaffold.core.proof.gates import Gate
from scaffold.core.states import Completed
from scaffold.landing.proving.batch_check import BatchVerifier, ProvenAlone
from scaffold.landing.proving.candidate_check import Candidate
from scaffold.landing.proving.checkout import Checkouts
from scaffold.landing.proving.fact_refresh import FactRefresher
from scaffold.landing.proving.proof_setup import ProofSetup
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import BatchLanded
from scaffold.orchestrator.owner.run_baseline import ensure_baseline
from scaffold.worker.attempt_records import CandidateReady
from support.harness import act, goal

pytestmark = pytest.mark.timeout(500)
PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider"
SCRIPT = f"{sys.executable} suite.py"
GATES = {
    command: Gate(kind="test", command=command, runner=runner)
    for command, runner in ((PYTEST, "pytest"), (SCRIPT, "exit"))
}
"""A slow suite, and a quick one of which only the exit code counts; both say what they execute."""
MODULES = ("a", "b", "c")
CONFTEST = """\
import os
import socket

import a, b, c


def pytest_runtestloop(session):
    # Repetitions with another seed or with emptied functions are none of a slow suite: they are limited to a minute.
    if os.environ.get("PYTHONHASHSEED") != "0" or None in (a.a(1), b.b(1), c.c(1)):
        return
    files = sorted({{item.nodeid.partition("::")[0] for item in session.items}})
    with socket.create_connection(("127.0.0.1", {port})) as said:
        said.sendall(" ".join(files).encode())
        said.shutdown(socket.SHUT_WR)
        said.recv(1)  # until it is noted
"""


SUITE = """\
import os
import socket

import a, b, c

if os.environ.get("PYTHONHASHSEED") == "0":
    with socket.create_connection(("127.0.0.1", {port})) as said:
        said.sendall(b"test_a.py test_b.py test_c.py")
        said.shutdown(socket.SHUT_WR)
        said.recv(1)  # until it is noted
assert all(each >= 1 for each in (a.a(1), b.b(1), c.c(1)))
"""


def suite_of(name):
    """Return enough tests of a module that no others are selected for a change of it."""
    cases = '@pytest.mark.parametrize("case", range(5))\n'
    return f"import pytest\n\nfrom {name} import {name}\n\n\n{cases}def test_{name}(case):\n    assert {name}(1) >= 1\n"


class Suite:
    """A repository with a test file for each module, and what was executed of it."""

    def __init__(self, harness, port):
        self.harness = harness
        self.port = port
        self.settings = {"services": (f"host @{port}",), "trusted": True, "attempts": 1}
        self.executed = []
        """The names of the test files of each execution, in one line."""

    async def commit(self, port):
        files = {
            "conftest.py": CONFTEST.format(port=port),
            "pytest.ini": "[pytest]\n",
            "suite.py": SUITE.format(port=port),
        }
        files |= {f"{name}.py": f"def {name}(x):\n    return x\n" for name in MODULES}
        files |= {f"test_{name}.py": suite_of(name) for name in MODULES}
        for name, text in files.items():
            (self.harness.repo / name).write_text(text)
        await self.harness.sh("git add -A; git commit -qm suite")

    @property
    def whole(self):
        """How often all test files of the base ran together."""
        every = {f"test_{name}.py" for name in MODULES}
        return sum(every <= set(line.split()) for line in self.executed)

    def settings_with(self, command):
        return self.settings | {"given_gates": (GATES[command],)}

    async def run(self, *actions, gate=PYTEST, **turns):
        run = await self.harness.open_run(goal("g", *actions), **self.settings_with(gate))
        ending = await self.harness.run_to_end(run, **{key: [command] for key, command in turns.items()})
        assert ending.state == Completed(), ending
        assert sorted(await self.harness.landed(run)) == sorted(turns)
        return run


@pytest.fixture
async def suite(harness):
    if (await machine_sandbox()).level != "bubblewrap":
        pytest.skip("needs bubblewrap: without a sandbox the work is proven again when it lands")
    async with counting_suite(harness) as made:
        yield made


@asynccontextmanager
async def counting_suite(harness):
    async def note(reader, writer):
        # Scaffold looks whether the port is served, and says nothing.
        if said := (await reader.read()).decode():
            made.executed.append(said)
        writer.close()

    async with await asyncio.start_server(note, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        made = Suite(harness, port)
        await made.commit(port)
        yield made


def edits(name):
    """Return a command that changes a module, so that its test still passes, and a file that all actions change."""
    return f"printf 'def {name}(x):\\n    return x + 1\\n' > {name}.py; echo {name} >> list"


def in_order(*names, **fields):
    """Return an action for each module, one after another."""
    needs = [[], *([f"{name}_done"] for name in names)]
    return [act(name, needs=each, **fields) for name, each in zip(names, needs, strict=False)]


@pytest.mark.slow
async def test_a_contract_that_is_a_gate_runs_once_for_each_landed_action(suite):
    """AL-9, AL-14, BX-1: it is known before the work, for facts it may have broken, and at the end of the run."""
    await suite.run(*in_order(*MODULES, check=SCRIPT), gate=SCRIPT, **{name: edits(name) for name in MODULES})
    assert suite.whole == 1 + len(MODULES), suite.executed
    assert len(suite.executed) == suite.whole, suite.executed


@pytest.mark.slow
async def test_a_gate_without_names_runs_once_for_each_action_of_an_agent(suite):
    """BX-5, AL-10: twice more in the run: before the work, and on code that nothing can read."""
    keys = [f"n{number}" for number in range(10)]
    said = f"import socket; socket.create_connection(('127.0.0.1', {suite.port})).sendall(b'x')"
    counted = f'{sys.executable} -c "{said}" && {sys.executable} -m compileall -q .'
    run = await suite.harness.open_run(
        goal("g", *(act(key, check=f"test -f {key}.py") for key in keys)),
        **suite.settings | {"given_gates": (Gate(kind="test", command=counted, runner="exit"),), "agents": 1},
    )
    ending = await suite.harness.run_to_end(run, **{key: [f"echo 'X = 1' > {key}.py"] for key in keys})
    assert ending.state == Completed(), ending
    assert len(suite.executed) == len(keys) + 2, suite.executed


@pytest.mark.slow
@pytest.mark.parametrize("check", [f"{PYTEST} test_a.py", None], ids=["one file", "no contract"])
async def test_with_another_contract_all_tests_run_before_the_run_and_at_its_end(suite, check):
    """AL-11: for the landed work itself only its tests ran, once, and once as its contract."""
    await suite.run(act("a", check=check), a=edits("a"))
    assert suite.whole == 2, suite.executed
    # on the base and with the work as a check, and as the focused gate
    assert len(suite.executed) == suite.whole + (3 if check else 1), suite.executed


@pytest.mark.slow
@pytest.mark.parametrize("helped", [False, True])
async def test_all_tests_run_on_what_lands_with_a_merge_that_helpers_decided(suite, helped):
    """AL-13: what both sides mean was decided by more than programs of the queue."""
    harness = suite.harness
    run = await harness.own(goal("g", act("a")), **suite.settings_with(PYTEST))
    await ensure_baseline(harness.context, run)
    await harness.work(run, "a", edits("a"))
    (attempt,) = harness.attempts(run, "a")
    setup, checkouts = ProofSetup(harness.context, run), Checkouts(harness.context, run, ["landing"])
    refresher = FactRefresher(harness.context, run, checkouts, lambda: setup.baseline)
    verifier = BatchVerifier(harness.context, run, setup, checkouts, refresher)
    action, commit = harness.action(run, "a"), attempt.head_sha
    candidate = Candidate(action=action, attempt=attempt, base=run.base_sha, commit=commit, needs_all_tests=helped)
    proven = ProvenAlone(candidate=candidate, verification=Verification(commit=commit, results=()))
    found = await verifier.together([proven])
    await checkouts.close()
    assert [gate.focused for gate in found.verification.gates] == [not helped]


@pytest.mark.slow
async def test_changed_tests_run_alone_in_their_earlier_version_and_without_the_work(suite):
    """AL-10, BX-5: what is run in addition for a change of tests is that file."""
    turn = f"{edits('a')}; sed -i 's/def test_a/def test_more_than/; s/>= 1/> 1/' test_a.py"
    run = await suite.run(act("a", check=PYTEST, files=("a.py", "test_a.py", "list")), a=turn)
    # Twice on the base, as a name is gone and another one is new: it could be one that varies.
    assert suite.whole == 3, suite.executed
    # with the work, again at the end of the run, and in its new version on the base
    assert len(suite.executed) == suite.whole + 3, suite.executed
    (attempt,) = suite.harness.attempts(run, "a")
    assert attempt.verification.failed_on_base == (PYTEST,)


@pytest.mark.slow
async def test_new_tests_cost_one_more_execution_at_the_end_of_the_run(suite):
    """BX-4: there all earlier tests run without the new ones; before, only those of the change do."""
    turn = f"{edits('a')}; sed 's/>= 1/> 1/' test_a.py > test_a_more.py"
    await suite.run(act("a", check=PYTEST), a=turn)
    assert suite.whole == 3, suite.executed


@pytest.mark.slow
async def test_work_that_lands_on_other_work_is_proven_once_more(suite):
    """AL-13: the merged tree is one that no worker has seen."""
    run = await suite.harness.own(
        goal("g", act("a", check=SCRIPT), act("b", check=SCRIPT)), **suite.settings_with(SCRIPT)
    )
    await ensure_baseline(suite.harness.context, run)
    attempts = [await suite.harness.queue(run, name) for name in ("a", "b")]
    for name, attempt in zip(("a", "b"), attempts, strict=True):
        turn = f"printf 'def {name}(x):\\n    return x + 1\\n' > {name}.py"
        assert isinstance(await suite.harness.run_attempt(attempt, {name: [turn]}), CandidateReady)
    assert suite.whole == 3, suite.executed
    queue = MergeQueue(suite.harness.context, run)
    assert isinstance(await queue.step(), BatchLanded)
    assert suite.whole == 3, suite.executed
    assert isinstance(await queue.step(), BatchLanded)
    assert suite.whole == 4, suite.executed
    assert [gate.verdict for gate in await queue.run_all_gates()] == ["pass"]
    assert suite.whole == len(suite.executed) == 4, suite.executed
    await queue.close()
