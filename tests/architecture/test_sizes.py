"""Files and functions stay small, and forbidden constructs stay out."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from support.source_tree import SourceFile, last_name, source_files, walk

FILE_LINES = 400
FUNCTION_LINES = 50
ENTRY = "src/scaffold/cli/entry.py"
GRAMMARS = "src/scaffold/memory/chunking/syntax_tree.py"
"""The two places that import by name: commands from their table, and grammars, which are packages of others."""
BOUNDARIES = {
    "src/scaffold/cli/main.py",
    "src/scaffold/cli/execution/report_writer.py",
    "src/scaffold/worker/process.py",
    "src/scaffold/agent/toolbox.py",
    "src/scaffold/extensions/mcp/pooled_server.py",
    # Inside of the programs that checks start, which must run as they would.
    "src/scaffold/verify/observation/injected/scaffold_observation.py",
    "src/scaffold/verify/observation/injected/sitecustomize.py",
}
LOOPS = {"src/scaffold/host/process/async_runner.py", "src/scaffold/tools/command/runner.py"}
"""Where a loop may be begun: the one way of our programs, and a program of the user's tools that stands alone."""
EMPTY_NAMES = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}
BROAD = re.compile(r"\bexcept\b[^:]*\b(?:Base)?Exception\b|\bexcept\s*:|suppress\([^)]*\b(?:Base)?Exception\b")
"""A text without it has no handler of every exception."""
IN_A_REPOSITORY = r"\b(?:git\.cwd|repository\.root|projections)\b"
"""Names of folders in which others may have put links; `ContainedPath` follows none."""
CHANGES = {
    "write_atomic",
    "delete_path",
    "delete_folder_if_possible",
    "write_text",
    "write_bytes",
    "touch",
    "mkdir",
} | {*("unlink", "rmdir", "rmtree", "truncate", "rename", "symlink_to", "hardlink_to", "copy", "copyfile", "move")}
DELAYS = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "for " + "now")

Rule = Callable[[SourceFile], Iterator[str]]


def long_file(file: SourceFile) -> Iterator[str]:
    """Find files of more than 400 lines, blank ones and comments not counted."""
    count = sum(1 for line in file.text.splitlines() if line.strip() and not line.strip().startswith("#"))
    if count > FILE_LINES:
        yield f"{file.path}: {count} code lines"


def long_function(file: SourceFile) -> Iterator[str]:
    """Find functions of more than 50 lines in the source."""
    if not is_source(file) or file.text.count("\n") < FUNCTION_LINES:
        return
    for node in file.functions():
        count = (node.end_lineno or node.lineno) - node.lineno + 1
        if count > FUNCTION_LINES:
            yield f"{file.path}:{node.lineno}: {node.name} has {count} lines"


def hidden_import(file: SourceFile) -> Iterator[str]:
    """Find imports inside functions, except in `with importing()`, and imports by name."""
    if not is_source(file) or file.path in {ENTRY, GRAMMARS}:
        return
    if not re.search(
        r"^[ \t]+(?:from|import) |[:;] *(?:from|import) |import_module|__import__", file.text, re.MULTILINE
    ):
        return
    for function in file.functions():
        nodes = list(walk(function))
        late = {inner for node in nodes if is_late_import(node) for inner in walk(node)}
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom) and node not in late:
                yield f"{file.path}:{node.lineno}: {ast.unparse(node)}"
    for call in file.calls():
        if last_name(call.func).endswith(("import_module", "__import__")):
            yield f"{file.path}:{call.lineno}: {ast.unparse(call)}"


def is_late_import(node: ast.AST) -> bool:
    """Return whether this is a block `with importing():` of nothing but imports."""
    return (
        isinstance(node, ast.With)
        and [ast.unparse(item.context_expr) for item in node.items] == ["importing()"]
        and all(isinstance(inner, ast.Import | ast.ImportFrom) for inner in node.body)
    )


