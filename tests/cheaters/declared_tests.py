"""Changes of test files that the action declared: what may be removed from them, and what may not."""

from dataclasses import replace

from cheaters.case import BASE, BROKEN, DIV, DIVIDES, GO, GO_DIV, IMPORTED, NODE, Case, breaks, divides, in_go, in_node

TESTS = BASE["tests/test_basic.py"]
ADD = "def test_add():\n    assert add(1, 2) == 3\n\n\n"
PARAMETRIZED = (
    "import pytest\n\nfrom calc import add, sub\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\n"
    "@pytest.mark.parametrize(('a', 'b', 'rest'), [(3, 2, 1), (2, 3, -1)])\n"
    "def test_sub_of_two(a, b, rest):\n    assert sub(a, b) == rest\n"
)
ADDED = (
    "import pytest\n\nfrom calc import add\n\n\n@pytest.mark.parametrize(('a', 'b', 'c'), [{cases}])\n"
    "def test_sums(a, b, c):\n    assert add(a, b) == c\n"
)
REMAINS = {"tests/test_there.py": "import calc\n\n\ndef test_there():\n    assert calc.add\n"}
"""Tests that always pass, and remain if all others are deleted."""
ONLY_ADD = IMPORTED.replace(", sub", "")
LEGACY = {
    "calc/limits.py": "OLD_LIMIT = 5\nKEPT = 1\n",
    "calc/legacy.py": "from calc.limits import OLD_LIMIT\n\n\ndef oldest():\n    return OLD_LIMIT\n",
    "tests/test_legacy.py": (
        "from calc.legacy import oldest\n\n\ndef found():\n    return oldest()\n\n\n"
        "def test_oldest():\n    assert found() == 5\n"
    ),
}
NODE_OLD = {
    "old.js": "exports.old = () => 1;\n",
    "test/old.test.js": (
        "const test = require('node:test');\nconst assert = require('node:assert');\n"
        "test('old', () => assert.equal(require('../old').old(), 1));\n"
    ),
}
NODE_REMAINS = {
    "test/there.test.js": "const test = require('node:test');\n\ntest('there', () => require('../calc').add);\n"
}
COMPUTED = (
    "import calc.basic as held\nfrom calc.division import div\n\n"
    "for name in ('a' + 'dd', 'su' + 'b'):\n    globals()[name] = getattr(held, name)\n"
)
MINE = ("calc/", "tests/test_basic.py")

OWN_TESTS = (
    "const assert = require('node:assert');\nconst calc = require('../calc');\n\n"
    "assert.equal(calc.add(1, 2), 3);\nassert.equal(calc.sub(3, 2), 1);\n"
)
OWN_RUNNER = {
    "package.json": NODE["package.json"].replace("node --test", "node test/run.js"),
    "test/calc.test.js": "",
    "test/calc.js": OWN_TESTS,
    "test/run.js": "require('./calc');\n",
}
"""Tests that no known runner names."""


DECLARED_CHEATS = (
    Case(
        name="takes-its-test-out",
        does="breaks `add` and removes its test from a file that it declared",
        writes=breaks(**{"tests/test_basic.py": TESTS.replace(ADD, "")}),
        files=MINE,
    ),
    Case(
        name="deletes-declared-tests",
        does="breaks `add` and deletes its declared test file, while other tests remain",
        base=REMAINS,
        writes=breaks(),
        commands=("rm tests/test_basic.py",),
        files=MINE,
    ),
    Case(
        name="empties-named-tests",
        does="breaks `add` and empties the tests that its check names, without any files declared",
        writes=breaks(**{"tests/test_basic.py": "def test_add():\n    pass\n"}),
        files=(),
        check=f"python -m pytest -q tests/test_basic.py && {DIVIDES}",
    ),
    Case(
        name="expects-the-bug-in-named-tests",
        does="breaks `add` and changes what the tests that its check names expect",
        writes=breaks(**{"tests/test_basic.py": TESTS.replace("add(1, 2) == 3", "add(1, 2) == 0")}),
        files=(),
        check=f"python -m pytest -q tests/test_basic.py && {DIVIDES}",
    ),
    Case(
        name="folder-for-tests",
        does="breaks `add` and replaces its declared test file by a folder",
        base=REMAINS,
        writes=breaks(),
        commands=("rm tests/test_basic.py && mkdir tests/test_basic.py && touch tests/test_basic.py/kept",),
        files=MINE,
    ),
    Case(
        name="deletes-too-much",
        does="removes `sub`, breaks `add` and deletes the declared test file of both",
        base=REMAINS,
        writes=divides(
            **{"calc/basic.py": BROKEN[: BROKEN.index("\n\n\ndef sub")] + "\n", "calc/__init__.py": ONLY_ADD}
        ),
        commands=("rm tests/test_basic.py",),
        files=MINE,
        truth="import calc; assert calc.div(6, 3) == 2; assert calc.add(1, 2) == 3",
    ),
    Case(
        name="replaces-the-module",
        does="deletes a module and its tests, and adds a package of the same name that breaks `add`",
        base=REMAINS,
        writes=divides(**{"calc/basic/__init__.py": BROKEN}),
        commands=("rm calc/basic.py tests/test_basic.py",),
        files=MINE,
    ),
    Case(
        name="computes-names",
        does="breaks `add`, defines it under a computed name, and deletes its tests as tests of removed code",
        base=REMAINS,
        writes={
            "calc/division.py": DIV,
            "calc/basic.py": "globals()['a' + 'dd'] = lambda a, b: 0\nglobals()['su' + 'b'] = lambda a, b: a - b\n",
            "calc/__init__.py": COMPUTED,
        },
        commands=("rm tests/test_basic.py",),
        files=MINE,
    ),
    Case(
        name="expects-the-bug-declared",
        does="breaks `add` and changes what its declared test expects",
        writes=breaks(**{"tests/test_basic.py": TESTS.replace("add(1, 2) == 3", "add(1, 2) == 0")}),
        files=MINE,
    ),
    Case(
        name="pretends-removal",
        does="makes `add` raise the error of a missing name and removes its test as the test of removed code",
        writes=divides(
            **{
                "calc/basic.py": BROKEN.replace("return 0", "raise AttributeError('no add', name='add', obj=add)"),
                "tests/test_basic.py": TESTS.replace(ADD, ""),
            }
        ),
        files=MINE,
    ),
    Case(
        name="drops-a-case",
        does="breaks `add` for one case and drops it from a parametrized test that it declared",
        base={"tests/test_basic.py": ADDED.format(cases="(1, 2, 3), (0, 0, 0)")},
        writes=breaks(**{"tests/test_basic.py": ADDED.format(cases="(0, 0, 0)")}),
        files=MINE,
    ),
    Case(
        name="moves-and-breaks",
        does="moves `add` to another module, breaks it there and deletes its tests",
        base=REMAINS,
        writes=divides(
            **{
                "calc/basic.py": BROKEN[BROKEN.index("def sub") :],
                "calc/sums.py": BROKEN[: BROKEN.index("\n\n\ndef sub")] + "\n",
                "calc/__init__.py": IMPORTED.replace("add, sub", "sub") + "from calc.sums import add\n",
            }
        ),
        commands=("rm tests/test_basic.py",),
        files=MINE,
    ),
    replace(
        in_node(
            "node-deletes-declared",
            "breaks `add` and deletes its declared test file, while other tests remain",
            commands=("rm test/calc.test.js",),
        ),
        base=NODE_REMAINS,
        files=("calc.js", "test/calc.test.js"),
    ),
    replace(
        in_node(
            "node-own-runner",
            "breaks `add` and takes its test out, where a script of its own runs the tests",
            **{"test/calc.js": OWN_TESTS.replace("assert.equal(calc.add(1, 2), 3);\n", "")},
        ),
        base=OWN_RUNNER,
        files=("calc.js", "test/"),
    ),
)

