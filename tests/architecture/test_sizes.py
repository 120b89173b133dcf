"""Files and functions stay small, and forbidden constructs stay out."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

from scaffold.host.startup import gc_paused

ROOT = Path(__file__).parents[2]
FILE_LINES = 400
FUNCTION_LINES = 50
LAZY_IMPORT = "src/scaffold/host/startup.py"
DRIVER_TABLE = "src/scaffold/store/driver/location.py"
TRANSPORT = "src/scaffold/agent/model_access.py"
"""The three places that may load late: what one command, database or live model needs costs the others nothing."""
BOUNDARIES = {
    "src/scaffold/cli/main.py",
    "src/scaffold/cli/execution/report_file.py",
    "src/scaffold/worker/process.py",
    "src/scaffold/agent/toolbox.py",
    "src/scaffold/extensions/mcp/server.py",
    # Inside of the programs that checks start, which must run as they would.
    "src/scaffold/verify/observation/injected/scaffold_observation.py",
    "src/scaffold/verify/observation/injected/sitecustomize.py",
}
LOOPS = {"src/scaffold/host/process/async_runner.py", "src/scaffold/tools/user/runner.py"}
"""Where a loop may be begun: the one way of our programs, and a program of the user's tools that stands alone."""
EMPTY_NAMES = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}
DELAY = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "for " + "now"]) + r")\b")

Rule = Callable[[str, str, ast.Module], Iterator[str]]


def long_file(path: str, text: str, tree: ast.Module) -> Iterator[str]:
    """Find files of more than 400 lines, blank ones and comments not counted."""
    count = sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))
    if count > FILE_LINES:
        yield f"{path}: {count} code lines"


def long_function(path: str, text: str, tree: ast.Module) -> Iterator[str]:
    """Find functions of more than 50 lines in the source."""
    for node in functions(tree) if path.startswith("src/") else ():
        count = (node.end_lineno or node.lineno) - node.lineno + 1
        if count > FUNCTION_LINES:
            yield f"{path}:{node.lineno}: {node.name} has {count} lines"


def hidden_import(path: str, text: str, tree: ast.Module) -> Iterator[str]:
    """Find imports inside functions and by name; only three places may import late."""
    if not path.startswith("src/") or path in {LAZY_IMPORT, DRIVER_TABLE, TRANSPORT}:
        return
    for function in functions(tree):
        for node in ast.walk(function):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield f"{path}:{node.lineno}: {ast.unparse(node)}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and last_name(node.func).endswith(("import_module", "__import__")):
            yield f"{path}:{node.lineno}: {ast.unparse(node)}"


def empty_name(path: str, text: str, tree: ast.Module) -> Iterator[str]:
    """Find modules and packages whose name says nothing."""
    if EMPTY_NAMES & set(PurePosixPath(path).with_suffix("").parts):
        yield f"{path}: a name that says nothing"


def mock(path: str, text: str, tree: ast.Module) -> Iterator[str]:
    """Find mocks and patched attributes."""
    if "mock" not in text and "monkeypatch" not in text:
        return  # most files: nothing to look for
    for node in ast.walk(tree):
        is_patch = isinstance(node, ast.Attribute) and node.attr in {"mock", "setattr", "delattr"}
        if is_patch or isinstance(node, ast.Import | ast.ImportFrom):
            words = ast.unparse(node)
            if re.search(r"\bunittest\.mock\b|from unittest import .*\bmock\b|\bmonkeypatch\.(set|del)attr\b", words):
                yield f"{path}:{node.lineno}: {words}"


def delay(path: str, text: str, tree: ast.Module) -> Iterator[str]:
    """Find words that postpone work."""
    for number, line in enumerate(text.splitlines(), 1):
        if DELAY.search(line):
            yield f"{path}:{number}: {line.strip()}"


def broad_except(path: str, text: str, tree: ast.Module) -> Iterator[str]:
    """Find handlers of every exception; only the boundaries of commands, workers and tools may have one."""
    if path in BOUNDARIES:
        return
    for node in ast.walk(tree):
        caught = None
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "Exception"
        elif isinstance(node, ast.Call) and last_name(node.func).endswith("suppress"):
            caught = ast.unparse(node)
        if caught and re.search(r"\b(Base)?Exception\b", caught):
            yield f"{path}:{node.lineno}: {caught}"


def own_loop(path: str, text: str, tree: ast.Module) -> Iterator[str]:
    """Find event loops that are not started by `run_async`."""
    if not path.startswith("src/") or path in LOOPS or "asyncio" not in text:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) or last_name(node) in {"run", "Runner"}:
            words = ast.unparse(node)
            if re.search(r"\basyncio\.(run|Runner)$|from asyncio import .*\b(run|Runner)\b", words):
                yield f"{path}:{node.lineno}: {words}"


def last_name(node: ast.AST) -> str:
    """Return `c` of `a.b.c` or of `c`, an empty text for anything else; writing whole expressions takes far longer."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield all functions and methods, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


RULES: tuple[Rule, ...] = (long_file, long_function, hidden_import, empty_name, mock, delay, broad_except, own_loop)

PLANTED: tuple[tuple[Rule, str, str], ...] = (
    (long_file, "src/scaffold/plan/long.py", "x = 1\n" * 401),
    (long_function, "src/scaffold/plan/long.py", "async def long():\n" + "    x = 1\n" * 50),
    (hidden_import, "src/scaffold/plan/lazy.py", "def lazy():\n    from json import loads\n"),
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
)

ALLOWED: tuple[tuple[Rule, str, str], ...] = (
    (long_file, "src/scaffold/plan/long.py", "x = 1\n\n# why\n" * 400),
    (long_function, "src/scaffold/plan/long.py", "def long():\n" + "    x = 1\n" * 49),
    (long_function, "tests/unit/test_long.py", "def test_long():\n" + "    x = 1\n" * 50),
    (hidden_import, LAZY_IMPORT, "def lazy():\n    from json import loads\n"),
    (hidden_import, DRIVER_TABLE, "def lazy():\n    return importlib.import_module('json')\n"),
    (hidden_import, TRANSPORT, "def lazy():\n    return importlib.import_module('json')\n"),
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
)


def findings(rule: Rule, path: str, text: str) -> list[str]:
    """Apply one rule to one file."""
    return list(rule(path, text, ast.parse(text)))


@cache
def whole_tree() -> list[tuple[str, str, ast.Module]]:
    """Return path, text and syntax tree of every file; all rules read the same."""
    paths = [path for folder in ("src", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
    read = [(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths]
    with gc_paused():  # it would look through all trees again and again
        return [(path, text, ast.parse(text)) for path, text in read]


@pytest.mark.parametrize("rule", RULES)
def test_the_tree_follows_the_rule(rule: Rule) -> None:
    assert whole_tree()
    assert [line for path, text, tree in whole_tree() for line in rule(path, text, tree)] == []


@pytest.mark.parametrize(("rule", "path", "text"), PLANTED)
def test_a_planted_violation_is_found(rule: Rule, path: str, text: str) -> None:
    assert len(findings(rule, path, text)) == 1


@pytest.mark.parametrize(("rule", "path", "text"), ALLOWED)
def test_code_that_the_rule_allows_is_accepted(rule: Rule, path: str, text: str) -> None:
    assert findings(rule, path, text) == []


def test_every_rule_has_a_planted_violation() -> None:
    assert {rule for rule, _, _ in PLANTED} == set(RULES)