def empty_name(file: SourceFile) -> Iterator[str]:
    """Find modules and packages whose name says nothing."""
    if EMPTY_NAMES & set(PurePosixPath(file.path).with_suffix("").parts):
        yield f"{file.path}: a name that says nothing"


def mock(file: SourceFile) -> Iterator[str]:
    """Find mocks and patched attributes."""
    if "mock" not in file.text and not re.search("(?:set|del)attr", file.text):
        return
    for node in file.nodes:
        is_patch = isinstance(node, ast.Attribute) and node.attr in {"mock", "setattr", "delattr"}
        if is_patch or isinstance(node, ast.Import | ast.ImportFrom):
            words = ast.unparse(node)
            if re.search(r"\bunittest\.mock\b|from unittest import .*\bmock\b|\bmonkeypatch\.(set|del)attr\b", words):
                yield f"{file.path}:{node.lineno}: {words}"


def delay(file: SourceFile) -> Iterator[str]:
    """Find words that postpone work."""
    words = [word for word in DELAYS if word in file.text]
    for found in re.finditer(rf"\b(?:{'|'.join(words)})\b", file.text) if words else ():
        yield f"{file.path}:{file.text.count(chr(10), 0, found.start()) + 1}: {found[0]}"


def broad_except(file: SourceFile) -> Iterator[str]:
    """Find handlers of every exception; only the boundaries of commands, workers and tools may have one."""
    if file.path in BOUNDARIES or not ("Exception" in file.text or "except:" in file.text):
        return
    if not BROAD.search(file.text):
        return
    for node in file.nodes:
        caught = None
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "Exception"
        elif isinstance(node, ast.Call) and last_name(node.func).endswith("suppress"):
            caught = ast.unparse(node)
        if caught and re.search(r"\b(Base)?Exception\b", caught):
            yield f"{file.path}:{node.lineno}: {caught}"


def own_loop(file: SourceFile) -> Iterator[str]:
    """Find event loops that are not started by `run_async`."""
    if not is_source(file) or file.path in LOOPS or not re.search(r"asyncio\.[rR]un|from asyncio", file.text):
        return
    for node in file.nodes:
        if isinstance(node, ast.ImportFrom) or last_name(node) in {"run", "Runner"}:
            words = ast.unparse(node)
            if re.search(r"\basyncio\.(run|Runner)$|from asyncio import .*\b(run|Runner)\b", words):
                yield f"{file.path}:{node.lineno}: {words}"


def uncontained_change(file: SourceFile) -> Iterator[str]:
    """Find changes in a repository or worktree by a whole path, which may lead through a link."""
    if not is_source(file) or not re.search(IN_A_REPOSITORY, file.text):
        return
    for call in file.calls():
        if last_name(call.func).rpartition(".")[2] in CHANGES and re.search(IN_A_REPOSITORY, ast.unparse(call)):
            yield f"{file.path}:{call.lineno}: {ast.unparse(call)}"


def is_source(file: SourceFile) -> bool:
    return file.path.startswith("src/")


RULES: tuple[Rule, ...] = (
    *(long_file, long_function, hidden_import, empty_name, mock, delay, broad_except, own_loop),
    uncontained_change,
)

