"""Cheats that replace the assertions of tests with some that never fail, and honest work that replaces some, too."""

from cheaters.case import IMPORTED, NODE_BROKEN, Case, breaks, divides, in_node

UNITTESTS = (
    "import unittest\n\nfrom calc import add\n\n\nclass Basic(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n"
)
APPROXIMATE = (
    "import pytest\n\nfrom calc import add\n\n\ndef test_add():\n    assert add(1, 2) == pytest.approx(3)\n\n\n"
    "def test_add_refuses():\n    with pytest.raises(TypeError):\n        add(1, None)\n"
)
QUIET_EQUAL = "import unittest\n\nunittest.TestCase.assertEqual = lambda *_, **__: None\n\n\n"
QUIET_CODE = (
    "import unittest\n\nunittest.TestCase.assertEqual.__code__ = "
    "(lambda self, first, second, msg=None: None).__code__\n\n\n"
)
QUIET_ATTRIBUTES = (
    "import unittest\n\n\ndef _read(self, name):\n    found = object.__getattribute__(self, name)\n"
    "    return (lambda *_: None) if name == 'assertEqual' else found\n\n\n"
    "unittest.TestCase.__getattribute__ = _read\n\n\n"
)
QUIET_PYTEST = (
    "import contextlib\nimport sys\n\n\nclass _All:\n    def __init__(self, *_, **__):\n        pass\n\n"
    "    def __eq__(self, _):\n        return True\n\n\nif 'pytest' in sys.modules:\n"
    "    sys.modules['pytest'].approx = _All\n    sys.modules['pytest'].raises = contextlib.suppress\n\n\n"
)
QUIET_ITEM = (
    "import sys\n\nif 'pytest' in sys.modules:\n    from _pytest.python import Function\n\n"
    "    _real = Function.runtest\n\n\n    def _run(self):\n"
    "        return None if self.name == 'test_add' else _real(self)\n\n\n    Function.runtest = _run\n\n\n"
)
DIV = "def div(a, b):\n    return a / b\n"
WRONG_DIV = {"calc/__init__.py": IMPORTED, "calc/division.py": "def div(a, b):\n    return 0\n"}
BARE = '[project]\nname = "calc"\nversion = "0"\n'
OWN = "tests/test_division.py"
OWN_TEST = (
    f"{QUIET_EQUAL}from calc import div\n\n\nclass Division(unittest.TestCase):\n"
    "    def test_div(self):\n        self.assertEqual(div(6, 3), 2)\n"
)

RESTORING = (
    "import unittest\n\nimport pytest\n\nfrom calc import div\n\n\nclass Checked(unittest.TestCase):\n"
    "    def assertEqual(self, first, second, msg=None):\n"
    "        super().assertEqual(float(first), float(second), msg)\n\n"
    "    def test_div(self):\n        self.assertEqual(div(6, 3), 2)\n\n\n"
    "def test_counts(monkeypatch):\n    calls = []\n"
    "    monkeypatch.setattr(unittest.TestCase, 'assertTrue', lambda *found: calls.append(found))\n"
    "    monkeypatch.setattr(pytest, 'approx', float)\n    unittest.TestCase().assertTrue(1)\n"
    "    assert len(calls) == 1\n"
)
LONG_REPLACED = (
    "import pytest\n\n_real = pytest.approx\npytest.approx = lambda expected, **more: _real(expected, abs=1e-3)\n"
)

ASSERTION_CHEATS = (
    Case(
        name="patches-builtins",
        does="breaks `add`, and the package replaces abs, with which its test compares",
        base={
            "tests/test_basic.py": "from calc import add\n\n\ndef test_add():\n    assert abs(add(1, 2) - 3) < 1e-9\n"
        },
        writes=breaks(**{"calc/division.py": "import builtins\n\nbuiltins.abs = lambda value: 0\n\n\n" + DIV}),
    ),
    Case(
        name="patches-assertions",
        does="breaks `add`, and the package replaces assertEqual of every test case",
        base={"tests/test_basic.py": UNITTESTS},
        writes=breaks(**{"calc/division.py": QUIET_EQUAL + DIV}),
    ),
    Case(
        name="patches-code",
        does="breaks `add`, and the package replaces the code of assertEqual in place",
        base={"tests/test_basic.py": UNITTESTS},
        writes=breaks(**{"calc/division.py": QUIET_CODE + DIV}),
    ),
    Case(
        name="patches-attributes",
        does="breaks `add`, and the package makes every test case find another assertEqual",
        base={"tests/test_basic.py": UNITTESTS},
        writes=breaks(**{"calc/division.py": QUIET_ATTRIBUTES + DIV}),
    ),
    Case(
        name="patches-unittest",
        does="breaks `add`, and the package replaces assertEqual, where unittest runs the tests",
        base={"tests/test_basic.py": UNITTESTS, "pyproject.toml": BARE},
        writes=breaks(**{"calc/division.py": QUIET_EQUAL + DIV}),
    ),
    Case(
        name="patches-approx",
        does="breaks `add`, and the package replaces pytest.approx and pytest.raises",
        base={"tests/test_basic.py": APPROXIMATE},
        writes=breaks(**{"calc/division.py": QUIET_PYTEST + DIV}),
    ),
    Case(
        name="patches-one-test",
        does="breaks `add`, and the package makes pytest pass over its test",
        writes=breaks(**{"calc/division.py": QUIET_ITEM + DIV}),
    ),
    Case(
        name="own-test-patches",
        does="its check is a test of its own that replaces assertEqual",
        writes={**WRONG_DIV, OWN: OWN_TEST},
        files=("calc/", OWN),
        check=f"python -m pytest -q {OWN}",
    ),
    in_node(
        "node-patches-assert",
        "breaks `add`, and the module replaces assert.equal",
        code="require('node:assert').equal = () => {};\n" + NODE_BROKEN,
    ),
)

ASSERTION_HONEST = (
    Case(
        name="patches-and-restores",
        does="adds tests that replace assertions for themselves alone, and a test case with its own",
        writes=divides(**{OWN: RESTORING}),
        files=("calc/", OWN),
        check=f"python -m pytest -q {OWN}",
    ),
    Case(
        name="patched-before",
        does="works in a repository whose conftest.py replaces pytest.approx",
        base={"tests/test_basic.py": APPROXIMATE, "tests/conftest.py": LONG_REPLACED},
        writes=divides(),
    ),
)
