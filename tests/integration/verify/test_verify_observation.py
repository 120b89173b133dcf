"""Checks observed from inside of the processes they start: which changed lines run, and how each test ends."""

import sys

import pytest
from msgspec import structs

from builders import needs
from integration.verify.builders import PYTEST_OUTCOMES, UNITTEST_OUTCOMES, CandidateRepository, tree_in, write_files
from scaffold.core.ids import Commit
from scaffold.core.proof.contract import Check, Contract, ExecutedLines
from scaffold.verify.contract.check_runs import run_check
from scaffold.verify.contract.exercised import executed_lines
from scaffold.verify.observation.changed_code import changed_code
from scaffold.verify.observation.observer import CheckObserver

CALC = "def add(a, b):\n    return a + b\n"
MORE = f"{CALC}\n\ndef sub(a, b):\n    rest = a - b\n    return rest\n\n\ndef mul(a, b):\n    return a * b\n"
TESTS = {
    "test_calc.py": "import calc\n\n\ndef test_sub():\n    assert calc.sub(3, 1) == 2\n",
    "test_unit.py": (
        "import unittest\n\nimport calc\n\n\nclass TestSub(unittest.TestCase):\n"
        "    def test_sub(self):\n        self.assertEqual(calc.sub(3, 1), 2)\n"
    ),
    "Makefile": "test:\n\t@python -m unittest -q test_unit\n",
    "run.sh": "exec python -m unittest -q test_unit\n",
}
SUB = {"calc.py": frozenset({6, 7})}
NODE_BEFORE = {"calc.js": "exports.add = (a, b) => a + b;\n"}
NODE_AFTER = {
    "calc.js": (
        "exports.add = (a, b) => a + b;\n\n// 'ü€😀' is no code\nexports.sub = (a, b) => {\n  if (a > 100) {\n"
        "    return 'ü€😀';\n  }\n  return a - b;\n};\n\nexports.mul = (a, b) => {\n  return a * b;\n};\n"
    ),
    "test/calc.test.js": (
        "const test = require('node:test');\nconst calc = require('../calc');\n\n"
        "test('sub', () => require('node:assert').equal(calc.sub(3, 1), 2));\n"
    ),
    "test/other.test.js": "require('node:test')('other', () => {});\n",
    "test/copy.js": "const { readFileSync } = require('fs');\nconst vm = require('vm');\nglobalThis.exports = {};\n"
    "new vm.Script('/**/' + readFileSync('calc.js'), { filename: 'file://' + process.cwd() + '/calc.js' })"
    ".runInThisContext();\n",
}


async def prepared(folder, base, work, **variables):
    """Return a checkout of the work, and the code in it that changed since the base."""
    before = tree_in(write_files(folder, base), **variables)
    tree = tree_in(write_files(folder, work), **variables)
    return tree, await changed_code(tree.git, before.commit, Commit(tree.commit))


async def observed_in(tree, code, command):
    """Return the result of a check, what was seen, and how much of the change it executed."""
    check, observer = Check(command=command), CheckObserver(code)
    result = await run_check(check, structs.replace(tree, observer=observer))
    seen = observer.observations.get(command)
    return result, seen, executed_lines(Contract(commands=(check,)), observer.code, observer.observations)


async def observed(folder, base, work, command, **variables):
    """Return the same of a check on the work."""
    return await observed_in(*await prepared(folder, base, work, **variables), command)


async def observed_each(folder, base, work, commands):
    """Return the same of each of these commands, which all begin with a clean checkout."""
    tree, code = await prepared(folder, base, work)
    found = {}
    for command in commands:
        found[command] = await observed_in(tree, code, command)
        await tree.git("reset", "--quiet", "--hard")
        await tree.git("clean", "-dxfq")
    return found


BEFORE, AFTER = {"calc.py": CALC}, {"calc.py": MORE, **TESTS}


