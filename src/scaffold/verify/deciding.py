"""What decides checks, by its path: tests, what runners read, what interpreters run unasked, what stands in for code.

The contents of a manifest decide only in part: which part, `manifest` tells.
"""

import ast
import posixpath
import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from functools import cached_property

from scaffold.git.commit import Change
from scaffold.verify.testlike import is_test

CONFIGURATION = (
    *("pytest.toml", ".pytest.toml", ".coveragerc", "jest.config.*", "jest.setup.*"),
    *("vitest.config.*", "vitest.workspace.*", "vitest.setup.*", "vite.config.*", ".mocharc*", "karma.conf.*"),
    *("playwright.config.*", "cypress.config.*", "ava.config.*", ".nycrc*", ".c8rc*", "babel.config.*", ".babelrc*"),
    *("setuptests.*", "setup-tests.*", "test-setup.*", "jest-setup.*", "vitest-setup.*", "setupjest.*", "build.rs"),
    *(".python-version", ".tool-versions", ".nvmrc", ".node-version", "mise.toml", ".mise*.toml", ".envrc", "uv.toml"),
    *(".swcrc", "rust-toolchain", "rust-toolchain.toml", "clippy.toml", ".clippy.toml", "go.work"),
    *(".golangci.*", "ruff.toml", ".ruff.toml", "mypy.ini", ".mypy.ini", ".flake8", ".pylintrc", "pylintrc"),
    *(".pylintrc.toml", "pyrightconfig.json", "tsconfig*.json", ".eslintrc*", "eslint.config.*", ".eslintignore"),
    *("biome.json", "biome.jsonc", ".bandit", ".npmrc", ".yarnrc*", ".pnpmfile.cjs", "config.toml", "config"),
)
"""Names of files that runners of tests, lint, types and builds obey or load, or by which they are chosen; `config`
counts in `.cargo` alone."""
UNASKED = ("sitecustomize", "usercustomize")
"""Modules that every Python interpreter runs as it starts."""
INSTALLED = frozenset({"node_modules", ".venv", "venv", "site-packages", "__pypackages__"})
"""Folders of what is installed, not written."""
COMPILED = (".pyc", ".pyo")
RECIPES = {
    "make": ("gnumakefile", "makefile"),
    "just": ("justfile", ".justfile"),
    "task": ("taskfile.yml", "taskfile.yaml", "taskfile.dist.yml", "taskfile.dist.yaml"),
    "nox": ("noxfile.py",),
    "rake": ("rakefile",),
}
"""What runs which files of recipes."""
SCRIPTING = frozenset({"npm", "pnpm", "yarn", "bun"})
"""What runs the scripts of a package.json."""

_CHECKER = re.compile(
    r"(^|[-_.])(checks?|verify|validate|smoke|lint|ci|tests?|assert|accept|acceptance|prove|proof|audit)([-_.]|$)"
)
_WORD = re.compile(r"[^\s\"'`;|&()<>=]+")
_MODULE = re.compile(r"\s-m\s+([A-Za-z_][\w.]*)")
_LAUNCHED = re.compile(
    r"(?:\b(?:(?:ba|da|z)?sh|python[\d.]*|node|ruby|perl|source)\s+(?:-[\w-]+\s+)*(?:\./)?|(?<![\w./-])\./)([\w./-]+)"
)


class Outset:
    """What a repository was like before the work, as far as it tells what decides checks there."""

    def __init__(self, paths: Collection[str], commands: Sequence[str]) -> None:
        """Take all `paths` of the base, and the `commands` that judge the work."""
        self.paths = paths
        self.commands = commands
        self._words = {word.removeprefix("./") for command in commands for word in _WORD.findall(command)}
        self._said = {word.rpartition("/")[2] for word in self._words}
        self._modules = {place for command in commands for name in _MODULE.findall(command) for place in _places(name)}

    @cached_property
    def untested(self) -> bool:
        """Whether there is no test yet: then configuration cannot take anything from one."""
        return not any(is_test(path) for path in self.paths)

    def runs(self, program: str) -> bool:
        """Tell whether some command names `program`."""
        return program in self._said

    def names(self, path: str) -> bool:
        """Tell whether some command names `path`, or the module that is in it, wherever modules are looked for."""
        return path in self._words or any(path == place or path.endswith(f"/{place}") for place in self._modules)

    def follows(self, path: str) -> bool:
        """Tell whether some command does what is written in `path`."""
        name = path.rpartition("/")[2].casefold()
        if name == "package.json":
            return not SCRIPTING.isdisjoint(self._said)
        return any(name in names and self.runs(program) for program, names in RECIPES.items())


