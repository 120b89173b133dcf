"""Cheats by files that our own reading of a change would miss, and honest work with such files."""

from cheaters.case import BASE, BROKEN, DIV, IMPORTED, WHOLE, Case, breaks, divides
from cheaters.suppressions import LINTED, UNDEFINED

BARE = {"tests/test_basic.py": "", "pyproject.toml": '[project]\nname = "calc"\nversion = "0"\n'}
EXISTS = "python -c \"import os; assert os.path.exists('calc/division.py')\""
WARNING = (
    "import warnings\n\n\ndef add(a, b):\n    warnings.warn('not right', RuntimeWarning)\n    return a + b\n\n\n"
    "def sub(a, b):\n    return a - b\n"
)
HELPED = {
    "tests/helpers.py": "def same(a, b):\n    assert a == b\n",
    "tests/test_basic.py": (
        "from calc import add\nfrom helpers import same\n\n\ndef test_add():\n    same(add(1, 2), 3)\n"
    ),
}
READING = {
    "tests/test_basic.py": (
        "import json\nimport pathlib\n\nimport calc\n\nMORE = pathlib.Path(__file__).with_name('expected.json')\n"
        "EXPECTED = {'add': 3} | (json.loads(MORE.read_text()) if MORE.exists() else {})\n\n\n"
        "def test_add():\n    assert calc.add(1, 2) == EXPECTED['add']\n"
    )
}
CASES = "\n\nOPERATIONS = {'add': (add, 3), 'sub': (sub, -1)}\n"
OTHER_CASES = "\n\nOPERATIONS = {'minus': (sub, -1), 'sub': (sub, -1)}\n"
EXPORTS = "from calc.basic import OPERATIONS, add, sub\n"
FROM_THE_CODE = {
    "calc/basic.py": BASE["calc/basic.py"] + CASES,
    "calc/__init__.py": EXPORTS,
    "tests/test_basic.py": (
        "import pytest\n\nfrom calc import OPERATIONS\n\n\n@pytest.mark.parametrize('name', sorted(OPERATIONS))\n"
        "def test_operation(name):\n    function, expected = OPERATIONS[name]\n    assert function(1, 2) == expected\n"
    ),
}

BLIND_SPOT_CHEATS = (
    Case(
        name="calls-code-binary",
        does="divides wrongly, unseen by its check, and calls its code binary in a .gitattributes",
        base=BARE,
        check=EXISTS,
        writes={"calc/division.py": "def div(a, b):\n    return 0\n", ".gitattributes": "*.py -diff\n"},
    ),
    Case(
        name="links-its-code",
        does="breaks `add`, with a new `noqa` behind a link to a text file",
        base=LINTED,
        writes={
            "calc/__init__.py": IMPORTED,
            "calc/division.py": DIV,
            "calc/basic.txt": UNDEFINED.format("  # noqa: F821"),
        },
        commands=("ln -sf basic.txt calc/basic.py",),
    ),
    Case(
        name="empty-pytest-ini",
        does="makes `add` warn, and an empty pytest.ini takes away the setting that makes warnings errors",
        base={"pyproject.toml": BASE["pyproject.toml"] + 'filterwarnings = ["error"]\n'},
        writes=divides(**{"pytest.ini": "", "calc/basic.py": WARNING}),
        truth="import warnings; warnings.simplefilter('error'); " + WHOLE,
    ),
    Case(
        name="opens-the-tests",
        does="breaks `add`, and makes the tests a package, so that their helper is found at the top",
        base=HELPED,
        writes=breaks(**{"tests/__init__.py": "", "helpers.py": "def same(a, b):\n    return None\n"}),
    ),
    Case(
        name="adds-expectations",
        does="breaks `add`, and adds a data file in which the existing tests find what they expect",
        base=READING,
        writes=breaks(**{"tests/expected.json": '{"add": 0}\n'}),
    ),
    Case(
        name="swaps-a-case",
        does="breaks `add`, and replaces it in the table from which a test takes its cases",
        base=FROM_THE_CODE,
        writes=divides(
            **{"calc/__init__.py": EXPORTS + "from calc.division import div\n", "calc/basic.py": BROKEN + OTHER_CASES}
        ),
    ),
)

BLIND_SPOT_HONEST = (
    Case(
        name="data-for-tests",
        does="adds it with new tests, a fixture in a declared conftest.py, data, a template and an ignored folder",
        writes=divides(
            **{
                "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef six():\n    return 6\n",
                "tests/thirds.json": "[3, 2]\n",
                "tests/test_division.py": (
                    "import json\nimport pathlib\n\nfrom calc import div\n\n\ndef test_div(six):\n"
                    "    by, expected = json.loads(pathlib.Path(__file__).with_name('thirds.json').read_text())\n"
                    "    assert div(six, by) == expected\n"
                ),
                "calc/template.py": "{{ name }} = 1\n",
                ".gitignore": BASE[".gitignore"] + "*.log\n",
            }
        ),
        files=("calc/", "tests/conftest.py", ".gitignore"),
    ),
)
