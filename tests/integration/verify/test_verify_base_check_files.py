"""Gates and checks that pass only with the work's version of the files that decide what they find."""

import pytest
from inline_snapshot import snapshot

from integration.verify.builders import TEST, CandidateRepository, cleaned
from scaffold.core.proof.contract import Check, CheckResult, Contract, Verification
from scaffold.core.proof.gates import Gate, GateResult
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.base_check_files import with_check_file_findings

FIND = "for rule in $(cat .flake8 setup.list); do grep -Hns $rule *.py; done | sed 's/:[^:]*$/:1: E100 bad/'"
LINT = Gate(kind="lint", command=f"{FIND} | grep . && exit 1; true", runner="findings")
BASE = {".flake8": "exec print\n", "setup.list": "goto\n", "a.py": "pass\n", "check.sh": "grep -q pass a.py\n"}
STRICT = "[pytest]\naddopts = --strict-markers\nfilterwarnings = error\n{}"
WARNS = "import warnings\n\n\ndef test_{0}():\n    warnings.warn('{0}')\n"
MARKED = "import pytest\n\n\n@pytest.mark.quick\ndef test_new():\n    pass\n"


class Project(CandidateRepository):
    """A base and work on it that has passed."""

    async def doubts(self, base, work, *commands, gate=None):
        """Return the doubts by code, of work that declared nothing."""
        found = await self.judged(base, work, *commands, gate=gate)
        return {doubt.code: doubt.text for doubt in found.doubts}

    async def judged(self, base, work, *commands, gate=None, **terms):
        """Return the verification of work whose commands failed before it."""
        base = await self.commit(base)
        captured = await self.capture(base, gate) if gate else None
        head = await self.commit(work)
        tree = await self.tree(base, head)

        contract = Contract(commands=tuple(Check(command=each) for each in commands))
        results = tuple(CheckResult(name=each, verdict="pass") for each in commands)
        gates = (GateResult(gate=gate, verdict="pass"),) if gate else ()
        passed = Verification(commit=head, results=results, gates=gates, failed_on_base=commands)
        request = ProofRequest(contract=contract, baseline=captured.baseline if captured else None, **terms)
        found = await with_check_file_findings(request, passed, tree, cleaned(tree))
        assert (await tree.git("rev-parse", "HEAD")).out.decode().strip() == head
        assert not (await tree.git("status", "--porcelain")).out
        return found


@pytest.fixture
def project(harness, tmp_path):
    return Project(harness, tmp_path)


async def test_what_a_linter_finds_with_its_former_settings_leaves_a_doubt(project):
    """BX-1, BX-4: the finding is named, with the file that hides it."""
    found = [
        await project.doubts(BASE, {".flake8": "print\n", "a.py": "exec\n"}, gate=LINT),
        await project.doubts(BASE, {".flake8": None, "a.py": "exec\n"}, gate=LINT),
        await project.doubts(BASE, {"setup.list": "never\n", "a.py": "goto\n"}, gate=LINT),
    ]
    assert found == snapshot(
        [
            {"settings_changed": "lint fails with .flake8 as before the work: a.py: E100"},
            {"settings_changed": "lint fails with .flake8 as before the work: a.py: E100"},
            {"settings_changed": "lint fails with setup.list as before the work: a.py: E100"},
        ]
    )


@pytest.mark.slow
async def test_settings_that_hide_nothing_leave_no_doubt(project):
    for work in ({"a.py": "exec\n"}, {".flake8": "exec print for\n", "data.json": "{}\n"}, {".flake8": "print\n"}):
        assert await project.doubts(BASE, work, gate=LINT) == {}, work


@pytest.mark.slow
async def test_tests_that_fail_with_their_former_settings_leave_a_doubt(project):
    """BX-4: new markers are no laxer settings."""
    base = {"pytest.ini": STRICT.format(""), "test_a.py": "def test_a():\n    pass\n"}
    markers = STRICT.format("markers =\n    quick\n")
    assert await project.doubts(base, {"pytest.ini": markers, "test_new.py": MARKED}, gate=TEST) == {}
    laxer = STRICT.replace("filterwarnings = error\n", "").format("markers =\n    quick\n")
    work = {"pytest.ini": laxer, "test_a.py": WARNS.format("a")}
    found = await project.doubts({"b.py": ""}, work, gate=TEST)
    assert [*found] == ["settings_changed"]
    assert found["settings_changed"].endswith("test_a.py::test_a")


SCRIPTS = [
    (
        {
            "tools/verify.py": "open('b.py')\n",
            "tests/run": "test -e b.py\n",
            "Makefile": "accept:\n\tsh inner.sh\n",
            "inner.sh": "test -e b.py\n",
        },
        {
            "sh check.sh": "check.sh",
            "python tools/verify.py": "tools/verify.py",
            "sh tests/run": "tests/run",
            "make accept": "Makefile, inner.sh",
        },
    ),
    (
        {"Makefile": "accept:\n\ttest -e b.py\n", "tools/check.sh": "false\n"},
        {"make accept": "Makefile", "cd tools && A=1 bash -c 'sh check.sh'": "tools/check.sh"},
    ),
]
"""Files of the base, and the checks that run them."""