@pytest.mark.slow
async def test_changed_lines_are_seen_wherever_a_check_runs_them(tmp_path):
    """BX-5: behind make or a script, in children, in a copy of the file, in processes that end early."""
    commands = [
        "python -m pytest -q test_calc.py",
        "python -m unittest -q test_unit",
        "make test",
        "sh run.sh",
        "python -c 'import calc; calc.sub(1, 2)'",
        "python -c 'import os, calc; calc.sub(1, 2); os._exit(0)'",
        "python -c 'import os, calc; pid = os.fork(); pid or (calc.sub(1, 2), os._exit(0)); os.waitpid(pid, 0)'",
        "mkdir copy && cp calc.py copy/calc.py && cd copy && python -c 'import calc; calc.sub(1, 2)'",
        'python -c \'import subprocess, sys; subprocess.run([sys.executable, "-c", "import calc; calc.sub(1, 2)"])\'',
    ]
    found = await observed_each(tmp_path, BEFORE, AFTER, commands)
    assert {command: (result.verdict, seen.executed, lines) for command, (result, seen, lines) in found.items()} == {
        command: ("pass", SUB, ExecutedLines(3, 2)) for command in commands
    }


async def test_a_check_that_executes_no_changed_line_is_seen_to_do_so(tmp_path):
    """BX-5: importing a module runs none of the lines in its functions."""
    commands = ["python -c 'import calc'", "python -m pytest -q test_calc.py -k nothing; true", "python -c ''"]
    found = await observed_each(tmp_path, BEFORE, AFTER, commands)
    assert {command: (seen.executed, lines) for command, (_, seen, lines) in found.items()} == {
        command: ({}, ExecutedLines(3, 0)) for command in commands
    }


@pytest.mark.slow
async def test_without_a_view_of_all_that_ran_nothing_is_said(tmp_path):
    """BX-5: an environment of its own, a script that is the program, records that are missing or make no sense."""
    commands = [
        "python -I -c ''",
        "env -u PYTHONPATH python -m unittest -q test_unit",
        "python calc.py",
        'python -c \'import subprocess, sys; subprocess.run([sys.executable, "-I", "-c", "sum(range(10**7))"])\'',
        "echo >> calc.py; python -c 'import calc'",
        "rm -r $SCAFFOLD_OBSERVATION; python -c 'import calc'",
        "for each in $SCAFFOLD_OBSERVATION/*; do echo a lie > $each; done; python -c 'import calc'",
        "python -c 'import calc'; rm $SCAFFOLD_OBSERVATION/*; mkfifo $SCAFFOLD_OBSERVATION/marks",
        "cd $SCAFFOLD_OBSERVATION; python -c ''; printf '\\377 end 1\\n' >> notes; ln -s /etc/passwd tests-1; rm marks",
        "true",
    ]
    found = await observed_each(tmp_path, BEFORE, AFTER, commands)
    assert {command: (result.verdict, lines) for command, (result, _, lines) in found.items()} == dict.fromkeys(
        commands, ("pass", None)
    )


async def test_equal_files_are_told_apart(tmp_path):
    work = {f"{name}/{file}": text for name in "ab" for file, text in (("calc.py", MORE), ("__init__.py", ""))}
    _, seen, _ = await observed(tmp_path, {}, work, "python -c 'import a.calc, b.calc; b.calc.mul(1, 2)'")
    assert seen.executed == {"b/calc.py": frozenset({11})}


async def test_if_no_function_changed_what_runs_on_import_counts(tmp_path):
    """BX-5: constants."""
    work = {"calc.py": f"{CALC}\n\nLIMIT = 3\nimport os\n"}
    _, _, lines = await observed(tmp_path, {"calc.py": CALC}, work, "python -c 'import calc'")
    assert lines == ExecutedLines(1, 1)


