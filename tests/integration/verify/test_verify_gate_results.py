"""Baselines and candidates of a real repository, with real pytest."""

import pytest
from msgspec import structs

from integration.verify.builders import CALC, TEST, TEST_CALC
from scaffold.core.proof.gates import Gate, Regression
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.proof import prove_candidate
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.baseline_capture import BaselineResult

FLAKY = """\
import pathlib


def test_sometimes():
    mark = pathlib.Path({mark!r})
    if not mark.exists():
        mark.touch()
        raise AssertionError("the first time")
"""


@pytest.mark.slow
async def test_a_change_is_compared_with_earlier_failures(candidates):
    """AL-6, AL-9, AL-10, BX-4: a failure of the baseline is allowed, a new one blocks and is told with its text."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC})
    test = await candidates.after({"calc.py": CALC.replace("a - b", "a - b - 1")})
    assert (test.verdict, test.blocks) == ("new_failure", True)
    assert test.tests == {"test_calc.py::test_sub": "new_failure", "test_calc.py::test_known_to_fail": "pre_existing"}
    assert test.counts == {"pass": 1, "new_failure": 1, "pre_existing": 1}
    said = "assert 1 == 2\n +  where 1 = sub(3, 1)"
    assert test.regressions == (Regression(name="test_calc.py::test_sub", kind="fails", message=said),)


@pytest.mark.slow
async def test_a_new_failure_that_passes_unchanged_is_flaky_and_does_not_block(candidates, tmp_path):
    """BX-4: it fails, then it passes, without a change."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC})
    test = await candidates.after({"test_flaky.py": FLAKY.format(mark=str(tmp_path / "mark"))})
    assert (test.tests["test_flaky.py::test_sometimes"], test.blocks) == ("flaky", False)


WRONG_AT_FIRST = """\
import os
import tempfile


def add(a, b):
    seen = os.path.join(tempfile.gettempdir(), "seen")
    first = not os.path.exists(seen)
    open(seen, "w").close()
    return 0 if first else a + b


def sub(a, b):
    return a - b
"""


@pytest.mark.slow
async def test_a_failure_is_repeated_without_what_it_left_in_the_temporary_folder(candidates, tmp_path):
    """BX-4: work that is wrong in the first process that uses it is not flaky."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC})
    head = await candidates.commit({"calc.py": WRONG_AT_FIRST})
    tree = await candidates.tree(candidates.base, head)
    confinement = Confinement(writable=(tree.git.cwd,), temporary=tmp_path / "temporary" / "first")
    tree = structs.replace(tree, sandbox=SandboxSpec("none", confinement))
    found = await candidates.judge_in(tree, candidates.captured)
    assert (found.tests["test_calc.py::test_add"], found.blocks) == ("new_failure", True)


REPLACES = """\
import builtins
import contextlib
import random
import sys
import time

builtins.abs = lambda value: 0
random.randint = lambda low, high: low
contextlib.suppress.__exit__ = lambda *_: True


def _trace(frame, event, argument):
    return None


sys.settrace(_trace)
"""
HONEST = """\
import json
import logging
import ssl
import sys
import threading
import warnings


class Log(logging.Logger):
    pass


def quiet(*_, **__):
    pass


logging.setLoggerClass(Log)
logging.Logger.trace = quiet
threading.more = quiet
warnings.showwarning = quiet
sys.excepthook = quiet
ssl._create_default_https_context = quiet
json.JSONEncoder = json.JSONEncoder
"""
MOCKS = """\
import time
from unittest import mock


