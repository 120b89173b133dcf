"""The paths of a repository and the contents of its manifests, from a commit or a folder."""

import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.git.client.command_line import Git
from scaffold.git.commits import batch_contents, blob_sizes, listed_files, listed_paths
from scaffold.host.folder_tree import walk
from scaffold.host.startup import importing
from scaffold.plan.text import bounded
from scaffold.policy.shell.parsed_command import SimpleCommand

MANIFESTS = ("go.mod", "go.work", "package.json", "Cargo.toml", "pyproject.toml", "setup.py", "setup.cfg")
OWN_CHECKS = ("noxfile.py", "tox.toml", "hatch.toml", ".pre-commit-config.yaml", ".gitlab-ci.yml")
CI_FILES = (".circleci/config.yml", ".travis.yml", "azure-pipelines.yml", ".azure-pipelines.yml")
TASKFILES = (
    "Taskfile.yml",
    "taskfile.yml",
    "Taskfile.yaml",
    "taskfile.yaml",
    "Taskfile.dist.yml",
    "Taskfile.dist.yaml",
)
RECIPE_FILES = ("GNUmakefile", "makefile", "Makefile", "justfile", "Justfile", ".justfile", *TASKFILES)
WORKFLOWS = ".github/workflows"
READ_FILES = frozenset({*MANIFESTS, *OWN_CHECKS, *RECIPE_FILES, "tox.ini", "pytest.ini", "pnpm-workspace.yaml"})
"""Names of the files whose contents are read, besides workflows."""
REQUIREMENT_FILES = (
    *("requirements.txt", "requirements-dev.txt", "requirements-test.txt", "requirements_dev.txt"),
    *("dev-requirements.txt", "test-requirements.txt", "requirements/dev.txt", "requirements/test.txt"),
    *("requirements-tests.txt", "requirements_test.txt", "requirements/tests.txt", "tests/requirements.txt"),
)
DECIDING_FILES = frozenset({*CI_FILES, *REQUIREMENT_FILES})
SCRIPT_FOLDERS = frozenset({"scripts", "script", "bin", "ci", ".ci", ".github", "dev", "tools"})
SCRIPT_SUFFIXES = frozenset({"", ".sh", ".bash"})
"""Where projects keep the shell scripts that their set-up starts: directly in these folders at the top."""
SKIPPED_FOLDERS = frozenset(
    {
        ".git",
        "node_modules",
        ".venv",
        "venv",
        ".tox",
        ".nox",
        "site-packages",
        "target",
        "vendor",
        "__pycache__",
        "testdata",
        "fixtures",
    }
)
"""Folders that are not searched: third-party code, build output and test data."""
MAX_BYTES = bounded.MAX_CHARS
MAX_TOTAL_BYTES = 8_000_000
"""Of the files that are read of a repository, test files not counted; outer ones come first."""
MAX_SHELL_CHARS = 300_000
"""Of all commands of a repository together."""
MAX_SHELL_PIECE = 4_000
"""Characters that are parsed at once: the time grows with their square."""
MAX_SEARCHED_CHARS = 50_000_000
MAX_TEST_FILES = 200
MAX_FILES = 50_000


FileFormat = Literal["json", "yaml", "toml", "ini"]


class ReadState(Struct):
    """What was read of a repository's files."""

    problems: dict[str, str]
    """Why a file is not read, by its path; files that are merely invalid are left out."""
    values: dict[tuple[str, str], Any]
    """The values of a file in a format, read once."""
    commands: Any = None
    """The commands that the project itself runs, read once."""
    shell_chars: int = 0
    searched_chars: int = 0


