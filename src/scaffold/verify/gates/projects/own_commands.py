"""Read which commands a project itself runs for its checks: in tox, nox, pre-commit, makefiles, scripts and CI.

Each file is read with the parser of its format, and each command by the shell parser. Nothing of it is run.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from msgspec import Struct, structs

from scaffold.plan.text.bounded import read_ini
from scaffold.policy.shell.parsed_command import SimpleCommand
from scaffold.verify.gates.projects.noxfile import session_calls
from scaffold.verify.gates.projects.project import ProjectKind, Reason
from scaffold.verify.gates.projects.project_files import (
    CI_FILES,
    RECIPE_FILES,
    WORKFLOWS,
    ProjectFiles,
    as_table,
    as_texts,
    is_script,
)
from scaffold.verify.gates.projects.recipe_files import FAILURE_IGNORED, MAX_LINE_CHARS, MAX_VALUE_CHARS, read_recipes
from scaffold.verify.gates.runner_detection import ASSIGNED, PACKAGE_MANAGERS, script_name

MAX_COMMANDS = 1_000
MAX_NESTED_SCRIPTS = 3
MAX_REASON_WORDS = 20
MAX_SCRIPT_CHARS = 100_000
SHELLS = frozenset({"sh", "bash", "source", "."})
HOOKS: Mapping[str, str] = {
    "ruff": "ruff check",
    "ruff-check": "ruff check",
    "ruff-format": "ruff format",
    **{name: name for name in ("flake8", "pylint", "mypy", "pyright", "basedpyright", "eslint", "golangci-lint")},
    "golangci-lint-full": "golangci-lint run",
    "clippy": "cargo clippy",
    "cargo-check": "cargo check",
    "go-vet": "go vet",
}
"""Hooks of pre-commit by id, and the command that they run."""
ACTIONS: Mapping[str, str] = {
    "golangci/golangci-lint-action": "golangci-lint run",
    "astral-sh/ruff-action": "ruff check",
    "chartboost/ruff-action": "ruff check",
    "jakebailey/pyright-action": "pyright",
}
"""Actions of GitHub, and the command that they run."""
LAUNCHERS: Mapping[tuple[str, ...], frozenset[str]] = {
    ("uv", "run"): frozenset({"--with", "--group", "--only-group", "--extra", "--python", "-p", "--package"}),
    ("poetry", "run"): frozenset(),
    ("pdm", "run"): frozenset({"-p"}),
    ("pipenv", "run"): frozenset(),
    ("hatch", "run"): frozenset(),
    ("rye", "run"): frozenset(),
    ("pipx", "run"): frozenset({"--spec", "--python"}),
    ("uvx",): frozenset({"--with", "--from", "--python", "-p"}),
    ("npx",): frozenset({"-p", "--package"}),
    ("pnpm", "exec"): frozenset(),
    ("yarn", "exec"): frozenset(),
    ("bunx",): frozenset(),
    ("cross-env",): frozenset(),
    ("env",): frozenset({"-u", "-C"}),
    ("c8",): frozenset(),
    ("nyc",): frozenset(),
    ("coverage", "run"): frozenset({"--source", "--rcfile", "--data-file", "--context", "--include", "--omit"}),
}
"""Programs that start the program after them, and their options that take a value."""

TEST_PROGRAMS: Mapping[str, ProjectKind] = {
    **dict.fromkeys(("go test", "gotestsum"), "go"),
    **dict.fromkeys(("cargo test", "cargo nextest"), "rust"),
    **dict.fromkeys(("pytest", "py.test", "unittest", "tox", "nox"), "python"),
}
"""Programs that run the tests of one kind of project."""

# Each of these reads a character in one way only: texts of a repository may be made so that others never end.
# Groups that repeat are atomic, not possessive: before 3.11.5, Python's `re` loses matches of the latter (gh-106052).
_FACTORS = re.compile(r"^(?>(?:[!\w.{},-]|(?<=,) ++(?=[!\w.{},-]))+):\s+")
_EXPRESSION = re.compile(r"\$\{\{(?>(?:(?!\}\}|\$\{\{).)*)\}\}", re.DOTALL)
_TOX_NAME = re.compile(r"\{(?P<name>posargs|env:\w+)(?::(?P<default>[^{}]*))?\}")
_SECTION_KEY = re.compile(r"\{\[(?P<section>[^\]{}]+)\](?P<key>\w+)\}")
_SHELL_VALUE = re.compile(
    r"^[ \t]*+(?:export[ \t]++)?(?P<name>\w++)=(?P<quote>[\"']?)(?P<value>[\w ./-]*+)(?P=quote)[ \t]*+$", re.MULTILINE
)
_SHELL_NAME = re.compile(r"\$\{?(\w+)\}?")
_PYTHON = re.compile(r"(python|pypy)[\d.]*|py")


IniSections = Mapping[str, Mapping[str, str]]


class OwnCommand(Struct, frozen=True):
    """A command that the project runs, without the programs that only start it."""

    words: tuple[str, ...]
    source: str
    """The file in which it is written."""
    exact: bool = True
    """Whether it is a single program with exactly these words, run at the top."""
    written: tuple[str, ...] = ()
    """The words as the file has them, launchers included; empty if they are the same."""

    below: str = ""
    """A text in the file below which the command is written; empty for the whole file."""

    def reason(self, files: ProjectFiles) -> Reason:
        """Return the file and the first line with the program and most of the words."""
        said = self.written or self.words
        program = self.words[0] if self.words[0] in said else said[0]
        words = (program.rpartition("/")[2], *said)
        text = files.text(self.source)
        shapes = [re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])") for word in words[:MAX_REASON_WORDS]]
        start = text.count("\n", 0, max(0, text.find(self.below)))
        best, most = None, 0
        for number, line in enumerate(text.splitlines()[start:], start=start + 1):
            found = sum(bool(shape.search(line)) for shape in shapes)
            if found > most and shapes[0].search(line) and not line.lstrip().startswith("#"):
                best, most = number, found
        return Reason(self.source, f"runs `{' '.join(said)}`", best)


def own_commands(files: ProjectFiles) -> tuple[OwnCommand, ...]:
    """Return the commands that the project's own set-up runs, the most deliberate source first; none below the top."""
    if files.folder:
        return ()
    known: tuple[OwnCommand, ...] | None = files.state.commands
    if known is None:
        commands = (command for read in READERS for command in read(files))
        found = (each for own in commands for each in (own, *_script_commands(own, files, MAX_NESTED_SCRIPTS)))
        known = files.state.commands = tuple(islice(found, MAX_COMMANDS))
    return known


