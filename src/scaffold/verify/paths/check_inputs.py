"""Recognise check inputs by path: tests, runner configuration, startup files of interpreters, check scripts.

Only parts of a manifest such as pyproject.toml are check inputs; `manifest` finds them.
"""

import ast
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import translate
from functools import cached_property

from scaffold.git.commits import PathChange
from scaffold.verify.paths.conventions import is_test
from scaffold.verify.paths.shadow import SCRIPT_SUFFIXES

CONFIG_FILES = (
    *("pytest.toml", ".pytest.toml", ".coveragerc", "jest.config.*", "jest.setup.*"),
    *("vitest.config.*", "vitest.workspace.*", "vitest.setup.*", "vite.config.*", ".mocharc*", "karma.conf.*"),
    *("playwright.config.*", "cypress.config.*", "ava.config.*", ".nycrc*", ".c8rc*", "babel.config.*", ".babelrc*"),
    *("setuptests.*", "setup-tests.*", "test-setup.*", "jest-setup.*", "vitest-setup.*", "setupjest.*", "build.rs"),
    *(".python-version", ".tool-versions", ".nvmrc", ".node-version", "mise.toml", ".mise*.toml", ".envrc", "uv.toml"),
    *(".swcrc", "rust-toolchain", "rust-toolchain.toml", "clippy.toml", ".clippy.toml", "go.work"),
    *(".golangci.*", "ruff.toml", ".ruff.toml", "mypy.ini", ".mypy.ini", ".flake8", ".pylintrc", "pylintrc"),
    *(".pylintrc.toml", "pyrightconfig.json", "tsconfig*.json", ".eslintrc*", "eslint.config.*", ".eslintignore"),
    *("jasmine.json", "jasmine.mjs", ".taprc", ".labrc.*", "bunfig.toml", "web-test-runner.config.*", ".istanbul.yml"),
    *("biome.json", "biome.jsonc", ".bandit", ".npmrc", ".yarnrc*", ".pnpmfile.cjs", "config.toml", "config"),
)
"""Names of files that configure or select test runners, linters, type checkers and builds; `config` and `config.toml`
count only in `.cargo`."""
CONFIG_FILE = re.compile("|".join(map(translate, CONFIG_FILES)))
"""Any of them. Compiled once for all forks of a process, each of which would else compile all of them one by one."""
STARTUP_MODULES = ("sitecustomize", "usercustomize")
"""Modules that every Python interpreter runs at startup."""
INSTALL_FOLDERS = frozenset({"node_modules", ".venv", "venv", "site-packages", "__pypackages__"})
"""Folders of installed packages."""
TASK_RUNNER_FILES = {
    "make": ("gnumakefile", "makefile"),
    "just": ("justfile", ".justfile"),
    "task": ("taskfile.yml", "taskfile.yaml", "taskfile.dist.yml", "taskfile.dist.yaml"),
    "nox": ("noxfile.py",),
    "rake": ("rakefile",),
}
"""Task runners and the names of their files, in lower case."""
PACKAGE_MANAGERS = frozenset({"npm", "pnpm", "yarn", "bun"})
"""Programs that run the scripts of a package.json."""

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
_ELSEWHERE = re.compile(r"\b(?:cd|pushd|chdir)\s|\s(?:-C|--prefix|--cwd|--directory)\b")
"""Marks a command that runs outside the top folder."""


class _Words:
    """Words of commands that may mean paths: relative to the top or another folder, or absolute."""

    def __init__(self, words: Iterable[str], loose: Collection[str]) -> None:
        """`loose` words may be relative to any folder."""
        self.all = frozenset(words)
        self._absolute = tuple(word for word in self.all if word.startswith(("/", "$", "~")))
        self._endings = tuple(f"/{word}" for word in self.all.intersection(loose))

    def mean(self, path: str) -> bool:
        """Return True if one of the words may mean `path`; asked of every path of a repository."""
        if path in self.all or path.endswith(self._endings):
            return True
        return bool(self._absolute) and any(word.endswith(f"/{path}") for word in self._absolute)