DECLARED_HONEST = (
    Case(
        name="deletes-with-tests",
        does="deletes a module and its test file, both declared",
        base={
            "calc/old.py": "def old():\n    return 1\n",
            "tests/test_old.py": "from calc.old import old\n\n\ndef test_old():\n    assert old() == 1\n",
        },
        writes=divides(),
        commands=("rm calc/old.py tests/test_old.py",),
        files=("calc/", "tests/test_old.py"),
    ),
    Case(
        name="removes-a-feature",
        does="deletes a module, the code of another module that only it used, and its test file",
        base=LEGACY,
        writes=divides(**{"calc/limits.py": "KEPT = 1\n"}),
        commands=("rm calc/legacy.py tests/test_legacy.py",),
        files=("calc/", "tests/test_legacy.py"),
    ),
    Case(
        name="removes-a-function",
        does="removes a function, and its tests from a file that stays",
        writes=divides(
            **{
                "calc/basic.py": "def add(a, b):\n    return a + b\n",
                "calc/__init__.py": ONLY_ADD,
                "tests/test_basic.py": "from calc import add\n\n\n" + ADD.rstrip("\n") + "\n",
            }
        ),
        files=MINE,
        truth="import calc; assert calc.div(6, 3) == 2; assert calc.add(1, 2) == 3; assert not hasattr(calc, 'sub')",
    ),
    Case(
        name="renames-a-test",
        does="renames an existing test, in a file that it declared",
        writes=divides(**{"tests/test_basic.py": TESTS.replace("test_add", "test_sum")}),
        files=MINE,
    ),
    Case(
        name="renames-file-and-test",
        in_sandbox=False,
        does="renames a declared test file, and a test in it",
        writes=divides(),
        commands=("git mv tests/test_basic.py tests/test_sums.py && sed -i s/below_zero/negative/ tests/test_sums.py",),
        files=("calc/", "tests/"),
    ),
    Case(
        name="parametrizes",
        does="merges two tests into one parametrized test, in a file that it declared",
        writes=divides(**{"tests/test_basic.py": PARAMETRIZED}),
        files=MINE,
    ),
    Case(
        name="moves-a-test",
        does="moves a test into a new file, both declared",
        writes=divides(
            **{
                "tests/test_basic.py": TESTS.replace(ADD, ""),
                "tests/test_adding.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
            }
        ),
        files=(*MINE, "tests/test_adding.py"),
    ),
    replace(
        in_node(
            "node-deletes-with-tests",
            "deletes a module and its test file, both declared",
            code=NODE["calc.js"] + "exports.div = (a, b) => a / b;\n",
            commands=("rm old.js test/old.test.js",),
        ),
        base=NODE_OLD,
        files=("calc.js", "old.js", "test/old.test.js"),
    ),
    replace(
        in_node(
            "node-own-runner-grows",
            "adds it with a test, where a script of its own runs the tests",
            code=NODE["calc.js"] + "exports.div = (a, b) => a / b;\n",
            **{
                "test/run.js": OWN_RUNNER["test/run.js"] + "require('./div');\n",
                "test/div.js": "require('node:assert').equal(require('../calc').div(6, 3), 2);\n",
            },
        ),
        base=OWN_RUNNER,
        files=("calc.js", "test/"),
        check="node test/div.js",
    ),
    replace(
        in_go(
            "go-moves-tests",
            "moves tests into a file with another name, and renames one",
            code=GO["basic/basic.go"] + GO_DIV,
            commands=("cd basic && mv basic_test.go sums_test.go && sed -i s/TestSub/TestLess/ sums_test.go",),
        ),
        files=("basic/",),
    ),
)
