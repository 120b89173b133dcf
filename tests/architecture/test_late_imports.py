"""Names that are imported late, by a string, which no type checker sees."""

import ast
import re

from support.source_tree import source_files

NAMED = re.compile(r'"(scaffold(?:\.\w+)+):(\w+)"')


def names_of(tree: ast.Module) -> set[str]:
    """Return the names that a module has at its top level."""
    names = set()
    for node in tree.body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
            case ast.Import() | ast.ImportFrom():
                names |= {each.asname or each.name for each in node.names}
    return names


def test_every_name_that_is_imported_late_exists() -> None:
    files = {file.module.removesuffix(".py").removesuffix("/__init__"): file for file in source_files()}
    found = {match for file in source_files() for match in NAMED.findall(file.text)}
    assert len(found) > 20
    folders = {name: name.removeprefix("scaffold.").replace(".", "/") for name, _ in found}
    assert [
        f"{module}:{name}"
        for module, name in sorted(found)
        if folders[module] not in files or name not in names_of(files[folders[module]].tree)
    ] == []
