"""What decides checks, by its path: tests, what runners read, what interpreters run unasked, what stands in for code.

The contents of a manifest decide only in part: which part, `manifest` tells.
"""

import ast
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
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
    r"(^|[-_.])(check(s|er|all)?|verif(y|ier)|validat(e|or)|smoke|lint|ci|(run|self|all)?tests?(all|er)?|specs?|e2e"
    r"|assert|accept|acceptance|prove|proof|audit|judge|grader?)([-_.]|$)"
)
_WORD = re.compile(r"[^\s\"'`;|&()<>=]+")
_MODULE = re.compile(r"\s-[A-Za-z]*m\s*([A-Za-z_][\w.]*)")
_SHELLED = re.compile(r"(?:\b(?:ba|da|z|k)?sh|\bsource|(?:^|[\s;&|])\.)\s+(?:-[\w-]+\s+)*([\w./-]+)")
_LAUNCHED = re.compile(
    r"(?:\b(?:(?:ba|da|z|k)?sh|python[\d.]*|node|ruby|perl|source)\s+(?:-[\w-]+\s+)*(?:\./)?|(?<![\w./-])\./)([\w./-]+)"
    r"|(?:^[ \t]*[@+-]*|[;&|\"(]\s*)([\w.-]+/[\w./-]+)",
    re.MULTILINE,
)
_RULE = re.compile(r"^([\w-]+(?:[ \t]+[\w-]+)*)[ \t]*::?(?!=)((?:\\\n|[^\n])*)", re.MULTILINE)
_PHONY = re.compile(r"^\.PHONY[ \t]*:((?:\\\n|[^\n])*)", re.MULTILINE)
_ELSEWHERE = re.compile(r"\b(?:cd|pushd|chdir)\s|\s(?:-C|--prefix|--cwd|--directory)\b")
"""What has a command run in another folder than the top."""


class Outset:
    """What a repository was like before the work, as far as it tells what decides checks there."""

    def __init__(
        self,
        paths: Collection[str],
        commands: Sequence[str],
        *,
        tests: Collection[str] = (),
        targets: Collection[str] = (),
    ) -> None:
        """Take all `paths` of the base, the `commands` that judge the work, and the files that tests were seen in.

        `targets` are those of make that a file of their name would satisfy.
        """
        self.paths = paths
        self.commands = commands
        self.tests = tests
        self.targets = targets
        self._words = frozenset(_words(commands))
        self._loose = frozenset(_words(filter(_ELSEWHERE.search, commands)))
        self._modules = {place for command in commands for name in _MODULE.findall(command) for place in _places(name)}
        self._shelled = {posixpath.normpath(word) for command in commands for word in _SHELLED.findall(command)}

    @cached_property
    def said(self) -> frozenset[str]:
        """The words of all commands, without the folders before them."""
        return frozenset(word.rpartition("/")[2] for word in self._words)

    @cached_property
    def untested(self) -> bool:
        """Whether there is no test yet: then configuration cannot take anything from one."""
        return not self.tests and not any(is_test(path) for path in self.paths)

    def holds(self, path: str) -> bool:
        """Tell whether what was there at `path` is a test, by where it is or because a runner has found some in it."""
        return is_test(path) or path in self.tests

    def runs(self, program: str) -> bool:
        """Tell whether some command names `program`."""
        return program in self.said

    def judges(self, path: str) -> bool:
        """Tell whether some command runs what was there at `path`, and that is a judge by its name, or a shell script.

        What only runs the program, as `python main.py` does, is none.
        """
        *_, folder, name = ("", *path.casefold().split("/"))
        called = folder if name == "__main__.py" else name
        return self._names(path) and (_CHECKER.search(called) is not None or self._is_shell(path))

    def satisfies(self, path: str) -> bool:
        """Tell whether a new file, or a folder of it, would be there as a target: then `make` does nothing for it."""
        parts = path.split("/")
        places = ["/".join(parts[:length]) for length in range(1, len(parts) + 1) if parts[length - 1] in self.targets]
        return any(self._has_recipes(place) and not self._is_there(place) for place in places)

    def replaced(self, path: str) -> str | None:
        """Return the module that a command runs by its name, and would not any more with a new file; None for none."""
        if path not in self._modules:
            return None
        places = tuple(f"/{place}" for place in _places(path.removesuffix(".py").removesuffix("/__main__")))
        return next((each for each in sorted(self.paths) if each.endswith(places)), None)

    def _has_recipes(self, place: str) -> bool:
        return any(_beside(place, name) in self.folded for name in RECIPES["make"])

    @cached_property
    def folded(self) -> frozenset[str]:
        """All paths as they are where case does not count."""
        return frozenset(path.casefold() for path in self.paths)

    def _is_there(self, place: str) -> bool:
        return any(path == place or path.startswith(f"{place}/") for path in self.paths)

    def is_module(self, path: str) -> bool:
        """Tell whether a file is a module that some command runs by its name."""
        return any(path == place or path.endswith(f"/{place}") for place in self._modules)

    def _is_shell(self, path: str) -> bool:
        return path.endswith((".sh", ".bash")) or any(self._meant(path, word) for word in self._shelled)

    def _names(self, path: str) -> bool:
        """Tell whether some command names `path`, or the module that is in it, wherever modules are looked for."""
        return self.is_module(path) or any(self._meant(path, word) for word in self._words)

    def _meant(self, path: str, word: str) -> bool:
        """Tell whether a word of a command may stand for `path`: from the top, from a folder, or by its whole name."""
        whole = word.startswith(("/", "$", "~")) and word.endswith(f"/{path}")
        return whole or path == word or (word in self._loose and path.endswith(f"/{word}"))

    def follows(self, path: str) -> bool:
        """Tell whether some command does what is written in `path`, a file of recipes or a script."""
        name = path.rpartition("/")[2].casefold()
        if name == "package.json":
            return not SCRIPTING.isdisjoint(self.said)
        if any(name in names and self.runs(program) for program, names in RECIPES.items()):
            return True
        return ("." not in name or self._is_shell(path)) and self.judges(path)


