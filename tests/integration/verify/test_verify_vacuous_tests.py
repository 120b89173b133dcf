"""Tests of the work that pass whatever its functions do, on real commits."""

import sys

import pytest
from inline_snapshot import snapshot

from integration.verify.builders import CandidateRepository, cleaned
from scaffold.core.proof.contract import Check, CheckResult, Contract, Verification
from scaffold.verify.contract.vacuous_tests import doubts_about_new_tests

RUN = f"{sys.executable} test_calc.py"
ADD = "def add(a, b):\n    return a + b\n"
CALLS = "import calc\n\ncalc.add(1, 2)\n"
ASSERTS = "import calc\n\nassert calc.add(1, 2) == 3\n"


class Project(CandidateRepository):
    """A base and work on it, whose checks have passed."""

    work = ()

    async def doubts(self, work, *commands, red=None, took=0.1, must_exist=()):
        """Return the texts of the doubts; work of earlier calls is undone."""
        tree, changes = await self.worked({"readme": f"calc\n{work}", **dict.fromkeys(self.work)}, work)
        self.work = work

        contract = Contract(commands=tuple(Check(command=each) for each in commands), must_exist=must_exist)
        results = tuple(CheckResult(name=each, verdict="pass", duration_s=took) for each in commands)
        passed = Verification(commit=tree.commit, results=results, failed_on_base=commands if red is None else red)
        found = await doubts_about_new_tests(contract, passed, changes, cleaned(tree))
        assert (await tree.git("status", "--porcelain")).out == b""
        return [(each.code, each.text) for each in found]


@pytest.fixture
def project(harness, tmp_path):
    return Project(harness, tmp_path)


async def test_tests_that_pass_while_the_functions_do_nothing_leave_a_doubt(project):
    """BX-5: the check failed before only because its test could not be imported."""
    work = {"calc.py": ADD, "test_calc.py": CALLS}
    assert await project.doubts(work, RUN) == snapshot([("vacuous_tests", "the checks also pass if add does nothing")])


async def test_a_path_that_has_to_exist_shows_nothing_of_what_its_code_does(project):
    """BX-5: it failed before the work, too."""
    asked = {"must_exist": ("calc.py",), "red": (RUN, "must_exist: calc.py")}
    (doubt,) = await project.doubts({"calc.py": ADD, "test_calc.py": CALLS}, RUN, **asked)
    assert doubt[0] == "vacuous_tests"


@pytest.mark.slow
async def test_no_doubt_is_left_where_the_checks_tell_or_nobody_can(project):
    calls, other = {"calc.py": ADD, "test_calc.py": CALLS}, f"{sys.executable} -c 'import calc; assert calc.add(1, 2)'"
    assert [
        *await project.doubts({"calc.py": ADD, "test_calc.py": ASSERTS}, RUN),
        *await project.doubts(calls, RUN, other),
        *await project.doubts({**calls, "b": "green before"}, RUN, red=()),
        *await project.doubts({**calls, "c": "too expensive"}, RUN, took=61.0),
        *await project.doubts({"calc.py": "X = 1\n", "test_calc.py": "import calc\n"}, RUN),
    ] == []


async def test_functions_behind_a_link_are_emptied(project):
    """BX-5: the module is a link to a file with another suffix."""
    (project.harness.repo / "calc.py").symlink_to("calc.txt")
    ((code, _),) = await project.doubts({"calc.txt": ADD, "test_calc.py": CALLS}, RUN)
    assert code == "vacuous_tests"