def tests_run_by_kind(commands: Sequence[OwnCommand]) -> Counter[ProjectKind]:
    """Count how often the project's own set-up runs the tests of each kind of project."""
    found = Counter[ProjectKind]()
    for command in commands:
        program = program_key(command.words)
        if program in PACKAGE_MANAGERS:
            # Scripts of package.json that call each other do not count against other languages.
            script = script_name(command.words) or ""
            found["node"] += command.source != "package.json" and script.startswith("test")
        elif kind := TEST_PROGRAMS.get(program):
            found[kind] += 1
    return found


def program_key(words: Sequence[str]) -> str:
    """Return the key of what a command does: its program, with the subcommand if that matters."""
    program = words[0].rpartition("/")[2] if words else ""
    rest = [word for word in words[1:] if not word.startswith(("-", "+"))]
    if program in {"go", "cargo", "biome", "dprint", "taplo", "terraform", "mix"}:
        return " ".join((program, *rest[:1]))
    if program == "node" and "--test" in words:
        return "node --test"
    if program == "ruff" and rest[:1] and rest[0] in {"format", "clean", "rule", "config", "server"}:
        return f"ruff {rest[0]}"
    return program


def _tox_commands(files: ProjectFiles) -> Iterator[OwnCommand]:
    pyproject = as_table(as_table(files.toml("pyproject.toml").get("tool")).get("tox"))
    tables = {"tox.ini": files.ini("tox.ini"), "setup.cfg": files.ini("setup.cfg")}
    if isinstance(legacy := pyproject.get("legacy_tox_ini"), str):
        with suppress(ValueError):
            tables["pyproject.toml"] = read_ini(legacy)
    for source, sections in tables.items():
        for command in _tox_ini(sections, files, source):
            yield structs.replace(command, below="[testenv")
    for source, table in (("pyproject.toml", pyproject), ("tox.toml", files.toml("tox.toml"))):
        environments = (table.get("env_run_base"), *as_table(table.get("env")).values())
        for commands in (as_table(each).get("commands") for each in environments):
            for command in commands if isinstance(commands, list) else ():
                if isinstance(command, list) and (words := as_texts(command)):
                    users = sum(as_table(word).get("replace") == "posargs" for word in command)
                    own = _unwrap_launchers(words, source, exact=len(words) + users >= len(command))
                    yield structs.replace(own, below="[tool.tox" if source == "pyproject.toml" else "")