class BaseLayout:
    """The paths and commands of the base that determine which files are check inputs."""

    def __init__(
        self,
        paths: Collection[str],
        commands: Sequence[str],
        *,
        tests: Collection[str] = (),
        loaded: Collection[str] = (),
    ) -> None:
        """Take all `paths` of the base, the `commands` that judge the work, and the files in which `tests` were found.

        `loaded` are the files that options of commands and settings name.
        """
        self.paths = paths
        self.commands = commands
        self.tests = tests
        self.loaded = loaded
        # A command that changes its folder may mean any path that ends like one of its words.
        loose = frozenset(_command_words(filter(_ELSEWHERE.search, commands)))
        self._words = _Words(_command_words(commands), loose)
        self._modules = {
            path for command in commands for name in _MODULE.findall(command) for path in _module_paths(name)
        }
        shelled = (posixpath.normpath(word) for command in commands for word in _SHELLED.findall(command))
        self._shelled = _Words(shelled, loose)

    @cached_property
    def command_words(self) -> frozenset[str]:
        """The words of all commands, without leading folders."""
        return frozenset(word.rpartition("/")[2] for word in self._words.all)

    @cached_property
    def has_no_tests(self) -> bool:
        """True if the repository has no tests, so changed test configuration weakens nothing."""
        return not self.tests and not any(is_test(path) for path in self.paths)

    def is_base_test(self, path: str) -> bool:
        """Return True if `path` is a test by its name or folder, or because a runner found tests in it."""
        return is_test(path) or path in self.tests

    def runs(self, program: str) -> bool:
        """Return True if a command names `program`."""
        return program in self.command_words

    def is_checker(self, path: str) -> bool:
        """Return True if a command runs `path`, and it is named like a check or is a shell script.

        A command that only runs the program, such as `python main.py`, does not make it a checker.
        """
        if not self.names(path):
            return False
        *_, folder, name = ("", *path.casefold().split("/"))
        checker_name = folder if name == "__main__.py" else name
        # `python main.py` may run the program or its test, and refusing every
        # change of `main.py` would stop ordinary work.
        return _CHECKER.search(checker_name) is not None or self._is_shell(path)

    def has_scripts_to_test(self, folder: str) -> bool:
        """Return True if Node would load existing tests below the folder, `""` for the top."""
        prefix = f"{folder}/" if folder else ""
        tests = (path for path in self.paths if path.startswith(prefix) and self.is_base_test(path))
        return any(path.endswith(SCRIPT_SUFFIXES) for path in tests)

    def shadowed_module(self, path: str) -> str | None:
        """Return the existing module that a command would no longer run if `path` is added, or None."""
        if path not in self._modules:
            return None
        endings = tuple(f"/{each}" for each in _module_paths(path.removesuffix(".py").removesuffix("/__main__")))
        return next((each for each in sorted(self.paths) if each.endswith(endings)), None)

    @cached_property
    def folded(self) -> frozenset[str]:
        """All paths, casefolded."""
        return frozenset(path.casefold() for path in self.paths)

    def is_module(self, path: str) -> bool:
        """Return True if a command runs the file with `-m`."""
        return any(path == module or path.endswith(f"/{module}") for module in self._modules)

    def _is_shell(self, path: str) -> bool:
        return path.endswith((".sh", ".bash")) or self._shelled.mean(path)

    def names(self, path: str) -> bool:
        """Return True if a command names `path` or its module, whatever the import root."""
        return self.is_module(path) or self._words.mean(path)

    def is_executed(self, path: str) -> bool:
        """Return True if a command executes `path`, a task file or a script."""
        name = path.rpartition("/")[2].casefold()
        # Asked of every path of a repository.
        return name in self._executed_names or (("." not in name or self._is_shell(path)) and self.is_checker(path))

    @cached_property
    def _executed_names(self) -> frozenset[str]:
        names = {name for program, files in TASK_RUNNER_FILES.items() if self.runs(program) for name in files}
        return frozenset(names if PACKAGE_MANAGERS.isdisjoint(self.command_words) else {*names, "package.json"})


def launched_commands(path: str, text: str) -> tuple[str, ...]:
    """Return commands that run the repository's scripts and modules named in the task file or script at `path`.

    Names may be relative to the top or to the file's folder, or to any folder if the text changes the directory.
    """
    prefix = "cd . && " if _ELSEWHERE.search(text) else ""
    shelled = _SHELLED.findall(text)
    others = [each for found in _LAUNCHED.findall(text) for each in found if each and each not in shelled]
    modules = [module for name in _MODULE.findall(text) for module in _module_paths(name)]
    folders = dict.fromkeys((posixpath.dirname(path), ""))
    return tuple(
        f"{prefix}{shell}{posixpath.normpath(posixpath.join(folder, each))}"
        for shell, names in (("sh ", shelled), ("", [*others, *modules]))
        for each in names
        for folder in folders
    )


def requested_targets(text: str, words: Collection[str]) -> frozenset[str]:
    """Return the targets of a makefile that are named in `words`, or else the first, with their prerequisites."""
    rules = [(target, needs.split()) for names, needs in _RULE.findall(text) for target in names.split()]
    # Plain `make` makes the first target.
    requested = {target for target, _ in rules if target in words} or {target for target, _ in rules[:1]}
    while more := {each for target, needs in rules if target in requested for each in needs} - requested:
        requested |= more
    return frozenset(target for target, _ in rules if target in requested)