class ProjectFiles:
    """Paths (with `/`, relative to a repository or a folder in it) and the contents of the files, within limits."""

    def __init__(self, paths: Collection[str], read: Callable[[str], bytes | None]) -> None:
        self.paths = frozenset(paths)
        self.folder = ""
        self.state = ReadState({}, {})
        self._read = read

    def at(self, folder: str) -> "ProjectFiles":
        """Return the files below a folder, relative to it."""
        if not folder:
            return self
        paths = [path.removeprefix(f"{folder}/") for path in self.paths if path.startswith(f"{folder}/")]
        files = ProjectFiles(paths, lambda path: self._read(f"{folder}/{path}"))
        files.folder, files.state = f"{self.folder}{folder}/", self.state
        return files

    def with_versions_of(self, other: "ProjectFiles", paths: Collection[str]) -> "ProjectFiles":
        """Return these files with some `paths` taken from `other`; paths missing there are removed."""
        laid = frozenset(paths)
        return ProjectFiles(
            (self.paths - laid) | (other.paths & laid),
            lambda path: (other if path in laid else self)._read(path),  # noqa: SLF001
        )

    def has(self, *names: str) -> bool:
        """Return True if one of the files exists."""
        return not self.paths.isdisjoint(names)

    def text(self, path: str) -> str:
        """Return the text of a file; empty if it is missing or cannot be read."""
        return (self._read(path) or b"").decode(errors="replace") if path in self.paths else ""

    def toml(self, path: str) -> Mapping[str, Any]:
        """Return the contents of a TOML file; empty if it cannot be read."""
        return self._parsed_table(path, "toml")

    def json(self, path: str) -> Mapping[str, Any]:
        """Return the object in a JSON file; empty if it cannot be read."""
        return self._parsed_table(path, "json")

    def yaml(self, path: str) -> Mapping[str, Any]:
        """Return the table in a YAML file; empty if it cannot be read."""
        return self._parsed_table(path, "yaml")

    def ini(self, path: str) -> Mapping[str, Mapping[str, str]]:
        """Return the sections of an INI file by name; empty if it cannot be read."""
        return self._parsed_table(path, "ini")

    def _parsed_table(self, path: str, kind: FileFormat) -> Mapping[str, Any]:
        name, known = f"{self.folder}{path}", self.state.values
        if (name, kind) not in known:
            known[name, kind] = None
            try:
                # The reader of a format loads slowly, and few repositories have files of every one.
                known[name, kind] = _reader_of(kind)(text) if (text := self.text(path)) else None
            except bounded.BeyondLimit as error:
                self.state.problems[name] = str(error)
            except ValueError:
                pass
        return as_table(known[name, kind])

    def shell(self, text: str, source: str) -> Iterator[tuple[SimpleCommand, ...]]:
        """Yield the simple commands of a shell text in the file `source`; a long text is parsed in several pieces."""
        text = text[: MAX_SHELL_CHARS + 1]
        while text and self.state.shell_chars < MAX_SHELL_CHARS:
            end = text.rfind("\n", 0, MAX_SHELL_PIECE) + 1 if len(text) > MAX_SHELL_PIECE else len(text)
            piece, text = text[: end or MAX_SHELL_PIECE], text[end or MAX_SHELL_PIECE :]
            self.state.shell_chars += len(piece)
            with importing():  # many repositories have no commands of their own
                from scaffold.policy.shell.command_decision import visible_commands
            yield visible_commands(piece)
        if text:
            self.state.problems[f"{self.folder}{source}"] = "has more commands than are looked at"

    def line(self, path: str, *texts: str) -> int | None:
        """Return the number, from 1, of the first line of a file that contains all the texts, or None.

        None, too, once much was searched: it is only shown to the user.
        """
        text = self.text(path)
        self.state.searched_chars += len(text)
        if self.state.searched_chars > MAX_SEARCHED_CHARS:
            return None
        lines = enumerate(text.splitlines(), start=1)
        return next((number for number, line in lines if all(text in line for text in texts)), None)

    def folders_of(self, *names: str) -> tuple[str, ...]:
        """Return the folders that contain a file with one of the names, outermost first."""
        split = (path.rpartition("/") for path in self.paths)
        found = {folder or "." for folder, _, name in split if name in names}
        return tuple(
            sorted((folder for folder in found if _is_listed(folder)), key=lambda each: (each.count("/"), each))
        )


