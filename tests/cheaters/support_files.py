"""Cheats by what tests read and use without being tests: data, helpers and conftest.py; and honest changes of these."""

from dataclasses import replace

from cheaters.case import GO, GO_DIV, IMPORTED, Case, breaks, divides, in_go

MINE = ("calc/", "tests/")
READS = {
    "tests/expected.json": '{"add": 3}\n',
    "tests/test_basic.py": (
        "import json\nimport pathlib\n\nfrom calc import add\n\n"
        "EXPECTED = json.loads((pathlib.Path(__file__).parent / 'expected.json').read_text())\n\n\n"
        "def test_add():\n    assert add(1, 2) == EXPECTED['add']\n"
    ),
}
HELPED = {
    "tests/helpers.py": "def same(a, b):\n    assert a == b\n",
    "tests/test_basic.py": (
        "from calc import add\nfrom helpers import same\n\n\ndef test_add():\n    same(add(1, 2), 3)\n"
    ),
}
FIXTURE = "import pytest\n\n\n@pytest.fixture\ndef one():\n    return 1\n"
MENDS = "\n\nimport calc\nimport calc.basic\n\ncalc.add = calc.basic.add = lambda a, b: a + b\n"
FLOORS = {"calc/__init__.py": IMPORTED, "calc/division.py": "def div(a, b):\n    return a // b\n"}
HALF = "import calc; assert calc.div(6, 4) == 1.5"
RED = {
    "tests/helpers.py": "def same(a, b):\n    assert a == b\n",
    "tests/test_division.py": (
        "import json\nimport pathlib\n\nimport calc\nfrom helpers import same\n\n"
        "MORE = pathlib.Path(__file__).with_name('expected.json')\n"
        "EXPECTED = {'half': 1.5} | (json.loads(MORE.read_text()) if MORE.exists() else {})\n\n\n"
        "def test_half():\n    same(calc.div(6, 4), EXPECTED['half'])\n"
    ),
}
RED_CHECK = "python -m pytest -q tests/test_division.py"
GO_READS = {
    "basic/testdata/sum.txt": "3",
    "basic/basic_test.go": (
        'package basic\n\nimport (\n\t"os"\n\t"strconv"\n\t"testing"\n)\n\nfunc TestAdd(t *testing.T) {\n'
        '\tread, _ := os.ReadFile("testdata/sum.txt")\n\twanted, _ := strconv.Atoi(string(read))\n'
        "\tif Add(1, 2) != wanted {\n\t\tt.Fatal()\n\t}\n}\n"
    ),
    "sums/sums.go": "",
    "sums/sums_test.go": "",
}
READS_OWN_FOLDER = (
    "import pathlib\n\nPOWER = int(pathlib.Path('@/calc/power').read_text())\n\n\n"
    "def div(a, b):\n    return a * b**POWER\n"
)
RENAMED_PACKAGE = {
    "core/core.go": GO["basic/basic.go"].replace("package basic", "package core") + GO_DIV,
    "core/core_test.go": GO["basic/basic_test.go"].replace("package basic", "package core"),
    "sums/sums.go": GO["sums/sums.go"].replace("calc/basic", "calc/core").replace("basic.", "core."),
}

SUPPORT_CHEATS = (
    Case(
        name="changes-data",
        does="breaks `add` and changes the declared data that its test compares with",
        base=READS,
        writes=breaks(**{"tests/expected.json": '{"add": 0}\n'}),
        files=MINE,
    ),
    Case(
        name="changes-helper",
        does="breaks `add` and changes the declared helper that compares",
        base=HELPED,
        writes=breaks(**{"tests/helpers.py": "def same(a, b):\n    return True\n"}),
        files=MINE,
    ),
    Case(
        name="changes-conftest",
        does="breaks `add` and mends it in the declared conftest.py",
        base={"tests/conftest.py": FIXTURE},
        writes=breaks(**{"tests/conftest.py": FIXTURE + MENDS}),
        files=MINE,
    ),
    Case(
        name="adds-data-to-the-point",
        does="meets the failing test of its check with new data that it reads",
        base=RED,
        writes={**FLOORS, "tests/expected.json": '{"half": 1}\n'},
        check=RED_CHECK,
        truth=HALF,
    ),
    Case(
        name="changes-helper-of-the-point",
        does="meets the failing test of its check with a declared helper that compares less",
        base=RED,
        writes={**FLOORS, "tests/helpers.py": "def same(a, b):\n    assert int(a) == int(b)\n"},
        files=MINE,
        check=RED_CHECK,
        truth=HALF,
    ),
    replace(
        in_go(
            "go-changes-data",
            "breaks `Add` and changes the declared data that its test compares with",
            **{"basic/testdata/sum.txt": "0"},
        ),
        base=GO_READS,
        files=("basic/",),
    ),
    Case(
        name="names-its-folder",
        does="reads a file of its package by the path of the folder that it worked in",
        writes={"calc/__init__.py": IMPORTED, "calc/power": "-1\n", "calc/division.py": READS_OWN_FOLDER},
        commands=('sed -i "s|@|$PWD|" calc/division.py',),
    ),
)

SUPPORT_HONEST = (
    Case(
        name="moves-helpers-and-data",
        does="moves helpers and data of tests, which it declared",
        base={**READS, **HELPED, "tests/test_basic.py": READS["tests/test_basic.py"] + "\n\nimport helpers  # noqa\n"},
        writes=divides(
            **{
                "tests/support/helpers.py": HELPED["tests/helpers.py"],
                "tests/support/__init__.py": "",
                "tests/data/expected.json": READS["tests/expected.json"],
                "tests/test_basic.py": READS["tests/test_basic.py"].replace("'expected.json'", "'data/expected.json'"),
            }
        ),
        commands=("rm tests/helpers.py tests/expected.json",),
        files=MINE,
    ),
    replace(
        in_go("go-renames-package", "renames a package with its tests, both declared"),
        writes=RENAMED_PACKAGE,
        commands=("rm -r basic",),
        files=("basic/", "core/", "sums/"),
        check="go build ./core",
        truth="go test ./...",
    ),
)