PLANTED: tuple[tuple[Rule, str, str], ...] = (
    (long_file, "src/scaffold/plan/long.py", "x = 1\n" * 401),
    (long_function, "src/scaffold/plan/long.py", "async def long():\n" + "    x = 1\n" * 50),
    (hidden_import, "src/scaffold/plan/lazy.py", "def lazy():\n    from json import loads\n"),
    (hidden_import, "src/scaffold/plan/lazy.py", "with importing():\n    x = 1\ndef f():\n    import json\n"),
    (hidden_import, "src/scaffold/plan/lazy.py", "import importlib\njson = importlib.import_module('json')\n"),
    (empty_name, "src/scaffold/plan/utils.py", ""),
    (empty_name, "src/scaffold/common/text.py", ""),
    (mock, "tests/unit/test_a.py", "from unittest import TestCase, mock\n"),
    (mock, "tests/unit/test_a.py", "import unittest" + ".mock\n"),
    (mock, "tests/unit/test_a.py", "def test_a(monkeypatch):\n    monkeypatch" + ".setattr('os.name', 'nt')\n"),
    (delay, "src/scaffold/plan/late.py", "x = 1  # TO" + "DO: two\n"),
    (broad_except, "src/scaffold/plan/broad.py", "try:\n    pass\nexcept:\n    pass\n"),
    (broad_except, "src/scaffold/plan/broad.py", "try:\n    pass\nexcept (OSError, Exception):\n    pass\n"),
    (broad_except, "src/scaffold/plan/broad.py", "with contextlib.suppress(BaseException):\n    pass\n"),
    (own_loop, "src/scaffold/cli/late.py", "import asyncio\nasyncio.run(main())\n"),
    (own_loop, "src/scaffold/cli/late.py", "from asyncio import run\n"),
    (uncontained_change, "src/scaffold/run/notes.py", "write_atomic(context.repository.root / 'x', b'')\n"),
    (uncontained_change, "src/scaffold/run/notes.py", "(context.projections.path / 'logs').mkdir()\n"),
    (uncontained_change, "src/scaffold/verify/notes.py", "(tree.git.cwd / path).write_bytes(b'')\n"),
)

ALLOWED: tuple[tuple[Rule, str, str], ...] = (
    (long_file, "src/scaffold/plan/long.py", "x = 1\n\n# why\n" * 400),
    (long_function, "src/scaffold/plan/long.py", "def long():\n" + "    x = 1\n" * 49),
    (long_function, "tests/unit/test_long.py", "def test_long():\n" + "    x = 1\n" * 50),
    (hidden_import, ENTRY, "def load():\n    return importlib.import_module('json')\n"),
    (hidden_import, GRAMMARS, "def lazy():\n    return importlib.import_module('json')\n"),
    (
        hidden_import,
        "src/scaffold/plan/lazy.py",
        "def lazy():\n    with importing():\n        from json import loads\n",
    ),
    (empty_name, "src/scaffold/plan/basement.py", ""),
    (mock, "tests/unit/test_a.py", "def test_a(monkeypatch):\n    monkeypatch.setenv('CI', '1')\n"),
    (broad_except, "src/scaffold/worker/process.py", "try:\n    pass\nexcept Exception:\n    pass\n"),
    (broad_except, "src/scaffold/plan/narrow.py", "try:\n    pass\nexcept OSError:\n    pass\n"),
    (own_loop, "src/scaffold/host/process/async_runner.py", "import asyncio\nasyncio.run(main())\n"),
    (
        own_loop,
        "src/scaffold/cli/late.py",
        "from scaffold.host.process.async_runner import run_async\nrun_async(main())\n",
    ),
    (own_loop, "tests/unit/test_a.py", "import asyncio\nasyncio.run(main())\n"),
    (uncontained_change, "src/scaffold/run/notes.py", "(context.projections / 'logs/x').write(b'')\n"),
    (uncontained_change, "src/scaffold/run/notes.py", "ContainedPath(tree.git.cwd, path).delete()\n"),
)


def findings(rule: Rule, path: str, text: str) -> list[str]:
    """Apply one rule to one file."""
    return list(rule(SourceFile(path, text)))


def test_the_tree_follows_every_rule() -> None:
    files = [*source_files("src"), *source_files("tests")]
    assert len(files) > 1000
    assert [line for file in files for rule in RULES for line in rule(file)] == []


def test_a_planted_violation_of_every_rule_is_found() -> None:
    assert [planted for planted in PLANTED if len(findings(*planted)) != 1] == []
    assert {rule for rule, _, _ in PLANTED} == set(RULES)


def test_code_that_the_rules_allow_is_accepted() -> None:
    assert [(allowed, found) for allowed in ALLOWED if (found := findings(*allowed))] == []