def launched(path: str, text: str) -> tuple[str, ...]:
    """Return commands that run the scripts and modules of the repository which a recipe or script at `path` runs.

    One may be run from the top as well as from where it is, and from anywhere once the folder was changed.
    """
    before = "cd . && " if _ELSEWHERE.search(text) else ""
    shelled = _SHELLED.findall(text)
    others = [each for found in _LAUNCHED.findall(text) for each in found if each and each not in shelled]
    modules = [place for name in _MODULE.findall(text) for place in _places(name)]
    folders = dict.fromkeys((posixpath.dirname(path), ""))
    return tuple(
        f"{before}{shell}{posixpath.normpath(posixpath.join(folder, each))}"
        for shell, names in (("sh ", shelled), ("", [*others, *modules]))
        for each in names
        for folder in folders
    )


def unsatisfied(path: str, text: str, said: Collection[str]) -> frozenset[str]:
    """Return the targets of a recipe at `path` that a file of their name would satisfy: make's that are not phony.

    Those count that commands ask for, by the words they `said`, or the first; with what these are made of.
    """
    if path.rpartition("/")[2].casefold() not in RECIPES["make"]:
        return frozenset()
    rules = [(target, needs.split()) for names, needs in _RULE.findall(text) for target in names.split()]
    wanted = {target for target, _ in rules if target in said} or {target for target, _ in rules[:1]}
    while more := {each for target, needs in rules if target in wanted for each in needs} - wanted:
        wanted |= more
    phony = {word for found in _PHONY.findall(text) for word in found.split()}
    return frozenset(target for target, _ in rules if target in wanted) - phony


def decides(change: Change, outset: Outset) -> str | None:
    """Return in what way a change decides checks, as the end of a sentence that begins with its path; None if not."""
    name = change.path.rpartition("/")[2].casefold()
    if name == "conftest.py":
        return "decides how tests run"
    if change.kind != "A" and outset.holds(change.path):
        return "is an existing test, or its data"
    if change.kind == "A" and outset.satisfies(change.path):
        return "is a target of `make`, which would do nothing for it any more"
    if change.kind == "A" and (other := outset.replaced(change.path)):
        return f"is run in place of {other}"
    return (
        runs_unasked(change.path)
        or _configures(change, name, outset)
        or _judges(change, name, outset)
        or _vendored(change, outset)
    )


def precedes(change: Change, outset: Outset) -> str | None:
    """Return what a package's `__init__.py` is run before, if it is run before what checks the work; None if not.

    Of a folder of tests only a new one counts: that of another may not be changed anyway.
    """
    folder, _, name = change.path.rpartition("/")
    if name != "__init__.py" or not folder:
        return None
    inside = [path for path in outset.paths if path.startswith(f"{folder}/")]
    if change.kind == "A" and is_test(change.path) and any(map(is_test, inside)):
        return "the tests in its folder"
    return next((path for path in sorted(inside) if outset.is_module(path) and outset.judges(path)), None)


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


def _vendored(change: Change, outset: Outset) -> str | None:
    """Return why a file of what Go takes for a package of others decides: a package that is new there is welcome."""
    above, found, inner = f"/{change.path}".partition("/vendor/")
    top = above.removeprefix("/")
    if not found or (f"{top}/go.mod" if top else "go.mod") not in outset.paths:
        return None
    is_list = inner == "modules.txt"
    return "stands in for a package that tests may import" if (change.kind == "A") == is_list else None


def _judges(change: Change, name: str, outset: Outset) -> str | None:
    """Return why a file of recipes or a script is a judge of the work; one that is not there yet cannot be."""
    if name.endswith(".mk") and outset.runs("make") and change.kind != "A":
        return "is a part of what `make` does, which checks the work"
    for program, names in RECIPES.items():
        if name in names and outset.runs(program):
            others = {_beside(change.path, other) for other in names} - {change.path.casefold()}
            if change.kind != "A" or others & outset.folded:
                return f"says what `{program}` does, which checks the work"
    return "is run to check the work" if change.kind != "A" and outset.judges(change.path) else None


def _words(commands: Iterable[str]) -> Iterator[str]:
    return (posixpath.normpath(word) for command in commands for word in _WORD.findall(command))


def _places(module: str) -> tuple[str, str]:
    """Return where `python -m` finds a module, from the folder it is looked for in."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__main__.py"


def _beside(path: str, name: str) -> str:
    folder = path.casefold().rpartition("/")[0]
    return f"{folder}/{name}" if folder else name