def launched(path: str, text: str) -> tuple[str, ...]:
    """Return the scripts and modules of the repository that a recipe at `path` runs."""
    folder = posixpath.dirname(path)
    modules = [place for name in _MODULE.findall(text) for place in _places(name)]
    return tuple(posixpath.normpath(posixpath.join(folder, each)) for each in (*_LAUNCHED.findall(text), *modules))


def decides(change: Change, outset: Outset) -> str | None:
    """Return in what way a change decides checks, as the end of a sentence that begins with its path; None if not."""
    name = change.path.rpartition("/")[2].casefold()
    if name == "conftest.py":
        return "decides how tests run"
    if change.kind != "A" and is_test(change.path):
        return "is an existing test, or its data"
    return runs_unasked(change.path) or _configures(change, name, outset) or _judges(change, name, outset)


def precedes_tests(change: Change, outset: Outset) -> bool:
    """Tell whether a new file is run before tests that were there: the `__init__.py` of a folder of theirs."""
    folder, _, name = change.path.rpartition("/")
    if change.kind != "A" or name != "__init__.py" or not is_test(change.path):
        return False
    return any(path.startswith(f"{folder}/") and is_test(path) for path in outset.paths)


def is_inert(source: bytes) -> bool:
    """Tell whether a module does nothing when it is run: comments and a docstring at most."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return False
    return all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in body)


def runs_unasked(path: str) -> str | None:
    """Return in what way a file takes effect that nobody asked for; None if it does not."""
    *folders, name = path.casefold().split("/")
    if name.split(".")[0] in UNASKED or (folders and folders[-1] in UNASKED) or name.endswith(".pth"):
        return "is run by every interpreter that starts"
    if any(folder.endswith((".egg-info", ".dist-info")) for folder in folders):
        return "tells test runners which plugins to load"
    if not INSTALLED.isdisjoint((*folders, name)):
        return "stands where installed packages are looked for"
    if name.endswith(COMPILED):
        return "is compiled, and may be run in place of its source"
    if name == ".env" or name.startswith(".env."):
        return "sets the environment of test runs"
    return None


def _configures(change: Change, name: str, outset: Outset) -> str | None:
    *_, folder = ("", *change.path.split("/")[:-1])
    if change.path.startswith("__mocks__/"):
        return "stands in for a package in every test"
    if name in {"config", "config.toml"} and folder != ".cargo":
        return None
    if not any(fnmatchcase(name, glob) for glob in CONFIGURATION):
        return None
    if change.kind == "A" and outset.untested:
        return None
    return "configures what checks the work"


def _judges(change: Change, name: str, outset: Outset) -> str | None:
    """Return why a file of recipes or a script is a judge of the work; one that is not there yet cannot be."""
    if name.endswith(".mk") and outset.runs("make") and change.kind != "A":
        return "is a part of what `make` does, which checks the work"
    for program, names in RECIPES.items():
        if name in names and outset.runs(program):
            others = {_beside(change.path, other) for other in names} - {change.path.casefold()}
            if change.kind != "A" or others & {path.casefold() for path in outset.paths}:
                return f"says what `{program}` does, which checks the work"
    called = change.path.casefold().split("/")[-2:][0] if name == "__main__.py" else name
    if (
        change.kind != "A"
        and outset.names(change.path)
        and (name.endswith((".sh", ".bash")) or _CHECKER.search(called))
    ):
        return "is run to check the work"
    return None


def _places(module: str) -> tuple[str, str]:
    """Return where `python -m` finds a module, from the folder it is looked for in."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__main__.py"


def _beside(path: str, name: str) -> str:
    folder = path.casefold().rpartition("/")[0]
    return f"{folder}/{name}" if folder else name
