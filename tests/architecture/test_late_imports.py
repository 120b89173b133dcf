"""Names that are imported late, by a string, which no type checker sees."""

import ast
import re
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
NAMED = re.compile(r'"(scaffold(?:\.\w+)+):(\w+)"')
FOUND = sorted({match for path in SRC.rglob("*.py") for match in NAMED.findall(path.read_text())})


def names_of(module):
    """Return the names that a module has at its top level."""
    path = SRC.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
            case ast.Import() | ast.ImportFrom():
                yield from (each.asname or each.name for each in node.names)


@pytest.mark.parametrize(("module", "name"), FOUND)
def test_a_name_that_is_imported_late_exists(module, name):
    assert name in names_of(module)


def test_late_imports_are_found():
    assert len(FOUND) > 20
