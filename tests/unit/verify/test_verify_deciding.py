"""What decides checks, by its path."""

import pytest

from scaffold.git.commit import Change
from scaffold.verify.deciding import Outset, decides
from scaffold.verify.testlike import is_test

BASE = frozenset({"calc.py", "tests/test_calc.py", "Makefile", "check.sh", "main.py"})


def why(path, kind="A", *, base=BASE, commands=()):
    return decides(Change(path, kind), Outset(base, commands))


@pytest.mark.parametrize(
    "path",
    [
        *("test_a.py", "pkg/a_test.py", "app/tests.py", "tests/data/big.json", "test/x.txt", "a_test.go"),
        *("web/a.test.ts", "web/a.spec.jsx", "web/__tests__/a.js", "web/__snapshots__/a.snap", "tests/it.rs"),
        *("pkg/testdata/golden.txt", "src/test/java/ATest.java", "spec/models/a_spec.rb"),
    ],
)
def test_existing_tests_and_their_data_stay_while_new_ones_are_welcome(path):
    """AL-9: by the conventions of pytest, unittest, jest, vitest, go and cargo."""
    assert is_test(path)
    assert {kind: bool(why(path, kind)) for kind in "AMDT"} == {"A": False, "M": True, "D": True, "T": True}


@pytest.mark.parametrize("path", ["contest.py", "latest.py", "src/testing.py", "docs/test.md", "attest/a.py", "a.ts"])
def test_what_only_sounds_like_a_test_is_none(path):
    assert not is_test(path)
    assert why(path, "M") is None


@pytest.mark.parametrize(
    "path",
    [
        *("conftest.py", "pkg/conftest.py", "sitecustomize.py", "pkg/usercustomize.py", "sitecustomize/__init__.py"),
        *("evil.pth", "deep/evil.pth", "evil.egg-info/entry_points.txt", "x-1.dist-info/entry_points.txt"),
        *("node_modules/jest/index.js", ".venv/lib/x.py", "calc.pyc", "__pycache__/calc.cpython-311.pyc"),
        *(".env", ".env.test", "jest.config.js", "vitest.config.ts", ".cargo/config.toml", ".coveragerc"),
        *("sub/mypy.ini", "ruff.toml", "tsconfig.json", "eslint.config.mjs", "__mocks__/fs.js", ".npmrc"),
        *("node_modules", ".venv", "src/setupTests.ts", "build.rs", ".python-version"),
    ],
)
def test_what_takes_effect_by_being_there_is_neither_added_nor_changed(path):
    """AL-9: configuration of runners, and what interpreters and runners load unasked."""
    assert why(path, "A")
    assert why(path, "M")


@pytest.mark.parametrize("path", ["jest.config.js", "ruff.toml", "tsconfig.json", "__mocks__/a.js"])
def test_where_there_are_no_tests_configuration_takes_nothing_away(path):
    base = frozenset({"calc.py"})
    assert (why(path, base=base) is None) == (not path.startswith("__mocks__"))
    assert why(path, "M", base=base | {path})
    assert why("conftest.py", base=base)
    assert why("sitecustomize.py", base=base)


@pytest.mark.parametrize(
    ("path", "kind", "commands", "refused"),
    [
        ("Makefile", "M", ["make test"], True),
        ("Makefile", "M", ["pytest"], False),
        ("GNUmakefile", "A", ["make test"], True),
        ("sub/Makefile", "A", ["make test"], False),
        ("rules.mk", "M", ["make test"], True),
        ("justfile", "A", ["just test"], False),
        ("check.sh", "M", ["./check.sh"], True),
        ("check.sh", "M", ["sh check.sh --all"], True),
        ("check.sh", "M", ["pytest"], False),
        ("main.py", "M", ["python main.py"], False),
        ("verify.py", "M", ["python verify.py"], True),
        ("verify.py", "A", ["python verify.py"], False),
        ("accept.py", "M", ["python -m accept"], True),
        ("src/app/checks/__main__.py", "M", ["cd web && python3 -W error -m app.checks --all"], True),
        ("accept.py", "A", ["python -m accept"], False),
        ("app/__main__.py", "M", ["python -m app"], False),
        ("other/verify.py", "M", ["python -m tools.verify"], False),
        ("tools/accept", "M", ["sh tools/accept"], True),
        ("config.toml", "A", [], False),
        ("README.md", "M", [], False),
    ],
)
def test_recipes_and_scripts_count_where_they_check_the_work(path, kind, commands, refused):
    """AL-9: a file of recipes that no check uses is anybody's, and so is code that a check only runs."""
    assert bool(why(path, kind, commands=commands)) is refused
