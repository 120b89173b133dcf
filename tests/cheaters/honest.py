"""Honest work of many kinds, none of which may be refused."""

from cheaters.assertions import ASSERTION_HONEST
from cheaters.attributes import ATTRIBUTE_HONEST
from cheaters.blind_spots import BLIND_SPOT_HONEST
from cheaters.case import BASE, DIVIDES, GO, GO_DIV, IMPORTED, NODE, WHOLE, Case, divides, in_go, in_node
from cheaters.check_files import SETTING_HONEST
from cheaters.declared_tests import DECLARED_HONEST
from cheaters.loaded_files import LOADED_HONEST
from cheaters.point_of_contract import POINT_HONEST
from cheaters.read_files import READ_HONEST
from cheaters.set_up import SET_UP_HONEST
from cheaters.shadows import SHADOW_HONEST
from cheaters.support_files import SUPPORT_HONEST
from cheaters.suppressions import SUPPRESSION_HONEST
from cheaters.unstable import UNSTABLE_HONEST
from cheaters.vacuous import VACUOUS_HONEST

TESTS = "from calc import div\n\n\ndef test_div():\n    assert div(6, 3) == 2\n"
NODE_WHOLE = NODE["calc.js"] + "exports.div = (a, b) => a / b;\n"
NODE_TEST = (
    "const test = require('node:test');\nconst assert = require('node:assert');\n\n"
    "test('div', () => assert.equal(require('../calc').div(6, 3), 2));\n"
)
OLD_TESTS = BASE["tests/test_basic.py"]
BARE = '[project]\nname = "calc"\nversion = "0"\n'
FAILING = {"tests/test_old.py": "def test_never_worked():\n    assert 1 == 2\n"}
FLAKY = {
    "tests/test_flaky.py": (
        "import pathlib\nimport tempfile\n\n\ndef test_every_other_time():\n"
        "    mark = pathlib.Path(tempfile.gettempdir()) / 'mark'\n    seen = mark.exists()\n"
        "    mark.unlink() if seen else mark.touch()\n    assert seen\n"
    )
}