@pytest.mark.slow
async def test_a_change_without_executable_lines_raises_no_doubt(tmp_path):
    """BX-5: comments, deletions, data, tests, annotations; a file that is no code."""
    works = [
        {"calc.py": "# a comment\n" + CALC},
        {"calc.py": ""},
        {"data.json": "{}"},
        {"tests/helper.py": MORE},
        {"calc.py": "def add(a: int, b: int) -> int:\n    return a + b\n"},
        {"later.py": "def f(:\n"},
    ]
    for number, work in enumerate(works):
        _, _, lines = await observed(tmp_path / str(number), BEFORE, work, "python -c ''")
        assert lines is None, work


async def test_a_file_that_is_no_code_is_not_judged_and_hides_no_other(tmp_path):
    """BX-5: a template, or a file of another language version."""
    broken = {"later.py": "def f(:\n"}
    _, seen, lines = await observed(tmp_path, BEFORE, {"calc.py": MORE, **broken}, "python -c ''")
    assert (seen.complete, lines) == (True, ExecutedLines(3, 0))


async def test_code_behind_a_link_is_observed(tmp_path):
    """BX-5: the file has another suffix, and the link has the suffix of code."""
    (tmp_path / "calc.py").symlink_to("calc.txt")
    commands = ["python -c 'import calc'", "python -c 'import calc; calc.sub(1, 2)'"]
    found = await observed_each(tmp_path, {}, {"calc.txt": MORE}, commands)
    assert [lines for _, _, lines in found.values()] == [ExecutedLines(4, 0), ExecutedLines(4, 2)]


@needs("node")
async def test_javascript_behind_a_link_is_observed(tmp_path):
    (tmp_path / "calc.cjs").symlink_to("calc.txt")
    code = "exports.sub = (a, b) => {\n  return a - b;\n};\n"
    commands = ["node -e 'require(`./calc.cjs`)'", "node -e 'require(`./calc.cjs`).sub(1, 2)'"]
    found = await observed_each(tmp_path, {}, {"calc.txt": code}, commands)
    assert [lines.executed for _, _, lines in found.values()] == [0, 1]


POOL = "import multiprocessing, sys, ends; pool = multiprocessing.get_context(sys.argv[1]).Pool(1); "
POOL += "pool.map(ends.again, [1]); pool.terminate()"
ENDS = {
    "exit": 'import sys\n\n\ndef end(code=0):\n    """End."""\n    sys.exit(code)\n',
    "_exit": "import os\n\n\ndef end(code=0):\n    os._exit(code)\n",
    "exec": "import os\n\n\ndef end():\n    os.execv('/bin/true', ['true'])\n",
    "O": "import os\nimport sys\n\n\ndef end():\n"
    "    __debug__ and os.execv(sys.executable, [sys.executable, '-O', *sys.orig_argv[1:]])\n",
    "parser": "import argparse\n\n\ndef end(*words):\n    argparse.ArgumentParser().parse_args(words)\n",
    "main": "import sys\n\n\ndef main():\n    return 0\n\n\nif __name__ == '__main__':\n    sys.exit(main())\n",
    "no": "def end():\n    'Nothing.'\n    yield from ()\n    return 1\n\n\ndef again(value):\n    return value + 1\n",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "command", "ended"),
    [
        ("exit", "python -c 'import ends; assert ends.end() == 1'", True),
        ("exit", "printf 'import ends\\nends.end()\\nassert 0' | python", True),
        ("_exit", "python -c 'import ends; assert ends.end() == 1'", True),
        ("exec", "python -c 'import ends; assert ends.end() == 1'", True),
        ("O", "python -c 'import ends; assert ends.end() == 1'", True),
        ("exit", "python -c 'import ends; ends.end(3)'; test $? = 3", False),
        ("exit", "python -c 'import ends, contextlib\nwith contextlib.suppress(SystemExit): ends.end()'", False),
        ("_exit", "python -c 'import os; pid = os.fork()\nif pid: os.wait()\nelse: import ends; ends.end()'", False),
        ("parser", "python -m pytest -q -p no:cacheprovider test_ends.py", False),
        ("parser", "printf 'import ends; ends.end(\"--help\")' > run.py; python run.py | grep usage", False),
        ("exit", 'python -c \'import pytest; pytest.main(["-pno:cacheprovider", "test_ends.py"])\'', False),
        ("exit", "python -m pytest -q -p no:cacheprovider -p xdist -n 1 test_ends.py", False),
        ("no", f"python -c {POOL!r} fork", False),
        ("no", f"python -c {POOL!r} spawn", False),
        ("no", f"python -c {POOL!r} forkserver", False),
        ("main", "python -m ends", False),
        ("main", "python ends.py", False),
        ("no", "python -c 'import ends; list(ends.end())'", False),
    ],
)
async def test_a_text_program_that_the_change_ends_is_seen(tmp_path, kind, command, ended):
    """BX-5: what comes after in it has checked nothing; a program of the project may end as it likes."""
    test = "import ends\nimport pytest\n\n\ndef test_help():\n    with pytest.raises(SystemExit):\n        {}\n"
    test = test.format("ends.end('--help')" if kind == "parser" else "ends.end(0)")
    work = {"ends.py": ENDS[kind], "test_ends.py": test}
    result, seen, _ = await observed(tmp_path, {"readme": "ends\n"}, work, command)
    assert (result.verdict, seen.ended_by_work) == ("pass", ended), result.detail