def _tox_ini(sections: IniSections, files: ProjectFiles, source: str) -> Iterator[OwnCommand]:
    for name, section in sections.items():
        if name.startswith("testenv"):
            lines = section.get("commands", "").replace("\\\n", " ").splitlines()
            for line in filter(None, map(str.strip, lines)):
                words = _tox_words(line[:MAX_LINE_CHARS], sections)
                if not words.startswith(FAILURE_IGNORED):
                    yield from shell_commands(words.lstrip("! "), files, source)


def _tox_words(line: str, sections: IniSections) -> str:
    """Return a line with the substitutions of tox replaced that mean the same in every environment."""
    line = _SECTION_KEY.sub(lambda found: sections.get(found["section"], {}).get(found["key"].lower(), found[0]), line)
    line = _FACTORS.sub("", line)
    line = _TOX_NAME.sub(lambda found: found["default"] or "", line)
    return line.replace("{envpython}", "python3").replace("{toxinidir}/", "").replace("{toxinidir}", ".")


def _nox_commands(files: ProjectFiles) -> Iterator[OwnCommand]:
    for call in session_calls(files.text("noxfile.py")):
        if call.method == "run":
            yield _unwrap_launchers(call.words, "noxfile.py", exact=call.complete)


def _project_scripts(files: ProjectFiles) -> Iterator[OwnCommand]:
    tools = as_table(files.toml("pyproject.toml").get("tool"))
    hatch = as_table(as_table(tools.get("hatch")).get("envs"))
    tables = [("pyproject.toml", as_table(each).get("scripts")) for each in hatch.values()]
    tables += [("pyproject.toml", as_table(tools.get(name)).get("scripts")) for name in ("pdm", "rye")]
    tables.append(("pyproject.toml", as_table(tools.get("poe")).get("tasks")))
    own = as_table(files.toml("hatch.toml").get("envs"))
    tables += [("hatch.toml", as_table(each).get("scripts")) for each in own.values()]
    for source, table in tables:
        for value in as_table(table).values():
            given = as_table(value)
            texts = [value, given.get("cmd"), given.get("shell"), *as_texts(value), *as_texts(given.get("chain"))]
            for text in texts:
                if isinstance(text, str):
                    filled = re.sub(r"\{args(?::([^{}]*))?\}", lambda found: found[1] or "", text)
                    for command in shell_commands(filled, files, source):
                        yield structs.replace(command, below=".scripts]" if ".scripts]" in files.text(source) else "")


def _node_scripts(files: ProjectFiles) -> Iterator[OwnCommand]:
    for text in as_table(files.json("package.json").get("scripts")).values():
        if isinstance(text, str):
            for command in shell_commands(text, files, "package.json"):
                yield structs.replace(command, below='"scripts"')


def _recipe_commands(files: ProjectFiles) -> Iterator[OwnCommand]:
    for name in RECIPE_FILES:
        for recipe in read_recipes(files, name).values():
            for command in recipe.commands:
                yield from shell_commands(command, files, name)


def _workflow_commands(files: ProjectFiles) -> Iterator[OwnCommand]:
    paths = (path for path in files.paths if path.startswith(f"{WORKFLOWS}/"))
    for path in sorted(path for path in paths if path.endswith((".yml", ".yaml"))):
        for job in as_table(files.yaml(path).get("jobs")).values():
            steps = as_table(job).get("steps")
            for step in map(as_table, steps if isinstance(steps, list) else ()):
                action, text = step.get("uses"), step.get("run")
                if isinstance(action, str) and (command := ACTIONS.get(action.partition("@")[0])):
                    yield OwnCommand(tuple(command.split()), path, exact=False, written=(action,))
                if isinstance(text, str) and step.get("continue-on-error") is not True:
                    here = step.get("working-directory") in {None, ".", "./"}
                    yield from (
                        each if here else structs.replace(each, exact=False)
                        for each in shell_commands(_EXPRESSION.sub("$VALUE", text), files, path)
                    )


def _script_commands(command: OwnCommand, files: ProjectFiles, most: int) -> Iterator[OwnCommand]:
    """Yield the commands of a shell script of the project that a command starts, and of those that it starts."""
    name = next((word for word in command.words[:2] if word not in SHELLS), "").removeprefix("./")
    text = files.text(name)[:MAX_SCRIPT_CHARS] if is_script(name) and most else ""
    if not text.startswith("#!") or "sh" in text.partition("\n")[0]:
        values = dict[str, str]()
        for found in _SHELL_VALUE.finditer(text):
            values.setdefault(found["name"], found["value"][:MAX_VALUE_CHARS])
        for each in shell_commands(_SHELL_NAME.sub(lambda found: values.get(found[1], found[0]), text), files, name):
            yield each
            yield from _script_commands(each, files, most - 1)


