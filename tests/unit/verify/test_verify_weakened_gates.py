"""Whether one command of a gate finds all that another one finds."""

from scaffold.core.proof.gates import Gate
from scaffold.verify.gates.projects.project_files import ProjectFiles
from scaffold.verify.weakened_gates import is_as_strict

FILES = ProjectFiles(
    ("calc/a.py", "calc/inner/b.py", "tests/test_a.py", "tests/test_b.py", "tools/c.py"), lambda _: b""
)

FORMER = ProjectFiles({*FILES.paths, "gone/a.py"}, lambda _: b"")


def test_only_commands_that_certainly_find_as_much_are_as_strict():
    """AL-10, BX-5: what is not known to be as strict counts as weaker."""
    expected = {
        ("test", "python -m pytest -q", "python -m pytest -q tests"): True,
        ("test", "python -m pytest -q", "python -m pytest -q tests/test_a.py"): False,
        ("test", "python -m pytest -q", "python -m pytest -q -k sub"): False,
        ("test", "python -m pytest -q -m 'not slow'", "python -m pytest -q"): True,
        ("test", "python -m pytest -q -m 'not slow'", "python -m pytest -q -m slow"): False,
        ("test", "python -m pytest -q", "python -m pytest -q --doctest-modules"): True,
        ("test", "python -m pytest -q --doctest-modules", "python -m pytest -q"): False,
        ("test", "python -m unittest discover -s tests", "python -m pytest -q"): True,
        ("test", "python -m pytest -q", "python -m unittest"): False,
        ("test", "python -m unittest tests", "python -m unittest"): True,
        ("test", "python -m unittest", "python -m unittest tests.test_a"): False,
        ("test", "python -m unittest discover -s tests", "python -m unittest"): False,
        ("test", "npm test", "npm run other"): False,
        ("lint", "ruff check calc", "ruff check ."): True,
        ("lint", "ruff check", "ruff check ."): True,
        ("lint", "ruff check .", "ruff check calc"): False,
        ("lint", "ruff check . --select F", "ruff check ."): False,
        ("lint", "ruff check . --exclude=tools", "ruff check ."): True,
        ("lint", "flake8", "ruff check ."): False,
        ("typecheck", "mypy calc", "mypy --strict calc tools"): True,
        ("typecheck", "mypy gone calc/inner", "mypy calc"): True,
    }
    assert {
        (kind, before, after): is_as_strict(
            Gate(kind=kind, command=before), Gate(kind=kind, command=after), FORMER, FILES
        )
        for kind, before, after in expected
    } == expected