def _reader_of(kind: FileFormat) -> Callable[[str], Any]:
    """Return what reads texts of a format; it raises ValueError."""
    match kind:
        case "json":
            return bounded.read_json
        case "yaml":
            with importing():
                from scaffold.plan.text.parse_tree import read_yaml
            return read_yaml
        case "toml":
            return bounded.read_toml
        case "ini":
            return bounded.read_ini


def as_table(value: object) -> Mapping[str, Any]:
    """Return the value if it is a table, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_texts(value: object) -> tuple[str, ...]:
    """Return the strings in a list; empty if the value is not a list."""
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def is_python_test(path: str) -> bool:
    """Return True if a path has the name of a Python test file."""
    name = path.rpartition("/")[2]
    return name.endswith(".py") and (name.startswith("test") or name.endswith("_test.py")) and _is_listed(path)


async def files_at_commit(git: Git, commit: Commit) -> ProjectFiles:
    """Return the files of a commit, with the contents of manifests and of some test files, if not too large."""
    files = await listed_files(git, commit)
    tests = (path for path in files if is_python_test(path) or (path.endswith(".rs") and _is_listed(path)))
    read_paths = [*filter(decides_gates, files), *islice(tests, MAX_TEST_FILES)]
    blobs = {path: files[path] for path in read_paths}
    sizes = dict(zip(blobs, await blob_sizes(git, tuple(blobs.values())), strict=True))
    problems = _size_problems(sizes)
    read = [path for path, size in sizes.items() if size is not None and path not in problems]
    found = await batch_contents(git, [blobs[path] for path in read])
    contents = {path: content for path, content in zip(read, found, strict=True) if content is not None}
    known = ProjectFiles(await listed_paths(git, commit), contents.get)
    known.state.problems |= problems
    return known


def files_in_folder(folder: Path) -> ProjectFiles:
    """Return the files below a folder."""
    paths = tuple(_list_files(folder))
    problems = _size_problems({path: _file_size(folder / path) for path in paths if decides_gates(path)})
    known = ProjectFiles(paths, lambda path: None if path in problems else _read_file(folder / path))
    known.state.problems |= problems
    return known


def _size_problems(sizes: Mapping[str, int | None]) -> dict[str, str]:
    """Return why files of these sizes are not read, by path: each is too large, or all of them are."""
    problems, total = dict[str, str](), 0
    for path in sorted(sizes, key=lambda path: (not decides_gates(path), path.count("/"), path)):
        size = sizes[path] or 0
        if size > MAX_BYTES:
            problems[path] = f"is larger than {MAX_BYTES // 1_000_000} MB"
        elif decides_gates(path) and (total := total + size) > MAX_TOTAL_BYTES:
            problems[path] = f"is one of more than {MAX_TOTAL_BYTES // 1_000_000} MB of such files"
    return problems


def _is_listed(path: str) -> bool:
    return SKIPPED_FOLDERS.isdisjoint(path.split("/"))


def decides_gates(path: str) -> bool:
    """Return True if gates are detected from the contents of the file."""
    # Asked of every path of a repository, at each landing.
    named = path.rpartition("/")[2] in READ_FILES or path in DECIDING_FILES
    return (named or path.startswith(f"{WORKFLOWS}/") or is_script(path)) and _is_listed(path)


def is_script(path: str) -> bool:
    """Return True if a path is where projects keep shell scripts."""
    folder, _, name = path.rpartition("/")
    return folder in SCRIPT_FOLDERS and PurePosixPath(name).suffix in SCRIPT_SUFFIXES


def _list_files(folder: Path) -> Iterator[str]:
    seen = 0
    for at, folders, files in walk(folder):
        folders[:] = sorted(each for each in folders if each not in SKIPPED_FOLDERS)
        for name in files:
            seen += 1
            if seen > MAX_FILES:
                return
            yield (Path(at) / name).relative_to(folder).as_posix()


def _file_size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _read_file(path: Path) -> bytes | None:
    try:
        # A pipe would wait for a writer, and a device never ends.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            return file.read(MAX_BYTES) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None
