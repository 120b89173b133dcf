"""Imports point downward, and each package does only what it owns."""

import ast
import re
import shutil
import subprocess  # noqa: TID251 - the linter judges the tree from outside, without the tree's own process code
import sys
import tomllib
from pathlib import Path

import pytest

from support.source_tree import SourceFile, source_files

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "scaffold"
CONTRACTS = [
    contract["name"]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
]
LAYERS, CORE, PLAN, PROCESSES, SQL, TEXTUAL, STARLETTE, CYCLES = CONTRACTS

PLANTED = [
    (LAYERS, {"core/planted.py": "import scaffold.plan"}, "scaffold.core.planted -> scaffold.plan"),
    (LAYERS, {"llm/planted.py": "from scaffold import git"}, "scaffold.llm.planted -> scaffold.git"),
    (LAYERS, {"landing/planted.py": "import scaffold.worker"}, "scaffold.landing.planted -> scaffold.worker"),
    (LAYERS, {"views/planted.py": "import scaffold.cli.wiring"}, "scaffold.views.planted -> scaffold.cli.wiring"),
    (
        LAYERS,
        {
            "git/planted.py": "from scaffold.host.startup import importing\n\ndef run():\n    with importing():\n"
            "        from scaffold.cli.wiring import open_context\n    open_context()"
        },
        "scaffold.git.planted -> scaffold.cli.wiring",
    ),
    (LAYERS, {"cli/planted.py": "import scaffold.mcp.serve"}, "scaffold.cli.planted -> scaffold.mcp.serve"),
    (LAYERS, {"attic/__init__.py": ""}, "scaffold.attic"),
    (CORE, {"core/planted.py": "import yaml"}, "scaffold.core.planted -> yaml"),
    (CORE, {"core/planted.py": "def read():\n    from pathlib import Path"}, "scaffold.core.planted -> pathlib"),
    (PLAN, {"plan/planted.py": "import rich.table"}, "scaffold.plan.planted -> rich"),
    (PLAN, {"plan/planted.py": "import time"}, "scaffold.plan.planted -> time"),
    (PROCESSES, {"git/planted.py": "from subprocess import run"}, "scaffold.git.planted -> subprocess"),
    (PROCESSES, {"tools/planted.py": "import multiprocessing.pool"}, "scaffold.tools.planted -> multiprocessing"),
    (PROCESSES, {"cli/planted.py": "import pty"}, "scaffold.cli.planted -> pty"),
    (SQL, {"orchestrator/planted.py": "import sqlite3"}, "scaffold.orchestrator.planted -> sqlite3"),
    (SQL, {"views/planted.py": "from psycopg import sql"}, "scaffold.views.planted -> psycopg"),
    (TEXTUAL, {"cli/planted.py": "from textual.app import App"}, "scaffold.cli.planted -> textual"),
    (STARLETTE, {"cli/planted.py": "import starlette.routing"}, "scaffold.cli.planted -> starlette"),
    (
        CYCLES,
        {"core/planted.py": "import scaffold.core.planted_too", "core/planted_too.py": "import scaffold.core.planted"},
        "No cycles are allowed in scaffold.core",
    ),
]


def lint(folder: Path) -> tuple[int, str]:
    """Check the package `scaffold` inside `folder` by our contracts."""
    answer = subprocess.run(
        [
            Path(sys.executable).with_name("lint-imports"),
            "--no-logo",
            "--no-cache",
            "--config",
            ROOT / "pyproject.toml",
        ],
        cwd=folder,
        env={"COLUMNS": "200", "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.returncode, answer.stdout + answer.stderr


def test_the_tree_keeps_every_contract() -> None:
    exit_code, report = lint(SOURCE.parent)
    assert exit_code == 0, report
    assert f"{len(CONTRACTS)} kept, 0 broken" in report


@pytest.mark.slow
@pytest.mark.parametrize(("contract", "files", "named"), PLANTED, ids=[named for _, _, named in PLANTED])
def test_a_planted_violation_breaks_its_contract(
    tmp_path: Path, contract: str, files: dict[str, str], named: str
) -> None:
    shutil.copytree(SOURCE, tmp_path / "scaffold", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in files.items():
        (tmp_path / "scaffold" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "scaffold" / name).write_text(text)
    exit_code, report = lint(tmp_path)
    assert exit_code == 1
    assert f"{contract} BROKEN" in report
    assert named in report


def test_every_contract_has_a_planted_violation() -> None:
    assert {contract for contract, _, _ in PLANTED} == set(CONTRACTS)


STARTS_A_PROCESS = re.compile(
    r"os\.(fork|forkpty|posix_spawnp?|spawn[lv]p?e?|exec[lv]p?e?|system|popen|startfile)"
    r"|asyncio\.(create_subprocess_(exec|shell)|subprocess(\..*)?)"
    r"|.*\.subprocess_(exec|shell)"
    r"|concurrent\.futures\.(process\.)?ProcessPoolExecutor"
)
MAY_START_ONE = re.compile(r"\bfork|spawn|\bexec[lv]|\bsystem\b|popen|startfile|subprocess|ProcessPoolExecutor")
"""A text without any of these words starts none."""


def process_starts(file: SourceFile) -> list[str]:
    """List what in a module starts processes without `subprocess`, under whatever name it was imported."""
    if not MAY_START_ONE.search(file.text):
        return []
    names = {
        alias.asname: alias.name
        for node in file.nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname
    }
    spoken = [
        f"{node.module}.{alias.name}" for node in file.nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    for node in file.nodes:
        if isinstance(node, ast.Attribute) and MAY_START_ONE.search(node.attr):
            first, *rest = ast.unparse(node).split(".")
            spoken.append(".".join([names.get(first, first), *rest]))
    return [name for name in spoken if STARTS_A_PROCESS.fullmatch(name)]


def test_only_host_starts_processes() -> None:
    elsewhere = [file for file in source_files() if not file.module.startswith("host/")]
    assert {file.path: starts for file in elsewhere if (starts := process_starts(file))} == {}


def test_planted_process_starts_are_found_and_other_code_is_accepted() -> None:
    starts = [
        "import os\nos.fork()",
        "import os as system\nsystem.execvpe('sh', [], {})",
        "from os import posix_spawn",
        "import asyncio\nasync def start(): await asyncio.create_subprocess_exec('sh')",
        "from asyncio import subprocess",
        "async def start(loop): await loop.subprocess_shell(Protocol, 'sh')",
        "from concurrent.futures import ProcessPoolExecutor",
    ]
    others = ["import os\nos.path.join('a', 'b')", "def ask(request): return request.system"]
    assert [text for text in [*starts, *others] if process_starts(SourceFile("a.py", text))] == starts


def test_the_init_file_of_a_package_has_only_a_docstring() -> None:
    def only_a_docstring(path: Path) -> bool:
        tree = ast.parse(path.read_text())
        return len(tree.body) == 1 and ast.get_docstring(tree) is not None

    talkative = [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("__init__.py") if not only_a_docstring(path)]
    assert talkative == []
