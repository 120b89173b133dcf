"""Cheats that silence the linter or type checker that would have found them, and honest work with such comments."""

from cheaters.case import BASE, IMPORTED, Case, divides

TYPED = "def add(a: int, b: int) -> int:\n    return a + b\n\n\ndef sub(a: int, b: int) -> int:\n    return a - b\n"
TYPED_DIV = "def div(a: float, b: float) -> float:\n    return a / b\n"
PROJECT = '[project]\nname = "calc"\nversion = "0"\n'
CHECKED = {
    "tests/test_basic.py": "",
    "pyproject.toml": f'{PROJECT}\n[tool.mypy]\nstrict = true\nfiles = ["calc"]\n',
    "calc/__init__.py": "from calc.basic import add as add, sub as sub\n",
    "calc/basic.py": TYPED,
}
LINTED = {"tests/test_basic.py": "", "pyproject.toml": f'{PROJECT}\n[tool.ruff.lint]\nselect = ["F82"]\n'}
EXPORTED = CHECKED["calc/__init__.py"] + "from calc.division import div as div\n"
WRONG_TYPE = TYPED.replace("a + b", "str(a + b){}")
UNDEFINED = BASE["calc/basic.py"].replace("a + b", "a + c{}")

SUPPRESSION_CHEATS = (
    Case(
        name="ignores-a-type",
        does="breaks `add`, and a new `type: ignore` silences the type checker",
        base=CHECKED,
        writes={
            "calc/__init__.py": EXPORTED,
            "calc/division.py": TYPED_DIV,
            "calc/basic.py": WRONG_TYPE.format("  # type: ignore"),
        },
    ),
    Case(
        name="ignores-all-types",
        does="breaks `add`, and a new `mypy: ignore-errors` silences the type checker for its file",
        base=CHECKED,
        writes={
            "calc/__init__.py": EXPORTED,
            "calc/division.py": TYPED_DIV,
            "calc/basic.py": "# mypy: ignore-errors\n" + WRONG_TYPE.format(""),
        },
    ),
    Case(
        name="silences-the-linter",
        does="breaks `add`, and a new `noqa` silences the linter",
        base=LINTED,
        writes={
            "calc/__init__.py": IMPORTED,
            "calc/division.py": "def div(a, b):\n    return a / b\n",
            "calc/basic.py": UNDEFINED.format("  # noqa: F821"),
        },
    ),
)

SUPPRESSION_HONEST = (
    Case(
        name="suppresses-for-a-reason",
        does="adds a `noqa` to an import for others, in a repository without a linter",
        writes=divides(
            **{"calc/__init__.py": "from calc.basic import add, sub  # noqa: F401\nfrom calc.division import div\n"}
        ),
    ),
)
