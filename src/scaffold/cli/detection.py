"""What a repository is made of, told from its files; none of its code is run."""

import json
import re
import shutil
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

ProjectType = Literal["go", "node", "rust", "python", "unknown"]
Gate = Literal["setup", "test", "build", "lint", "typecheck"]
Gates = Mapping[Gate, str]

AGENT_PROGRAMS = ("claude", "codex")
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
NO_TEST = "no test specified"
"""What `npm init` writes where a project has no tests."""
LOCK_FILES = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lockb": "bun", "bun.lock": "bun"}
SCRIPTS: Mapping[Gate, tuple[str, ...]] = {
    "test": ("test",),
    "build": ("build",),
    "lint": ("lint",),
    "typecheck": ("typecheck", "type-check", "check-types"),
}


class Findings(Struct, frozen=True, kw_only=True):
    """What `init` found."""

    type: ProjectType
    gates: Gates
    """Commands that prepare and check the project; a gate that was not found is left out."""
    agents: tuple[str, ...]
    """Agent programs on PATH."""
    keys: tuple[str, ...]
    """Names of variables that hold a provider's key; never their values."""


def detect(root: Path, environ: Mapping[str, str]) -> Findings:
    """Look at the files in `root` and at the environment."""
    kind, gates = _project(root)
    return Findings(
        type=kind,
        gates=gates,
        agents=tuple(name for name in AGENT_PROGRAMS if shutil.which(name, path=environ.get("PATH", ""))),
        keys=tuple(name for name in KEYS if environ.get(name)),
    )


def _project(root: Path) -> tuple[ProjectType, Gates]:
    for marker, kind, gates in MARKERS:
        if (root / marker).is_file():
            return kind, gates(root)
    if any(root.glob("*.py")) or any(root.glob("tests/test_*.py")):
        return "python", _python(root)
    return "unknown", {}


def _go(root: Path) -> Gates:
    gates: dict[Gate, str] = {"setup": "go mod download", "test": "go test ./...", "build": "go build ./..."}
    linted = any(root.glob(".golangci.*"))
    return gates | {"lint": "golangci-lint run" if linted else "go vet ./..."}


def _rust(root: Path) -> Gates:
    locked = " --locked" if (root / "Cargo.lock").is_file() else ""
    return {
        "setup": f"cargo fetch{locked}",
        "test": "cargo test",
        "build": "cargo build",
        "lint": "cargo clippy -- -D warnings",
    }


def _node(root: Path) -> Gates:
    runner = next((runner for name, runner in LOCK_FILES.items() if (root / name).is_file()), "npm")
    locked = runner == "npm" and (root / "package-lock.json").is_file()
    gates: dict[Gate, str] = {"setup": "npm ci" if locked else f"{runner} install"}
    scripts = _table(_json(root / "package.json").get("scripts"))
    for gate, names in SCRIPTS.items():
        name = next((name for name in names if isinstance(scripts.get(name), str)), None)
        if name is not None and NO_TEST not in scripts[name]:
            gates[gate] = f"{runner} run {name}"
    if "typecheck" not in gates and (root / "tsconfig.json").is_file():
        gates["typecheck"] = "npx --no-install tsc --noEmit"
    return gates


def _python(root: Path) -> Gates:
    project = _toml(root / "pyproject.toml")
    tools = _table(project.get("tool"))
    gates: dict[Gate, str] = {}
    if (root / "uv.lock").is_file():
        gates["setup"] = "uv sync --locked"
    elif "project" in project:
        gates["setup"] = "python -m pip install -e ."
    if "pytest" in tools or _has(root, "pytest.ini", "conftest.py", "tests/conftest.py") or _mentions_pytest(project):
        gates["test"] = "python -m pytest -q"
    elif any(root.glob("test_*.py")) or any(root.glob("tests/test_*.py")):
        gates["test"] = "python -m unittest"
    if "ruff" in tools or _has(root, "ruff.toml", ".ruff.toml"):
        gates["lint"] = "ruff check ."
    if "mypy" in tools or _has(root, "mypy.ini"):
        gates["typecheck"] = "mypy ."
    return gates


MARKERS: tuple[tuple[str, ProjectType, Callable[[Path], Gates]], ...] = (
    ("go.mod", "go", _go),
    ("package.json", "node", _node),
    ("Cargo.toml", "rust", _rust),
    ("pyproject.toml", "python", _python),
)
"""In this order: a repository of several languages counts as the first."""


def _has(root: Path, *names: str) -> bool:
    return any((root / name).is_file() for name in names)


def _mentions_pytest(project: Mapping[str, Any]) -> bool:
    wanted = [project.get("dependency-groups"), _table(project.get("project")).get("optional-dependencies")]
    return any(re.search(r"\bpytest\b", json.dumps(each, default=str)) for each in wanted)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _json(path: Path) -> Mapping[str, Any]:
    """Return the object in a JSON file; an empty one if it cannot be read."""
    try:
        return _table(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return {}


def _toml(path: Path) -> Mapping[str, Any]:
    """Return the table in a TOML file; an empty one if it cannot be read."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