def check_input_reason(change: PathChange, layout: BaseLayout) -> str | None:
    """Return why the changed path is a check input, as the end of a sentence that begins with it, or None."""
    name = change.path.rpartition("/")[2].casefold()
    if name == "conftest.py":
        return "controls how tests run"
    # A new test guards nothing yet, so it may be changed; an existing one may be what fails on this work.
    if change.kind != "A" and layout.is_base_test(change.path):
        return "is an existing test or test data"
    if change.kind == "A" and (why := _new_file_reason(change.path, name, layout)):
        return why
    return (
        autorun_reason(change.path)
        or _config_reason(change, layout)
        or ("is loaded by what checks the work" if change.path in layout.loaded and change.kind != "A" else None)
        or checker_reason(change, layout)
        or _vendored_reason(change, layout)
    )


def _new_file_reason(path: str, name: str, layout: BaseLayout) -> str | None:
    """Return the effect of a new file that something reads or finds once it exists, or None."""
    if other := layout.shadowed_module(path):
        return f"runs instead of {other}"
    if name == "package.json" and layout.has_scripts_to_test(posixpath.dirname(path)):
        return "decides which package the existing tests in its folder belong to, and what they import by its name"
    return None


def imported_before(change: PathChange, layout: BaseLayout) -> str | None:
    """Return the checks that a changed `__init__.py` runs before, or None.

    In a folder of tests only a new `__init__.py` counts: an existing one is a check input already.
    """
    folder, _, name = change.path.rpartition("/")
    if name != "__init__.py" or not folder:
        return None
    inside = [path for path in layout.paths if path.startswith(f"{folder}/")]
    if change.kind == "A" and is_test(change.path) and any(map(is_test, inside)):
        return "the tests in its folder"
    return next((path for path in sorted(inside) if layout.is_module(path) and layout.is_checker(path)), None)


def is_inert(source: bytes) -> bool:
    """Return True if a module has no code except comments and constants."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return False
    return all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in body)


def autorun_reason(path: str) -> str | None:
    """Return how a file takes effect without being imported or named by a command, or None."""
    *folders, name = path.casefold().split("/")
    # As a module with any suffix, compiled ones included, or as a package.
    if name.split(".")[0] in STARTUP_MODULES or (folders and folders[-1] in STARTUP_MODULES) or name.endswith(".pth"):
        return "runs whenever a Python interpreter starts"
    if any(folder.endswith((".egg-info", ".dist-info")) for folder in folders):
        return "tells test runners which plugins to load"
    if not INSTALL_FOLDERS.isdisjoint((*folders, name)):
        return "is in a folder that is searched for installed packages"
    if name.endswith((".pyc", ".pyo")):
        return "is bytecode, which may run instead of its source"
    if name == ".env" or name.startswith(".env."):
        return "sets the environment of test runs"
    return None


def is_config_file(path: str) -> bool:
    """Return True if the file has a name by which runners, linters, type checkers or builds find their settings."""
    *_, folder, name = ("", *path.split("/"))
    name = name.casefold()
    if name in {"config", "config.toml"} and folder != ".cargo":
        return False
    return CONFIG_FILE.match(name) is not None


def _config_reason(change: PathChange, layout: BaseLayout) -> str | None:
    # jest replaces packages by the files in this folder at the top, without any setting.
    if change.path.startswith("__mocks__/"):
        return "replaces a package in every test"
    if not is_config_file(change.path):
        return None
    # In a repository without tests, a first configuration cannot disable any.
    if change.kind == "A" and layout.has_no_tests:
        return None
    return "configures how the work is checked"


def _vendored_reason(change: PathChange, layout: BaseLayout) -> str | None:
    # A new package is allowed, but changed, deleted and listed ones affect checks.
    above, found, inner = f"/{change.path}".partition("/vendor/")
    top = above.removeprefix("/")
    if not found or (f"{top}/go.mod" if top else "go.mod") not in layout.paths:
        return None
    is_list = inner == "modules.txt"
    # Changed or deleted packages count, and a new list of them, which makes Go use the folder in the first place.
    return "replaces a package that tests may import" if (change.kind == "A") == is_list else None


def checker_reason(change: PathChange, layout: BaseLayout) -> str | None:
    """Return why a task file or script affects checks, or None, as for most new files."""
    name = change.path.rpartition("/")[2].casefold()
    if name.endswith(".mk") and layout.runs("make") and change.kind != "A":
        return "is included by `make`, which checks the work"
    for program, names in TASK_RUNNER_FILES.items():
        if name in names and layout.runs(program):
            others = {posixpath.join(posixpath.dirname(change.path.casefold()), other) for other in names} - {
                change.path.casefold()
            }
            # A new Makefile is harmless unless make now reads it instead of an existing one, such as GNUmakefile.
            if change.kind != "A" or others & layout.folded:
                return f"configures `{program}`, which checks the work"
    return "is used to check the work" if change.kind != "A" and layout.is_checker(change.path) else None


def _command_words(commands: Iterable[str]) -> Iterator[str]:
    return (posixpath.normpath(word) for command in commands for word in _WORD.findall(command))


def _module_paths(module: str) -> tuple[str, str]:
    """Return the two files that `python -m` may run for a module, relative to the import root."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__main__.py"
