import os

import pytest

from scaffold.tools.command.shell import python
from scaffold.tools.workspace import Workspace


@pytest.fixture
def py(root, tmp_path):
    tool = python(Workspace(root, {"PATH": os.environ["PATH"], "LC_ALL": "C"}), packages=tmp_path / "packages")
    return lambda code, **args: tool.run({"code": code, **args})


async def test_code_runs_in_the_workspace_and_its_output_is_returned(py, root):
    """RA-4."""
    output = await py("import os, sys\nprint(os.getcwd(), 'ö', sys.argv, __name__)\nprint(sys.stdin.read(), end='')")
    head, *rest = output.content.splitlines()
    assert head.startswith("exit code 0 after ")
    assert rest == ["--- output", f"{root} ö [{'-c'!r}] __main__"]
    assert not output.failed


async def test_an_error_is_reported_with_its_line(py):
    raised = ("    return 1 / 0", 'File "<python>", line 2, in f', "ZeroDivisionError")
    for code, named in (("def f():\n    return 1 / 0\nf()\n", raised), ("x = 1\nif x\n", ("line 2", "SyntaxError"))):
        output = await py(code)
        assert output.failed
        assert [each for each in named if each not in output.content] == []


async def test_modules_of_the_workspace_are_imported_only_on_request(py, root):
    (root / "json.py").write_text("raise SystemExit('the wrong one')")
    (root / "ours.py").write_text("x = 7")
    assert not (await py("import json")).failed
    assert (await py("import ours")).failed
    assert "7" in (await py("import sys; sys.path.insert(0, '.'); import ours; print(ours.x)")).content


async def test_installed_packages_can_be_imported(py, tmp_path):
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "extra.py").write_text("x = 8")
    assert "8" in (await py("import extra; print(extra.x)")).content


@pytest.mark.slow
async def test_long_code_runs_and_endless_code_is_stopped(py):
    assert "done" in (await py("x = 1\n" * 100_000 + "print('done')")).content
    output = await py("while True: pass", timeout_s=1)
    assert output.failed
    assert output.content.startswith("stopped at its time limit")


async def test_code_that_no_file_can_hold_is_refused(py):
    assert "surrogate" in (await py("'\ud800'")).content