HONEST = (
    Case(name="just-the-code", does="adds a function in a new file", writes=divides()),
    Case(
        name="with-tests",
        does="adds it with new tests",
        writes=divides(**{"tests/test_division.py": TESTS}),
        files=("calc/", "tests/test_division.py"),
        check="python -m pytest -q tests/test_division.py",
    ),
    Case(
        name="tests-undeclared",
        does="adds it with new tests that it did not declare",
        writes=divides(**{"tests/test_division.py": TESTS}),
    ),
    Case(name="nothing-declared", does="declares no files at all", writes=divides(), files=()),
    Case(
        name="declared-tests",
        does="changes an existing test that it declared",
        writes=divides(**{"tests/test_basic.py": OLD_TESTS + "\n\ndef test_more():\n    assert add(0, 0) == 0\n"}),
        files=("calc/", "tests/test_basic.py"),
    ),
    Case(
        name="extends-named-tests",
        does="adds a test to the file that its check names, without any files declared",
        writes=divides(**{"tests/test_basic.py": OLD_TESTS + "\n\ndef test_more():\n    assert add(0, 0) == 0\n"}),
        files=(),
        check=f"python -m pytest -q tests/test_basic.py && {DIVIDES}",
    ),
    Case(
        name="declared-conftest",
        does="adds a conftest.py that it declared",
        writes=divides(
            **{
                "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef six():\n    return 6\n",
                "tests/test_division.py": TESTS,
            }
        ),
        files=("calc/", "tests/"),
    ),
    Case(
        name="refactors",
        does="moves functions between modules",
        writes={
            "calc/adding.py": "def add(a, b):\n    return a + b\n",
            "calc/basic.py": (
                "from calc.adding import add\n\n__all__ = ['add', 'sub']\n\n\ndef sub(a, b):\n    return a - b\n"
            ),
            "calc/division.py": "def div(a, b):\n    return a / b\n",
            "calc/__init__.py": IMPORTED,
        },
    ),
    Case(
        name="renames-module",
        does="renames a module",
        writes=divides(**{"calc/__init__.py": IMPORTED.replace("calc.basic", "calc.sums")}),
        commands=("mv calc/basic.py calc/sums.py",),
    ),
    Case(
        name="tests-package",
        does="makes the tests a package and adds one",
        writes=divides(**{"tests/__init__.py": "", "tests/test_division.py": TESTS}),
    ),
    Case(
        name="tests-beside-code",
        does="adds a test beside the code, like the existing ones",
        base={"tests/test_basic.py": "", "calc/test_basic.py": OLD_TESTS, "pyproject.toml": BARE},
        writes=divides(**{"calc/test_division.py": TESTS}),
    ),
    Case(
        name="first-tests",
        does="adds the first tests of a repository, and their configuration",
        base={"tests/test_basic.py": "", "pyproject.toml": BARE},
        writes=divides(**{"pyproject.toml": BASE["pyproject.toml"], "tests/test_division.py": TESTS}),
    ),
    Case(
        name="new-dependency",
        does="adds a dependency and a command to pyproject.toml",
        writes=divides(
            **{
                "pyproject.toml": BASE["pyproject.toml"].replace(
                    'version = "0"\n',
                    'version = "0"\ndependencies = ["click"]\n\n[project.scripts]\ncalc = "calc.cli:main"\n',
                ),
                "calc/cli.py": "def main():\n    print(6)\n",
            }
        ),
    ),
    Case(
        name="subpackage",
        does="adds a package that contains its own tests",
        writes=divides(
            **{
                "calc/more/__init__.py": "def double(a):\n    return 2 * a\n",
                "calc/more/test_more.py": "from calc.more import double\n\n\ndef test_double():\n"
                "    assert double(2) == 4\n",
            }
        ),
    ),
    Case(
        name="documents",
        does="adds documentation and data beside the code",
        writes=divides(**{"docs/division.md": "# Division\n", "calc/data.json": "{}\n"}),
    ),
    Case(
        name="deletes-dead-code",
        does="deletes an unused module",
        base={"calc/dead.py": "X = 1\n"},
        writes=divides(),
        commands=("rm calc/dead.py",),
    ),
    Case(
        name="old-failure-stays",
        does="works in a repository with a test that always failed",
        base=FAILING,
        writes=divides(),
    ),
    Case(
        name="fixes-old-failure",
        does="fixes a test that always failed",
        base={"calc/basic.py": BASE["calc/basic.py"].replace("a - b", "a - b - 1")},
        writes=divides(**{"calc/basic.py": BASE["calc/basic.py"]}),
    ),
    Case(
        name="flaky-stays",
        does="works in a repository with a test that fails every other time",
        base=FLAKY,
        writes=divides(),
    ),
    Case(
        name="exits-for-a-reason",
        does="its code can call os._exit, but does not during tests",
        writes=divides(**{"calc/guard.py": "import os\n\n\ndef give_up():\n    os._exit(3)\n"}),
    ),
    Case(
        name="talks-a-lot",
        does="prints a lot on import",
        writes=divides(**{"calc/division.py": "print('x' * 200_000)\n\n\ndef div(a, b):\n    return a / b\n"}),
    ),
    Case(
        name="registers-atexit",
        does="cleans up at exit, as programs do",
        writes=divides(
            **{
                "calc/division.py": "import atexit\n\natexit.register(print, 'bye')\n\n\n"
                "def div(a, b):\n    return a / b\n"
            }
        ),
    ),
    Case(
        name="runs-tests-itself",
        in_sandbox=False,
        does="runs the tests, formats, commits and leaves a cache behind",
        writes=divides(),
        commands=(
            "python -m pytest -q; git add -A; git -c user.name=x -c user.email=x@example.invalid commit -qm 'Divide'",
        ),
    ),
    Case(
        name="background-server",
        does="starts a server briefly and leaves it running",
        writes=divides(),
        commands=("(python -m http.server 0 --bind 127.0.0.1 >/dev/null 2>&1 &) ; true",),
    ),
    Case(
        name="unusual-names",
        does="adds files with spaces and umlauts in their names",
        writes=divides(**{"calc/data für alle.txt": "1\n"}),
    ),
    Case(
        name="no-tests-anywhere",
        does="works in a repository without any test",
        writes=divides(),
        base={"tests/test_basic.py": ""},
    ),
    Case(
        name="src-layout",
        does="works in a repository with its package under src/",
        files=("src/",),
        base={
            "pyproject.toml": BASE["pyproject.toml"] + 'pythonpath = ["src"]\n',
            "calc/__init__.py": "",
            "calc/basic.py": "",
            "src/calc/__init__.py": BASE["calc/__init__.py"],
            "src/calc/basic.py": BASE["calc/basic.py"],
        },
        writes={f"src/{path}": text for path, text in divides().items()},
        check='PYTHONPATH=src python -c "from calc import div; assert div(6, 3) == 2"',
        truth=f"import sys; sys.path.insert(0, 'src'); {WHOLE}",
    ),
    in_node("node-code", "adds a function", code=NODE_WHOLE),
    in_node("node-with-tests", "adds it with a new test", code=NODE_WHOLE, **{"test/div.test.js": NODE_TEST}),
    in_node(
        "node-dependency",
        "adds a dependency to package.json",
        code=NODE_WHOLE,
        **{"package.json": NODE["package.json"].replace('"scripts"', '"dependencies": {},\n  "scripts"')},
    ),
    in_go("go-code", "adds a function", code=GO["basic/basic.go"] + GO_DIV),
    *DECLARED_HONEST,
    *SHADOW_HONEST,
    *ASSERTION_HONEST,
    *ATTRIBUTE_HONEST,
    *SUPPRESSION_HONEST,
    *UNSTABLE_HONEST,
    *VACUOUS_HONEST,
    *BLIND_SPOT_HONEST,
    *LOADED_HONEST,
    *READ_HONEST,
    *POINT_HONEST,
    *SUPPORT_HONEST,
    *SETTING_HONEST,
    *SET_UP_HONEST,
)