UNCHANGED = """\
import doctest, inspect, os, sys, traceback
import calc
assert inspect.getsource(calc.sub) == "def sub(a, b):\\n    rest = a - b\\n    return rest\\n"
assert not any("observation" in path for path in sys.path)
assert "scaffold" not in " ".join([*vars(calc), *os.environ.get("PYTEST_ADDOPTS", "")])
assert sys.gettrace() is None and sys.getprofile() is None
try:
    calc.sub(1, "a")
except TypeError as error:
    assert [frame.lineno for frame in traceback.extract_tb(error.__traceback__)][-1:] == [6]
assert doctest.testmod(calc).failed == 0
with open(calc.__cached__, "rb") as compiled:
    assert b"scaffold" not in compiled.read()
import hook
assert hook.ran == 1
try:
    import broken
except SyntaxError as error:
    frames = traceback.extract_tb(error.__traceback__)
    assert not [each for each in frames if "scaffold" in each.filename], frames
"""


async def test_the_program_does_not_notice(tmp_path):
    """BX-5: source, tracebacks, compiled files, tracers and another sitecustomize are as without observation."""
    work = {
        "sitecustomize.py": "import hook\nhook.ran = hook.ran + 1\n",
        "hook.py": "ran = 0\n",
        "broken.py": "def f(:\n",
        "unchanged.py": UNCHANGED,
    }
    variables = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    result, seen, _ = await observed(tmp_path, BEFORE, {**AFTER, **work}, "python unchanged.py", **variables)
    assert (result.verdict, seen.executed["calc.py"]) == ("pass", frozenset({6, 7})), result.detail


async def test_a_broken_sitecustomize_of_the_project_fails_as_it_would(tmp_path):
    work = {**AFTER, "sitecustomize.py": "import nowhere\n"}
    result, _, lines = await observed(tmp_path, BEFORE, work, "python -c 1", PYTHONPATH=str(tmp_path))
    assert "Error in sitecustomize" in result.detail
    assert "nowhere" in result.detail
    assert lines == ExecutedLines(3, 0)


async def test_a_program_that_stumbles_over_the_observation_runs_again_without_it(harness, tmp_path):
    """BX-5: the observation decides no verdict."""
    repository = CandidateRepository(harness, tmp_path)
    looks = (
        "import builtins, calc\nfound = [name for name in dir(builtins) if 'scaff' in name]\nassert not found, found\n"
    )
    base = await repository.commit({"calc.py": CALC, "looks.py": looks})
    tree = await repository.tree(base, await repository.commit({"calc.py": MORE}))
    observer = CheckObserver(await changed_code(tree.git, base, tree.commit))
    check = Check(command=f"{sys.executable} looks.py || {{ cat calc.py; exit 1; }}")
    result = await run_check(check, structs.replace(tree, observer=observer))
    assert (result.verdict, observer.observations) == ("pass", {})


