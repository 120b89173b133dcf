"""Follow work that moves tests from unittest to pytest: they run there, and are compared under pytest's names."""

import ast
from collections.abc import Collection

from msgspec import structs

from scaffold.core.ids import Commit
from scaffold.core.proof.gates import Gate, GateRun
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.gates.detection import detect_at_commit
from scaffold.verify.gates.projects.project_files import decides_gates, is_python_test
from scaffold.verify.gates.projects.python_project import FUNCTION
from scaffold.verify.regression.comparison import with_new_names

FIXTURES = "conftest.py"


async def followed(before: GateRun, tree: Tree) -> GateRun:
    """Return a gate's run at the base as if the runner of the tree's commit had made it.

    Only for tests that unittest ran because it was detected, and that pytest runs now. A class may have become a
    function of its file; a test that is nowhere in that file keeps its name, and counts as gone.
    """
    if before.gate.kind != "test" or before.gate.runner != "unittest":
        return before
    changes = await commits.path_changes(tree.git, before.commit, tree.commit)
    tests = [each.object_id for each in changes if each.kind != "D" and is_python_test(each.path)]
    # To find the gates of a commit takes a look at all of its paths; most work brings nothing that asks for pytest.
    if not any(decides_gates(each.path) or each.path.endswith(FIXTURES) for each in changes) and not any(
        FUNCTION.search((text or b"").decode(errors="replace"))
        for text in await commits.batch_contents(tree.git, tests)
    ):
        return before
    gate = await _detect_same_gate(tree.git, tree.commit, before.gate)
    # The user's own command stays, whatever the work changes.
    if (
        gate is None
        or gate.runner != "pytest"
        or await _detect_same_gate(tree.git, before.commit, before.gate) != before.gate
    ):
        return before
    top = f"{gate.folder}/" if gate.folder else ""
    paths = await commits.listed_paths(tree.git, tree.commit)
    modules = {path.removeprefix(top) for path in paths if path.startswith(top) and path.endswith(".py")}
    names = {name: _file_and_rest(name, modules) for name in before.outcomes}
    functions = {
        file: await _top_functions(tree, f"{top}{file}") for file in {file for file, _ in names.values() if file}
    }
    renamed = {name: _pytest_name(name, *place, functions.get(place[0], frozenset())) for name, place in names.items()}
    return structs.replace(with_new_names(before, lambda name: renamed.get(name, name)), gate=gate)


async def _detect_same_gate(git: Git, commit: Commit, known: Gate) -> Gate | None:
    found = next((gate for gate in (await detect_at_commit(git, commit)).gates if gate.name == known.name), None)
    return structs.replace(found, timeout_s=known.timeout_s) if found else None


def _file_and_rest(name: str, modules: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """Return the file of unittest's name of a test, and its class and function; an empty file if it is unknown."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        file = "/".join(parts[:length]) + ".py"
        # `discover -s tests` names modules from that folder on.
        found = [file] if file in modules else [each for each in modules if each.endswith(f"/{file}")]
        if len(found) == 1:
            return found[0], tuple(parts[length:])
    return "", ()


def _pytest_name(name: str, file: str, rest: tuple[str, ...], functions: Collection[str]) -> str:
    if not file:
        return name
    return "::".join((file, rest[-1] if rest[-1] in functions else "::".join(rest)))


async def _top_functions(tree: Tree, path: str) -> frozenset[str]:
    text = await commits.file_contents(tree.git, tree.commit, path)
    try:
        tree_of_file = ast.parse(text or b"")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(
        each.name for each in tree_of_file.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )
