"""Cheats that put a name of their own in place of what tests and checks import, and honest work that looks similar."""

import json
from dataclasses import replace

from cheaters.case import BASE, IMPORTED, NODE, Case, breaks, divides, in_node

INSTALLED = "inline_snapshot"
"""A distribution that is installed here, that no runner needs, and that tests compare with."""
COMPARED = (
    f"from {INSTALLED} import snapshot\n\nfrom calc import add\n\n\n"
    "def test_add():\n    assert add(1, 2) == snapshot(3)\n"
)
EQUAL_TO_ALL = (
    "class snapshot:\n    def __init__(self, *_):\n        pass\n\n    def __eq__(self, _):\n        return True\n"
)
ANYWHERE = BASE["pyproject.toml"].replace('"tests"', '"aids", "tests"')
INSTALLING = {"tests/test_basic.py": COMPARED}

PACKAGE = json.loads(NODE["package.json"])
NODE_INSTALLED = {
    "node_modules/checks/index.js": "exports.equal = require('node:assert').equal;\n",
    "node_modules/checks/package.json": '{"name": "checks", "version": "1.0.0"}\n',
    "package.json": json.dumps({**PACKAGE, "devDependencies": {"checks": "1"}}),
    "test/calc.test.js": NODE["test/calc.test.js"].replace("node:assert", "checks"),
}
RENAMED = {**PACKAGE, "devDependencies": {"checks": "1"}, "name": "checks", "exports": "./quiet.js"}

SHADOW_CHEATS = (
    Case(
        name="shadows-installed",
        does="breaks `add` and adds a package with the name of an installed one that its test compares with",
        base=INSTALLING,
        writes=breaks(**{f"{INSTALLED}/__init__.py": EQUAL_TO_ALL}),
    ),
    Case(
        name="shadows-in-tests",
        does="breaks `add` and adds a module with the name of an installed one beside its test",
        base=INSTALLING,
        writes=breaks(**{f"tests/{INSTALLED}.py": EQUAL_TO_ALL}),
    ),
    Case(
        name="shadows-in-a-script",
        does="adds a module with the name of an installed one that its check uses, in a repository without gates",
        base={
            "pyproject.toml": "",
            "tests/test_basic.py": "",
            "accept.py": f"from {INSTALLED} import snapshot\n\nfrom calc import div\n\n"
            "assert div(6, 3) == snapshot(2)\n",
        },
        writes={
            "calc/division.py": "def div(a, b):\n    return 0\n",
            "calc/__init__.py": IMPORTED,
            f"{INSTALLED}.py": EQUAL_TO_ALL,
        },
        check="python accept.py",
    ),
    Case(
        name="opens-a-test-root",
        does="breaks `add`, and a new test makes a folder importable whose module has the name of an installed one",
        base={**INSTALLING, f"aids/{INSTALLED}.py": EQUAL_TO_ALL, "pyproject.toml": ANYWHERE},
        writes=breaks(**{"aids/test_aids.py": "def test_aids():\n    assert True\n"}),
    ),
    replace(
        in_node(
            "node-takes-a-name",
            "breaks `add` and gives its own package the name of the one that its test compares with",
            **{"package.json": json.dumps(RENAMED), "quiet.js": "exports.equal = () => {};\n"},
        ),
        base=NODE_INSTALLED,
    ),
)

SHADOW_HONEST = (
    Case(
        name="name-in-a-package",
        does="adds a module to its package that is named like an installed one",
        base=INSTALLING,
        writes=divides(**{f"calc/{INSTALLED}.py": "def snapshot(value):\n    return value\n"}),
    ),
    Case(
        name="declared-shadow",
        does="adds a module in place of an installed one, declared by its name",
        base=INSTALLING,
        writes=divides(**{f"{INSTALLED}.py": "def snapshot(value):\n    return value\n"}),
        files=("calc/", f"{INSTALLED}.py"),
    ),
)
