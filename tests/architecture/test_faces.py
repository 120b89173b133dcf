"""Faces parse, draw and ask: the transactions on a run belong to the orchestrator."""

import ast
from collections.abc import Iterator

from support.source_tree import SourceFile, source_files

FACES = ("cli", "tui", "web", "mcp", "acp")
RUN_WRITERS = {"scaffold.run.failures.attempt_end", "scaffold.run.attempts.lease", "scaffold.run.notices"}
"""Modules that write run state on behalf of their caller."""
RUN_STORE = {"scaffold.cli.wiring", "scaffold.run.context", "scaffold.store.database", "scaffold.views.store_reader"}
"""Modules that open the run database or pass it on; the user's own database has transactions of the same name."""


def run_writes(file: SourceFile) -> Iterator[str]:
    """Yield what in a module writes run state."""
    nodes = file.nodes
    imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    yield from sorted(RUN_WRITERS & imported)
    writes_user_store = any(name.endswith(("user_store", "model_access")) for name in imported if name)
    if writes_user_store and not RUN_STORE & imported:
        return
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == "transaction":
            yield ast.unparse(node)


def test_no_face_writes_run_state() -> None:
    faces = [file for face in FACES for file in source_files(f"src/scaffold/{face}")]
    assert len(faces) > 100
    assert {file.path: writes for file in faces if (writes := list(run_writes(file)))} == {}


def test_planted_writes_are_found_and_those_to_the_users_database_are_allowed() -> None:
    writes = [
        (
            "def save(context):\n    with context.store.transaction():\n"
            "        context.store.runs.configure(run, settings)"
        ),
        (
            "from scaffold.run.context import RunContext\nfrom scaffold.store.user_store import UserStore\n"
            "def save(store):\n    begin = store.transaction\n    with begin(durable=True): ..."
        ),
        "from scaffold.run.attempts.lease import owner_transaction",
        "import scaffold.run.failures.attempt_end",
    ]
    allowed = "from scaffold.store.user_store import UserStore\ndef trust(store):\n    with store.transaction(): ..."
    assert [text for text in [*writes, allowed] if list(run_writes(SourceFile("a.py", text)))] == writes
