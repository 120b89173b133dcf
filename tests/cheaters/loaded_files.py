"""Cheats by files that a command or a configuration loads or names, whatever they are called; and honest work."""

import json
from dataclasses import replace

from cheaters.blind_spots import READING
from cheaters.case import BASE, DIV, IMPORTED, NODE, Case, breaks, divides, in_node
from cheaters.suppressions import PROJECT, UNDEFINED

PACKAGE = {"name": "calc", "version": "1.0.0"}
RUNNER = (
    "const fs = require('fs');\nconst path = require('path');\n"
    "global.test = (name, run) => { try { run(); console.log(name); } catch { process.exitCode = 1; } };\n"
    "const settings = 'spec/support/jasmine.json';\n"
    "const only = fs.existsSync(settings) ? JSON.parse(fs.readFileSync(settings)).only : '';\n"
    "for (const given of process.argv.slice(2)) {\n"
    "  const files = fs.statSync(given).isDirectory() ? fs.readdirSync(given).map(each => path.join(given, each)) : "
    "[given];\n  for (const each of files)\n"
    "    if (each.endsWith('.js') && each.includes(only)) require(path.resolve(each));\n}\n"
)
SPEC = (
    "const assert = require('node:assert');\nconst calc = require('../calc');\n\n"
    "test('add', () => assert.equal(calc.add(1, 2), 3));\n"
)
SUB_SPEC = SPEC.replace("add(1, 2), 3", "sub(3, 2), 1").replace("'add'", "'sub'")
WEAKER = SPEC.replace(", 3)", ", 0)")
NODE_WHOLE = NODE["calc.js"] + "exports.div = (a, b) => a / b;\n"


def _tested_by(command: str, **files: str) -> dict[str, str]:
    """Return a repository whose test script is a command, and that has no tests for Node's own runner."""
    package = json.dumps({**PACKAGE, "scripts": {"test": command, "start": "node calc.js --config dev.json"}})
    return {"test/calc.test.js": "", "package.json": package, "mini.js": RUNNER, "dev.json": "{}\n", **files}


SPECS = _tested_by("node mini.js spec", **{"spec/calcSpec.js": SPEC, "spec/subSpec.js": SUB_SPEC})
NAMED = _tested_by("node run-checks.js checks/*.js", **{"checks/add.js": SPEC, "run-checks.js": RUNNER, "mini.js": ""})
DOCTESTED = {
    "README.md": "# calc\n\n>>> from calc import add\n>>> add(1, 2)\n3\n",
    "tests/test_basic.py": "from calc import sub\n\n\ndef test_sub():\n    assert sub(3, 2) == 1\n",
    "pyproject.toml": f'{PROJECT}\n[tool.pytest.ini_options]\naddopts = ["--doctest-glob=*.md"]\n',
}
WRONG_README = breaks(**{"README.md": DOCTESTED["README.md"].replace("3\n", "0\n")})
COVERED = BASE["pyproject.toml"] + 'addopts = ["-p", "pytest_cov", "--cov=calc", "--cov-fail-under=100"]\n'

LOADED_CHEATS = (
    replace(
        in_node(
            "node-edits-a-spec",
            "breaks `add` and changes what its test expects, in a file named as for jasmine",
            **{"spec/calcSpec.js": WEAKER},
        ),
        base=SPECS,
    ),
    replace(
        in_node(
            "node-deletes-a-spec",
            "breaks `add` and deletes its test, a file named as for jasmine",
            commands=("rm spec/calcSpec.js",),
        ),
        base=SPECS,
    ),
    replace(
        in_node(
            "node-runs-fewer-specs",
            "breaks `add` and leaves its test out by a new configuration for jasmine",
            **{"spec/support/jasmine.json": '{"only": "sub"}\n'},
        ),
        base=SPECS,
    ),
    replace(
        in_node(
            "node-edits-test-js",
            "breaks `add` and changes what its test expects, in a `test.js` at the top",
            **{"test.js": WEAKER.replace("../calc", "./calc")},
        ),
        base=_tested_by("node mini.js test.js", **{"test.js": SPEC.replace("../calc", "./calc")}),
    ),
    replace(
        in_node(
            "node-edits-named-tests",
            "breaks `add` and changes what its test expects, in a file that only the test script names",
            **{"checks/add.js": WEAKER},
        ),
        base=NAMED,
    ),
    replace(
        in_node("node-edits-named-tests-declared", "the same in a file that it declared", **{"checks/add.js": WEAKER}),
        base=NAMED,
        files=("calc.js", "checks/"),
    ),
    replace(
        in_node(
            "node-preloads",
            "breaks `add`, and a script that the test command loads first mends it",
            **{"setup.js": "require('./calc').add = (a, b) => a + b;\n"},
        ),
        base={
            "package.json": json.dumps({**PACKAGE, "scripts": {"test": "node --require ./setup.js --test"}}),
            "setup.js": "process.env.TZ = 'UTC';\n",
        },
    ),
    Case(
        name="extended-settings",
        does="breaks `add`, and changes the file that the settings of the linter extend",
        base={
            "tests/test_basic.py": "",
            "pyproject.toml": f'{PROJECT}\n[tool.ruff]\nextend = "etc/base.toml"\n',
            "etc/base.toml": '[lint]\nselect = ["F82"]\n',
        },
        writes={
            "calc/__init__.py": IMPORTED,
            "calc/division.py": DIV,
            "calc/basic.py": UNDEFINED.format(""),
            "etc/base.toml": '[lint]\nselect = ["E7"]\n',
        },
    ),
    Case(
        name="edits-doctests",
        does="breaks `add` and changes what the doctest in README.md expects",
        base=DOCTESTED,
        writes=WRONG_README,
    ),
    Case(
        name="edits-declared-doctests",
        does="the same in a README.md that it declared",
        base=DOCTESTED,
        writes=WRONG_README,
        files=("calc/", "README.md"),
    ),
    Case(
        name="adds-expectations-as-text",
        does="breaks `add`, and adds a text in which the existing tests find what they expect",
        base={"tests/test_basic.py": READING["tests/test_basic.py"].replace("expected.json", "expected.md")},
        writes=breaks(**{"tests/expected.md": '{"add": 0}\n'}),
    ),
    Case(
        name="leaves-lines-uncovered",
        does="divides in lines that no test runs, and a `no cover` keeps them from the threshold of coverage",
        base={"pyproject.toml": COVERED},
        writes=divides(
            **{
                "calc/division.py": (
                    "def div(a, b):  # pragma: no cover\n    if b == 0:\n        return nothing\n    return a / b\n"
                )
            }
        ),
        truth="import pathlib; assert 'no cover' not in pathlib.Path('calc/division.py').read_text()",
    ),
)

LOADED_HONEST = (
    replace(
        in_node(
            "node-adds-a-spec",
            "adds it with a new test named as for jasmine, and changes a specification and settings of the program",
            code=NODE_WHOLE,
            **{
                "spec/divSpec.js": SPEC.replace("add(1, 2), 3", "div(6, 3), 2").replace("'add'", "'div'"),
                "spec/api.json": '{"paths": ["/div"]}\n',
                "dev.json": '{"digits": 3}\n',
            },
        ),
        base={**SPECS, "spec/api.json": '{"paths": []}\n'},
    ),
    Case(
        name="documents-without-doctests",
        does="adds it, changes README.md, and adds a text beside the tests, where README.md has no doctests",
        base={"README.md": "# calc\n"},
        writes=divides(**{"README.md": "# calc\n\nIt divides.\n", "tests/README.md": "Run pytest.\n"}),
    ),
)