async def test_a_check_that_fails_with_the_script_it_ran_before_leaves_a_doubt(project):
    """BX-1, BX-5: the work may have made it ask for less."""
    for number, (base, named) in enumerate(SCRIPTS):
        work = dict.fromkeys(base, f"# {number}\n") | {"a.py": "exec\n", "Makefile": "accept:\n\ttrue\n"}
        work |= {} if number else {"check.sh": "\n"}
        found = await project.doubts({**BASE, **base}, work, *named)
        texts = found["checks_changed"].split("; ")
        assert [text.partition(" as before")[0] for text in texts] == [
            f"`{check}` fails with {path}" for check, path in named.items()
        ]


async def test_a_file_that_is_the_work_itself_leaves_no_doubt(project):
    """A check may read the file that was to change, run a new one, or run the program."""
    base = {**BASE, "main.py": "print(0)\n", "read.sh": "grep -q pass a.py\n"}
    work = {
        "read.sh": "grep -q ci a.py\n",
        "new-check.sh": "true\n",
        "check.sh": "test -e a.py\n",
        "main.py": "print(1)\n",
        ".flake8": "for\n",
    }
    checks = ("grep -q ci read.sh", "sh new-check.sh", "sh check.sh", "python main.py | grep 1", "grep -q for .flake8")
    assert await project.doubts(base, work, *checks) == {}


RULES = ".PHONY: accept\naccept:\n\tpython -c 'import app; assert app.six() == 6'\n-include mk/*.mk\n"
"""A check that other files can change, though it names none of them."""
WRONG = {"app.py": "def six():\n    return 5\n", "mk/local.mk": "SHELL := /bin/true\n"}
UNDONE = {"app.py": "pass\n", "mk/local.mk": None}


@pytest.mark.slow
async def test_a_file_that_alone_makes_the_checks_pass_is_refused_if_the_task_does_not_declare_it(project):
    """AL-9, BX-5: what its agent asked for leaves a doubt, and so does a file in a folder that the task declares."""
    found = await project.judged({**BASE, "Makefile": RULES}, WRONG, "make accept", files=("app.py",))
    (refused,) = found.failures
    assert refused.detail == snapshot(
        "The checks pass whatever is in app.py, because of files that the task does not declare: mk/local.mk. With the "
        "files as before the work they fail. Restore them and do the task in the program; if they are part of it, ask "
        "for them."
    )
    told = []
    for terms in ({"files": ("app.py", "mk/")}, {"files": ("app.py",), "granted": ("mk/local.mk",)}):
        found = await project.judged(UNDONE, {**WRONG, "mk/local.mk": ".IGNORE:\n"}, "make accept", **terms)
        told.append((found.failures, [each.text for each in found.doubts]))
    assert told == snapshot(
        [
            ((), ["`make accept` fails with mk/local.mk as before the work, and passes whatever is in app.py"]),
            ((), ["`make accept` fails with mk/local.mk as before the work, and passes whatever is in app.py"]),
        ]
    )


async def test_a_check_that_passes_only_with_an_undeclared_file_leaves_a_doubt(project):
    """BX-1, BX-5: a check finds what to expect by a variable; but data that code of the work reads is its own."""
    script = 'RC=want; [ -f $RC ] && . ./$RC; python -c "import app; assert app.six() == $WANT"\n'
    work, declared = {"app.py": "def six():\n    return 5\n", "want": "WANT=5\n"}, {"files": ("app.py",)}
    found = await project.judged({**BASE, "accept.sh": script}, work, "sh accept.sh", **declared)
    assert (found.failures, [each.text for each in found.doubts]) == snapshot(
        ((), ["`sh accept.sh` fails with want as before the work"])
    )
    reads = "def six():\n    return int(open('six.txt').read())\n"
    work = {"app.py": reads, "six.txt": "6\n", "README.md": "Six.\n"}
    check = "python -c 'import app; assert app.six() == 6'"
    found = await project.judged({"app.py": "pass\n"}, work, check, **declared)
    assert (found.failures, found.doubts) == ((), ())


@pytest.mark.slow
async def test_a_gate_that_passes_only_with_an_undeclared_file_leaves_a_doubt(project):
    """BX-4: its tests read it, not the program."""
    tests = "import app\n\n\ndef test_six():\n    assert app.six() == int(open('want.txt').read())\n"
    base = {"test_six.py": tests, "want.txt": "6\n", "app.py": "def six():\n    return 6\n"}
    work = {"app.py": "def six():\n    return 5\n", "want.txt": "5\n"}
    found = await project.judged(base, work, gate=TEST, files=("app.py",))
    (told,) = (each.text for each in found.doubts)
    assert told.endswith(" fails with want.txt as before the work")