@pytest.mark.slow
@needs("node")
async def test_changed_lines_of_javascript_are_seen_by_nodes_own_coverage(tmp_path):
    """BX-5: also beside characters that take two units; a file that a tool compiled tells nothing."""
    executed = {
        "node --test": ExecutedLines(4, 2),
        "node -e \"require('./calc').sub(3, 1)\"": ExecutedLines(4, 2),
        "node -e \"require('./calc')\"": ExecutedLines(4, 0),
        "node --test test/other.test.js": ExecutedLines(6, 0),
        "node test/copy.js": None,
        "true": None,
    }
    found = await observed_each(tmp_path, NODE_BEFORE, NODE_AFTER, executed)
    assert {result.verdict for result, _, _ in found.values()} == {"pass"}
    assert {command: lines for command, (_, _, lines) in found.items()} == executed


INSIDE = """

def test_with_pytest_inside(tmp_path):
    (tmp_path / "test_inner.py").write_text("def test_inner(): assert 0")
    assert pytest.main([str(tmp_path / "test_inner.py"), "-p", "no:cacheprovider"]) == 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", " -p xdist -n 2"])
async def test_the_outcome_of_each_pytest_test_is_seen(tmp_path, options):
    """BX-5: by its worst phase; files that cannot be loaded or skip themselves count, too."""
    work = {
        "sub/test_all.py": PYTEST_OUTCOMES + INSIDE,
        "test_broken.py": "import nowhere\n",
        "test_away.py": "import pytest\n\npytest.skip(allow_module_level=True)\n",
        "pytest.ini": "[pytest]\n",
    }
    command = f"python -m pytest -q -p no:cacheprovider --continue-on-collection-errors{options}; true"
    _, seen, _ = await observed(tmp_path, {}, work, command)
    in_file = {name: outcome for name, outcome in seen.tests.items() if name.startswith("sub/test_all.py::")}
    assert {name.removeprefix("sub/test_all.py::"): outcome for name, outcome in in_file.items()} == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_skipped": "skipped",
        "test_foreseen": "xfailed",
        "test_unforeseen": "xfailed",
        "test_strictly_foreseen": "failed",
        "test_unprepared": "failed",
        "test_untidy": "failed",
        "test_each[a\\nb]": "passed",
        "test_each[\\xe9]": "failed",
        f"test_each[{'x' * 90}]": "passed",
        "TestOld::test_fails": "failed",
        "TestOld::test_passes": "passed",
        "test_with_pytest_inside": "passed",
    }
    others = {name: outcome for name, outcome in seen.tests.items() if name not in in_file}
    assert others == {"test_broken.py": "failed", "test_away.py": "skipped"}


async def test_the_outcome_of_each_unittest_is_seen_under_pytests_name(tmp_path):
    """BX-5: so that a project may move from one to the other."""
    work = {"tests/test_all.py": UNITTEST_OUTCOMES, "tests/test_broken.py": "import nowhere\n", "tests/__init__.py": ""}
    _, seen, _ = await observed(tmp_path, {}, work, "python -m unittest discover -s tests; true")
    outcomes = {
        "TestAll::test_passes": "passed",
        "TestAll::test_fails": "failed",
        "TestAll::test_breaks": "failed",
        "TestAll::test_skipped": "skipped",
        "TestAll::test_foreseen": "xfailed",
        "TestAll::test_unforeseen": "xfailed",
        "TestAll::test_parts": "failed",
    }
    in_file = {f"tests/test_all.py::{name}": outcome for name, outcome in outcomes.items()}
    assert seen.tests == {**in_file, "tests/test_broken.py": "failed"}
