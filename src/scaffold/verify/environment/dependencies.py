"""Dependencies: the folders they are installed to, the commands that install them, the files that decide which."""

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from scaffold.core.ids import Commit
from scaffold.git.command import Git

VENV = ".venv"
MODULES = "node_modules"
INSTALLED = (VENV, "venv", MODULES, ".yarn", ".pnp.cjs", ".pnp.loader.mjs", "*.egg-info")
"""What a set-up makes that checks need and git ignores; what it builds of the sources is theirs to build."""
DECIDING = (
    *("pyproject.toml", "setup.py", "setup.cfg", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile", "Pipfile.lock"),
    *("*requirements*.txt", "*requirements*.in", "constraints*.txt", "environment.yml", ".python-version"),
    *("package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "pnpm-workspace.yaml"),
    *("yarn.lock", "bun.lock", "bun.lockb", ".npmrc", ".yarnrc.yml", ".nvmrc", ".node-version", ".tool-versions"),
    *("go.mod", "go.sum", "go.work", "go.work.sum", "Cargo.toml", "Cargo.lock", "rust-toolchain*"),
)
PROGRAMS = ("python", "python3", "uv", "poetry", "node", "npm", "pnpm", "yarn", "bun", "go", "cargo", "rustc")
MADE_BY: Mapping[str, str] = {
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun", "corepack"), MODULES),
    **dict.fromkeys(("python", "python3", "pip", "pip3", "uv", "poetry", "pdm", "virtualenv"), VENV),
}
RECORDS = ("pyvenv.cfg", ".package-lock.json", ".modules.yaml", ".yarn-integrity", ".yarn-state.yml")
"""Where installers write down what they installed."""

_PIP = re.compile(r"\bpip3?\b|\bpython3? -m pip\b")
_VENV = re.compile(r"-m venv\b|\buv venv\b|\bvirtualenv\b")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


def folder_of(command: str) -> str | None:
    """Return the folder that a set-up command fills, as its program tells; None if that cannot be told."""
    return MADE_BY.get(program_of(command))


def program_of(command: str) -> str:
    """Return the name of the program that a command starts; empty if that cannot be told."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    return next((Path(word).name for word in words if not _ASSIGNMENT.fullmatch(word)), "")


def with_venv(commands: Sequence[str]) -> tuple[str, ...]:
    """Return the commands, before them one that makes what pip is to install to, unless they do that themselves."""
    installs = any(_PIP.search(command) for command in commands)
    made = any(_VENV.search(command) for command in commands)
    return (f"python3 -m venv {VENV}", *commands) if installs and not made else tuple(commands)


async def installed_in(git: Git, *, ignored: bool) -> tuple[str, ...]:
    """Return the dependencies in a checkout that git does not keep, from its top, sorted; or only those it ignores."""
    which = ("--ignored", "--exclude-standard") if ignored else ()
    found = await git("ls-files", "--others", *which, "--directory", "-z")
    names = {record.rstrip("/") for record in found.records}
    return tuple(sorted(name for name in names if _fits(name, INSTALLED) and MODULES not in Path(name).parts[:-1]))


async def deciding(git: Git, commit: Commit) -> tuple[str, ...]:
    """Return a line for each file of the commit that decides what is installed: the hash of its content, its path."""
    listed = await git("ls-tree", "-r", "-z", commit)
    return tuple(record for record in listed.records if _fits(record.partition("\t")[2], DECIDING))


def programs(path: str) -> tuple[str, ...]:
    """Return a line for each interpreter and installer that is found on `path`, another one after an upgrade."""
    return tuple(f"{name} {_identity(found)}" for name in PROGRAMS if (found := _found(name, path)))


def contents(folder: Path) -> tuple[str, ...]:
    """Return lines that are others once other dependencies were installed to `folder`."""
    records = [f"{name} {digest([text])}" for name in RECORDS if (text := _text(folder / name))]
    packages = sorted(f"{path.name} {path.lstat().st_mtime_ns}" for path in _packages(folder))
    return (str(folder), *records, *packages)


def digest(lines: Iterable[str]) -> str:
    """Return a hash over lines, in their order; 32 hexadecimal digits."""
    return hashlib.sha256("\0".join(lines).encode(errors="surrogateescape")).hexdigest()[:32]


def _fits(path: str, patterns: Sequence[str]) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _found(name: str, path: str) -> Path | None:
    candidates = (Path(folder, name) for folder in path.split(os.pathsep) if folder)
    return next((each for each in candidates if os.access(each, os.X_OK) and each.is_file()), None)


def _identity(program: Path) -> str:
    real = program.resolve()
    found = real.stat()
    return f"{real} {found.st_size} {found.st_mtime_ns}"


def _packages(folder: Path) -> list[Path]:
    """Return what stands directly in a folder of packages, Python's, or Node's with their scopes; but caches."""
    found = [*folder.glob("lib*/python*/site-packages/*"), *folder.glob("@*/*")] or list(folder.glob("*"))
    return [path for path in found if not path.name.startswith((".", "__pycache__"))]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
