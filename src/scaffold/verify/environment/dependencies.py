"""Recognise dependencies: install folders, the commands that install them, and the files that select them."""

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from scaffold.core.ids import Commit
from scaffold.git.client.command_line import Git
from scaffold.host.contained_path import ContainedPath

VENV = ".venv"
NODE_MODULES = "node_modules"
INSTALLED = frozenset({VENV, "venv", NODE_MODULES, ".yarn", ".pnp.cjs", ".pnp.loader.mjs"})
"""Names of installed dependencies, with `*.egg-info`, that checks need and git ignores; checks build the sources
themselves."""
DEPENDENCY_FILES = frozenset({
    *("pyproject.toml", "setup.py", "setup.cfg", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile", "Pipfile.lock"),
    *("environment.yml", ".python-version"),
    *("package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "pnpm-workspace.yaml"),
    *("yarn.lock", "bun.lock", "bun.lockb", ".npmrc", ".yarnrc.yml", ".nvmrc", ".node-version", ".tool-versions"),
    *("go.mod", "go.sum", "go.work", "go.work.sum", "Cargo.toml", "Cargo.lock"),
    *("rust-toolchain", "rust-toolchain.toml"),
})  # fmt: skip
DEPENDENCY_GLOBS = ("*requirements*.txt", "*requirements*.in", "constraints*.txt")
TOOLCHAIN_PROGRAMS = ("python", "python3", "uv", "poetry", "node", "npm", "pnpm", "yarn", "bun", "go", "cargo", "rustc")
FOLDER_BY_INSTALLER: Mapping[str, str] = {
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun", "corepack"), NODE_MODULES),
    **dict.fromkeys(("python", "python3", "pip", "pip3", "uv", "poetry", "pdm", "virtualenv"), VENV),
}
INSTALLER_RECORDS = ("pyvenv.cfg", ".package-lock.json", ".modules.yaml", ".yarn-integrity", ".yarn-state.yml")
"""Files in which installers record what they installed."""
MOST_BYTES = 100_000_000
"""Of what installers record; a lock of 50,000 packages has 20 MB."""

_PIP = re.compile(r"\bpip3?\b|\bpython3? -m pip\b")
_VENV = re.compile(r"-m venv\b|\buv venv\b|\bvirtualenv\b")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


def install_folder(command: str) -> str | None:
    """Return the folder that a set-up command installs to, judging by its program; None if unknown."""
    return FOLDER_BY_INSTALLER.get(command_program(command))


def command_program(command: str) -> str:
    """Return the name of the program that a command starts; empty if it cannot be parsed."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    return next((Path(word).name for word in words if not _ASSIGNMENT.fullmatch(word)), "")


def with_venv_creation(commands: Sequence[str]) -> tuple[str, ...]:
    """Return the commands, preceded by one that creates a virtual environment if they use pip and create none."""
    installs = any(_PIP.search(command) for command in commands)
    creates_venv = any(_VENV.search(command) for command in commands)
    return (f"python3 -m venv {VENV}", *commands) if installs and not creates_venv else tuple(commands)


async def installed_folders(git: Git, *, ignored: bool) -> tuple[str, ...]:
    """Return the untracked (`ignored`: only the ignored) dependency folders and files of a checkout, sorted.

    Paths are relative to the checkout.
    """
    which = ("--ignored", "--exclude-standard") if ignored else ()
    found = await git("ls-files", "--others", *which, "--directory", "-z")
    names = {record.rstrip("/") for record in found.records}
    return tuple(
        sorted(
            name
            for name in names
            # A folder inside `node_modules` is copied with it.
            if name.rpartition("/")[2] in INSTALLED or name.endswith(".egg-info")
            if NODE_MODULES not in Path(name).parts[:-1]
        )
    )


async def dependency_hashes(git: Git, commit: Commit) -> tuple[str, ...]:
    """Return a line with hash and path for each file of the commit that selects dependencies."""
    listed = await git("ls-tree", "-r", "-z", commit)
    return tuple(record for record in listed.records if selects_dependencies(record.partition("\t")[2]))


def selects_dependencies(path: str) -> bool:
    """Return True if a file selects dependencies."""
    name = path.rpartition("/")[2]
    return name in DEPENDENCY_FILES or any(fnmatchcase(name, glob) for glob in DEPENDENCY_GLOBS)


def toolchain_lines(path: str) -> tuple[str, ...]:
    """Return a line for each interpreter and installer on `path`; the line changes with an upgrade."""
    folders = [folder for folder in path.split(os.pathsep) if folder]
    lines = []
    for name in TOOLCHAIN_PROGRAMS:
        candidates = (Path(folder, name) for folder in folders)
        found = next((each for each in candidates if os.access(each, os.X_OK) and each.is_file()), None)
        if found is not None:
            real = found.resolve()
            status = real.stat()
            lines.append(f"{name} {real} {status.st_size} {status.st_mtime_ns}")
    return tuple(lines)


def installed_lines(folder: Path) -> tuple[str, ...]:
    """Return lines that change whenever the dependencies installed in `folder` change."""
    records = [f"{name} {hash_lines([text])}" for name in INSTALLER_RECORDS if (text := read_text(folder / name))]
    # Scoped Node packages count, caches do not.
    # Names and times of packages instead of their contents: an environment may have a hundred thousand files.
    found = [*folder.glob("lib*/python*/site-packages/*"), *folder.glob("@*/*")] or list(folder.glob("*"))
    kept = [path for path in found if not path.name.startswith((".", "__pycache__"))]
    packages = sorted(f"{path.name} {path.lstat().st_mtime_ns}" for path in kept)
    return (str(folder), *records, *packages)


def hash_lines(lines: Iterable[str]) -> str:
    """Return a hash of the lines in order, 32 hexadecimal digits."""
    return hashlib.sha256("\0".join(lines).encode(errors="surrogateescape")).hexdigest()[:32]


def read_text(path: Path) -> str:
    """Return the text of an installed file; empty if it is missing, a link, a pipe or too large."""
    # An agent could have put a named pipe there, which nobody writes.
    found = ContainedPath(path.parent, path.name).read(MOST_BYTES)
    return "" if isinstance(found, str) else found.decode(errors="replace")