def test_sleeps(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    with mock.patch("time.monotonic", lambda: 3):
        time.sleep(time.monotonic())
"""
"""A test of a user's project, which may patch what it likes: pytest and `mock` restore it."""


@pytest.mark.slow
async def test_functions_of_the_language_that_the_work_replaces_are_named(candidates):
    """BX-4: not what tests restore, what programs may set, and what was so before."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC})
    honest = await candidates.commit({"calc.py": CALC + HONEST, "test_mocks.py": MOCKS})
    test = (await candidates.judge(candidates.captured, candidates.base, honest))["test"]
    assert (test.blocks, test.replaced) == (False, ())
    cheats = await candidates.commit({"calc.py": CALC + REPLACES})
    test = (await candidates.judge(candidates.captured, candidates.base, cheats))["test"]
    names = ("builtins.abs", "contextlib.suppress.__exit__", "random.randint", "sys.settrace")
    assert (test.blocks, test.replaced) == (False, names)


@pytest.mark.slow
async def test_a_baseline_is_captured_once_and_its_failures_are_repeated(candidates, tmp_path):
    """AL-10, BX-4: the next capture at the same commit runs nothing."""
    mark = tmp_path / "mark"
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC, "test_f.py": FLAKY.format(mark=str(mark))})
    outcomes = candidates.captured.baseline.runs[0].outcomes
    assert outcomes["test_f.py::test_sometimes"] == "flaky"
    assert outcomes["test_calc.py::test_known_to_fail"] == "failed"
    await candidates.harness.sh(f"git worktree remove --force {candidates.folder}/tree-{candidates.base[:8]}")
    again = await candidates.capture(candidates.base)
    assert (again, candidates.reported) == (candidates.captured, [("test", False), ("test", True)])


@pytest.mark.slow
async def test_an_import_error_at_the_base_is_no_baseline(candidates):
    """AL-10: the missing module is named, with a fix."""
    base = await candidates.commit({"test_it.py": "import nowhere_to_be_found\n\n\ndef test_it():\n    pass\n"})
    problem = await candidates.capture(base, left_out=("pip install -e .",))
    assert isinstance(problem, NotReady)
    assert "`nowhere_to_be_found`" in problem.what
    assert "`pip install -e .`" in problem.fix
    assert "`scaffold trust`" in problem.fix


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "ignored"),
    [
        ({"calc/__init__.py": "from calc import local\n"}, []),
        ({"calc/__init__.py": "from calc import (\n    local,\n)\n"}, []),
        ({"calc/__init__.py": "", "calc/shop.py": "from . import local\n"}, []),
        ({"calc/__init__.py": ""}, ["calc/local.py"]),
    ],
    ids=["code", "several lines", "relative", "made by a build"],
)
async def test_a_name_that_code_asks_for_or_a_build_makes_is_missing_and_not_to_come(candidates, code, ignored):
    """AL-10: only what tests alone ask for is written by the work."""
    tests = {"test_calc.py": "from calc import local\n\n\ndef test_it():\n    assert local\n"}
    base = await candidates.commit({**code, **tests, ".gitignore": "calc/local.py\n"})
    for path in ignored:
        (candidates.harness.context.git.cwd / path).write_text("")
    problem = await candidates.capture(base)
    assert isinstance(problem, NotReady)
    assert "`local` cannot be imported" in problem.what


@pytest.mark.slow
async def test_a_name_that_only_tests_ask_for_is_to_come(candidates):
    """AL-10: tests written first are red, also where code imports another thing of the same name."""
    code = {"calc/__init__.py": "", "calc/shop.py": "from other import local\n", "other.py": "local = 1\n"}
    tests = {"test_calc.py": "from calc import local\n\n\ndef test_it():\n    assert local\n"}
    assert isinstance(await candidates.capture(await candidates.commit(code | tests)), BaselineResult)


@pytest.mark.slow
async def test_tests_without_a_single_pass_are_no_baseline(candidates):
    """AL-10: nothing can be inferred from such tests, unless one of them judged the code: it was written first."""
    base = await candidates.commit({"test_it.py": "def test_it():\n    raise OSError('no such device')\n"})
    problem = await candidates.capture(base)
    assert isinstance(problem, NotReady)
    assert "(1 ran)" in problem.what
    first = await candidates.commit({"test_it.py": "def test_it():\n    assert False\n"})
    assert isinstance(await candidates.capture(first), BaselineResult)


@pytest.mark.slow
async def test_a_detected_linter_that_cannot_run_is_left_out_and_a_configured_one_is_not(candidates):
    """AL-10, BX-4: a missing tool says nothing about the work."""
    lint = Gate(kind="lint", command="nosuchlinter .", runner="findings")
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC}, TEST, lint)
    assert isinstance(candidates.captured, BaselineResult)
    assert "`nosuchlinter .`" in candidates.captured.notes[0]
    assert (await candidates.after({"other.py": "VALUE = 1\n"}, gate="lint")).verdict == "not_applicable"
    await candidates.harness.sh(f"git worktree remove --force {candidates.folder}/tree-{candidates.base[:8]}")
    problem = await candidates.capture(candidates.base, TEST, lint, given=frozenset({"lint"}))
    assert isinstance(problem, NotReady)
    assert "`nosuchlinter`" in problem.what


@pytest.mark.slow
async def test_the_first_tests_of_a_repository_are_a_gate_of_the_work(candidates):
    """AL-10: there was nothing before, so every failure is new."""
    base = await candidates.commit({"pyproject.toml": '[project]\nname = "calc"\nversion = "1"\n', "calc.py": CALC})
    captured = BaselineResult(baseline=(await candidates.capture(base, Gate(kind="build", command="true"))).baseline)
    head = await candidates.commit({"tests/test_calc.py": "def test_it():\n    assert False\n"})
    test = (await candidates.judge(captured, base, head))["test"]
    assert (test.verdict, test.tests) == ("new_failure", {"tests/test_calc.py::test_it": "new_failure"})


@pytest.mark.slow
async def test_only_tests_that_concern_the_change_run(candidates):
    """AL-11: five tests beside the change are enough; the others run at the end."""
    tests = "\n\n".join(f"def test_{number}():\n    import pkg.a\n" for number in range(5))
    await candidates.begin(
        {
            "pkg/__init__.py": "",
            "pkg/a.py": "VALUE = 1\n",
            "pkg/test_a.py": tests,
            "far/test_far.py": "import pathlib\n\n\ndef test_far():\n    assert not pathlib.Path('broken').exists()\n",
        }
    )
    focused = await candidates.after({"pkg/a.py": "VALUE = 2\n", "pkg/broken": ""})
    assert (focused.focused, focused.counts) == (True, {"pass": 5})


@pytest.mark.slow
async def test_tests_that_need_others_before_them_are_judged_by_a_whole_run(candidates):
    """AL-11: they passed before only because others ran, too."""
    tests = "\n\n".join(f"def test_{number}():\n    import sys\n    assert 'far' in sys.argv\n" for number in range(5))
    files = {"pkg/__init__.py": "", "pkg/a.py": "VALUE = 1\n", "pkg/test_a.py": f"import pkg.a\n\n\n{tests}"}
    first = "def test_far():\n    import sys\n    sys.argv.append('far')\n"
    await candidates.begin({**files, "far/test_far.py": first})
    whole = await candidates.after({"pkg/a.py": "VALUE = 2\n"})
    assert (whole.verdict, whole.focused, whole.counts) == ("pass", False, {"pass": 6})


@pytest.mark.slow
async def test_a_new_test_is_allowed_beside_existing_ones_and_cannot_hide_what_the_work_broke(candidates):
    """AL-9, AL-10, BX-5: existing tests must pass without the new ones; earlier failures still do not count."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC})
    test = await candidates.after({"test_a.py": "import calc\n\n\ndef test_a():\n    assert calc.add(0, 0) == 0\n"})
    assert (test.verdict, test.blocks, test.counts) == ("pre_existing", False, {"pass": 3, "pre_existing": 1})
    mends = "import calc\n\ncalc.sub = lambda a, b: a - b\n\n\ndef test_sub():\n    assert calc.sub(2, 2) == 0\n"
    test = await candidates.after({"calc.py": CALC.replace("a - b", "0"), "test_a.py": mends})
    assert (test.verdict, test.tests["test_calc.py::test_sub"]) == ("new_failure", "new_failure")


@pytest.mark.slow
async def test_a_renamed_test_file_keeps_its_history(candidates):
    """AL-10: earlier failures still fail, earlier passes still pass, and no test is missing."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC})
    test = await candidates.after({"test_calc.py": None, "test_sums.py": TEST_CALC})
    assert (test.verdict, test.tests) == ("pre_existing", {"test_sums.py::test_known_to_fail": "pre_existing"})


@pytest.mark.slow
async def test_tests_that_landed_earlier_run_too(candidates):
    """AL-11: tests newer than the baseline count as well, and deleted ones are not missed."""
    passing = "def test_it():\n    pass\n"
    await candidates.begin({"pkg/a.py": CALC, "pkg/test_other.py": passing, "pkg/test_old.py": passing})
    landed = "from a import sub\n\n\ndef test_it():\n    assert sub(2, 1) == 1\n"
    tip = await candidates.commit({"pkg/test_a.py": landed, "pkg/test_old.py": None})
    head = await candidates.commit({"pkg/a.py": CALC.replace("a - b", "b - a")})
    test = (await candidates.judge(candidates.captured, tip, head))["test"]
    assert dict(test.tests) == {"pkg/test_a.py::test_it": "new_failure"}


@pytest.mark.slow
async def test_a_known_complete_run_of_the_commit_is_not_repeated(candidates):
    """AL-11: the run at the end costs nothing if the landing ran everything."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC})
    head = await candidates.commit({"calc.py": CALC + "\n\nVALUE = 1\n"})
    first = await candidates.judge(
        candidates.captured, candidates.base, head, focused=False, store_gate_run=candidates.keep
    )
    await candidates.harness.sh(f"git worktree remove --force {candidates.folder}/tree-{head[:8]}")
    (candidates.harness.repo / "test_calc.py").write_text("broken(")
    again = await candidates.judge(
        candidates.captured, candidates.base, head, focused=False, find_gate_run=candidates.find
    )
    assert (again, first["test"].verdict) == (first, "pre_existing")


@pytest.mark.slow
async def test_gates_run_last_and_block_what_the_contract_allows(candidates):
    """AL-9: safety, contract, gates."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC})
    head = await candidates.commit({"calc.py": CALC.replace("a + b", "a + b + 1")})
    request = ProofRequest(baseline=candidates.captured.baseline, slots=candidates.slots)
    proven = await prove_candidate(request, await candidates.tree(candidates.base, head))
    assert (proven.passed, proven.failures) == (False, ())
    assert [gate.gate.name for gate in proven.broken_gates] == ["test"]


FIND = "for rule in $(cat rules.cfg); do grep -Hns $rule *.py *.yaml; done | sed 's/:[^:]*$/:1: E100 bad/'"
LINT = Gate(kind="lint", command=f"{FIND} | grep . && exit 1; true", runner="findings")


@pytest.mark.slow
async def test_findings_of_changed_settings_in_unchanged_code_do_not_block(candidates):
    """BX-4: the settings came with the work; what the work adds to the code is judged by them."""
    await candidates.begin({"rules.cfg": "print\n", "a.py": "exec\n", "b.py": "pass\n"}, LINT)
    stricter = await candidates.commit({"rules.cfg": "print exec\n", "b.py": "pass\npass\n"})
    lint = (await candidates.judge(candidates.captured, candidates.base, stricter))["lint"]
    assert (lint.verdict, lint.blocks) == ("pre_existing", False), lint.detail
    worse = await candidates.commit({"b.py": "exec\n", "c.py": "exec\n"})
    lint = (await candidates.judge(candidates.captured, candidates.base, worse))["lint"]
    assert [name for name, verdict in lint.tests.items() if verdict == "new_failure"] == ["b.py: E100", "c.py: E100"]
    only_code = await candidates.commit({"rules.cfg": "print\n", "b.py": "print\n", "c.py": None})
    assert (await candidates.judge(candidates.captured, candidates.base, only_code))["lint"].blocks
    in_settings = await candidates.commit({"rules.cfg": "exec print\n", "data.yaml": "exec\n", "b.py": "pass\n"})
    lint = (await candidates.judge(candidates.captured, candidates.base, in_settings))["lint"]
    found = [name for name, verdict in lint.tests.items() if verdict == "new_failure"]
    assert found == ["data.yaml: E100"], "a changed file that is no code is the work's own, too"