def _gitlab_commands(files: ProjectFiles) -> Iterator[OwnCommand]:
    for job in files.yaml(".gitlab-ci.yml").values():
        script = as_table(job).get("script")
        for text in (script,) if isinstance(script, str) else as_texts(script):
            yield from shell_commands(text, files, ".gitlab-ci.yml")


def _other_ci(files: ProjectFiles) -> Iterator[OwnCommand]:
    for path in CI_FILES:
        for text in _scripts_in(files.yaml(path)):
            for command in shell_commands(text, files, path):
                yield structs.replace(command, exact=False)


def _scripts_in(value: object) -> Iterator[str]:
    for each in value if isinstance(value, list) else ():
        yield from _scripts_in(each)
    for name, inner in as_table(value).items():
        if name in {"script", "run", "command", "bash"}:
            yield from (inner,) if isinstance(inner, str) else as_texts(inner)
        yield from _scripts_in(inner)


def _hook_commands(files: ProjectFiles) -> Iterator[OwnCommand]:
    name = ".pre-commit-config.yaml"
    repositories = files.yaml(name).get("repos")
    for repository in map(as_table, repositories if isinstance(repositories, list) else ()):
        hooks = repository.get("hooks")
        for hook in map(as_table, hooks if isinstance(hooks, list) else ()):
            known, entry = HOOKS.get(str(hook.get("id"))), hook.get("entry")
            if "manual" in as_texts(hook.get("stages")):
                continue
            # Hooks get the names of changed files, and have an environment of their own.
            if isinstance(entry, str):
                yield from (structs.replace(each, exact=False) for each in shell_commands(entry, files, name))
            elif known:
                yield OwnCommand(tuple(known.split()), name, exact=False, written=(str(hook.get("id")),))


READERS: Sequence[Callable[[ProjectFiles], Iterator[OwnCommand]]] = (
    *(
        _tox_commands,
        _nox_commands,
        _project_scripts,
        _node_scripts,
        _recipe_commands,
        _workflow_commands,
        _gitlab_commands,
        _other_ci,
        _hook_commands,
    ),
)


def shell_commands(text: str, files: ProjectFiles, source: str) -> Iterator[OwnCommand]:
    """Yield the programs that a shell text runs, except those whose failure is ignored."""
    for commands in files.shell(text, source):
        yield from _counted_commands(commands, source)


def _counted_commands(commands: Sequence[SimpleCommand], source: str) -> Iterator[OwnCommand]:
    for at, command in enumerate(commands):
        words = [word.text for word in command.words]
        following = commands[at + 1] if at + 1 < len(commands) else None
        otherwise = following.words if following is not None and following.link == "||" else ()
        ignored = bool(otherwise) and otherwise[0].text in {"true", ":", "echo"}
        if words and not ignored:
            is_literal = all(word.literal for word in command.words)
            is_plain = is_literal and not (command.assignments or command.redirects or command.in_loop)
            is_piped = command.link == "|" or (following is not None and following.link == "|")
            yield _unwrap_launchers(words, source, exact=is_plain and not is_piped)


def _unwrap_launchers(words: Sequence[str], source: str, *, exact: bool) -> OwnCommand:
    """Return the command without launchers such as `uv run`, and a module of Python as a program."""
    left = list(words)
    while left:
        inner = _started_program(left)
        if inner is None:
            break
        left = inner
    program = tuple(left or words)
    return OwnCommand(program, source, exact, written=() if program == tuple(words) else tuple(words))


def _started_program(words: list[str]) -> list[str] | None:
    """Return the words of the program that the first word launches; None if it is not a launcher."""
    if _PYTHON.fullmatch(words[0].rpartition("/")[2]):
        at = words.index("-m") if "-m" in words else 0
        runs_file = any(word.endswith(".py") or word == "-c" for word in words[1:at])
        return words[at + 1 :] if at and not runs_file else None
    for launcher, valued in LAUNCHERS.items():
        if tuple(words[: len(launcher)]) == launcher:
            rest = words[len(launcher) :]
            while rest and (ASSIGNED.fullmatch(rest[0]) or (rest[0].startswith("-") and rest[0] != "-m")):
                rest = rest[2 if rest[0] in valued else 1 :]
            return rest[1:] if rest[:1] == ["-m"] else rest
    return None
