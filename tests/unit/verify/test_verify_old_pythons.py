"""Our code that the project's interpreter runs, judged by the rules of the oldest one."""

import ast
from pathlib import Path

from scaffold.verify.environment.import_proof import LISTING_SCRIPT, PROBE_SCRIPT
from scaffold.verify.gates.reports.recorder import RECORDER_FOLDER

OLDEST = (3, 6)
SOURCES = {path.name: path.read_text() for path in sorted(Path(RECORDER_FOLDER).glob("*.py"))}
SOURCES |= {"the proof of imports": PROBE_SCRIPT, "the names of distributions": LISTING_SCRIPT}
NOT_GENERIC = {"dict", "frozenset", "list", "set", "tuple", "type"}
"""Builtin types that have no parameters before 3.9."""


def evaluated_annotations(tree):
    """Yield the annotations that Python evaluates: all but those of local variables."""
    local = {id(each) for outer in ast.walk(tree) if isinstance(outer, ast.FunctionDef) for each in ast.walk(outer)}
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=ast.expr() as found) | ast.FunctionDef(returns=ast.expr() as found):
                yield found
            case ast.AnnAssign(annotation=found) if id(node) not in local:
                yield found


def test_what_the_projects_interpreter_runs_is_python_3_6():
    """BX-4: a virtual environment of an old Python has gates like any other."""
    for name, source in SOURCES.items():
        tree = ast.parse(source, feature_version=OLDEST)
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert imported & {"__future__", "collections.abc"} == set(), name
        for annotation in evaluated_annotations(tree):
            for node in ast.walk(annotation):
                assert not isinstance(node, ast.BinOp), (name, ast.unparse(annotation))
                generic = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
                assert not (generic and node.value.id in NOT_GENERIC), (name, ast.unparse(annotation))
