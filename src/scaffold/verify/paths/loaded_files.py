"""Find the files that commands and configurations load by an option, and the tests that commands name.

A file named by `--require`, `--config` or `setupFiles` is never the program under test, so it is a check input whatever
its name. Only existing files count, so a word with another meaning names no file.
"""

import json
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from scaffold.plan.text.bounded import read_json
from scaffold.policy.path.globs import matches
from scaffold.verify.paths.check_inputs import CONFIG_FILE, INSTALL_FOLDERS, TASK_RUNNER_FILES, requested_targets
from scaffold.verify.paths.conventions import SOURCE_FOLDERS, is_test
from scaffold.verify.paths.manifest import JS_TOOLS, is_manifest

LOADING_OPTIONS = frozenset(
    {
        *("--require", "--import", "--loader", "--experimental-loader", "--preload", "--helper"),
        *("--config", "--config-file", "--rcfile", "--cov-config"),
        *("--setupFiles", "--setupFilesAfterEnv", "--globalSetup", "--globalTeardown"),
    }
)
"""Options of any program whose value is a file that it loads."""
SHORT_OPTIONS: Mapping[str, frozenset[str]] = {
    "-r": frozenset({"node", "mocha", "tape", "ts-node", "tsx", "nyc", "bun"}),
    "-c": frozenset(
        {"pytest", "py.test", "jest", "vitest", "eslint", "playwright", "golangci-lint", "bandit", "webpack"}
    ),
    "-p": frozenset({"pytest", "py.test", "tsc"}),
}
"""Short options with the programs for which their value is a file or module; `cp -r` and `mkdir -p` load nothing."""
SCRIPT_RUNNERS = frozenset(
    {
        *("mocha", "tape", "ava", "tap", "jasmine", "jest", "vitest", "lab", "uvu", "qunit", "nodeunit", "vows"),
        *("borp", "brittle", "pytest", "py.test", "unittest"),
    }
)
"""Test runners, whose arguments are tests; so are those after `node --test`, `bun test` and `deno test`."""
ROOT = "<rootDir>/"
"""The folder of its configuration, for jest."""
MAX_CONFIGURATIONS = 1000

MAX_NAMES = 10_000
"""How many file names the cache of `may_configure` holds."""
_WORD = re.compile(r"[^\s\"'`;|&()<>,][^\s\"'`;|&()<>]*")
_VARIABLE = re.compile(r"^[A-Za-z_]\w*=")
_PIECE = re.compile(r"&&|[;|&\n]")
_NAMED_SCRIPT_RUNNER = re.compile(r"(?:^|[-_.])(?:run)?(?:tests?|specs?|checks|e2e)(?:er|all)?(?:[-_.]|$)")
_OTHER_VALUE = re.compile(
    r"include|exclude|ignore|cover|watch|elated|report|root|cwd|config|require|import|loader|package|project|output|env|cache"
)
"""Parts of the names of options whose value is not a test."""
_BRACES = re.compile(r"\{[^}]*\}")
_SUFFIXES = ("", ".js", ".cjs", ".mjs", ".ts", ".json", "/index.js", "/index.ts")
FILE_ONLY = ("",)
_KEYS = (
    "setupFiles(?:AfterEnv)?|setupTestFrameworkScriptFile|global(?:Setup|Teardown)|requires?|helpers|preload|extends?"
)
_SETTING = (
    r"(?:^|[{{,])[ \t]*[\"']?(?:{keys})[\"']?[ \t]*[:=][ \t]*"
    r"(\[[^\]]*\]|[\"'][^\"'\n]*[\"']|\n(?:[ \t]*-[ \t][^\n]*\n?)+|[^\n}}]*)"
)
_SETTINGS = re.compile(_SETTING.format(keys=_KEYS), re.MULTILINE)
_MOCHA_SETTINGS = re.compile(_SETTING.format(keys=f"{_KEYS}|file|import"), re.MULTILINE)
"""In other configurations `file` is anything: `readme = {file = "README.md"}`."""
_ADDED_OPTIONS = re.compile(
    r"(?<![\w.-])[\"']?addopts[\"']?[ \t]*=[ \t]*"
    r"(\[[^\]]*\]|\"\"\".*?\"\"\"|'''.*?'''|[^\n]*(?:\n[ \t]+[^\n]+)*)",
    re.DOTALL,
)
_VALUE = re.compile(r"[\"']([^\"'\n]+)[\"']")
_RULE = re.compile(r"^([\w-]+(?:[ \t]+[\w-]+)*)[ \t]*[^:=\n]*:(?![=:])[^\n]*\n((?:[ \t]+[^\n]*\n?|\n)*)", re.MULTILINE)


class NamedFiles(Struct, frozen=True, kw_only=True):
    """Files of a repository that its checks name."""

    loaded: frozenset[str] = frozenset()
    """Files that a program loads by an option."""
    tests: frozenset[str] = frozenset()
    """Files that are arguments of a test runner."""


def files_named_by(folder: str, command: str, paths: Collection[str]) -> NamedFiles:
    """Return the files among `paths` that a command, run in a folder (`""` for the top), loads and tests."""
    loaded, tests = set[str](), set[str]()
    for piece in _PIECE.split(command.replace("\\\n", " ").replace(ROOT, "")):
        # In `NODE_OPTIONS=--require ./x` the option follows the name of the variable.
        words = [_VARIABLE.sub("", word) for word in _WORD.findall(piece)]
        loaded.update(_loaded_by_options(folder, words, paths))
        tests.update(_named_tests(folder, words, paths))
    # Of a manifest, as in `--config pyproject.toml`, only the parts that decide checks count.
    return NamedFiles(
        loaded=frozenset(each for each in loaded if not is_manifest(each)),
        tests=frozenset(each for each in tests if not is_manifest(each)),
    )


def reached_commands(path: str, text: str, words: Collection[str]) -> tuple[str, ...]:
    """Return the commands in the task file or script at `path` that run if a command has the `words`.

    Of a package.json these are the scripts that are named, with those that they name; of a makefile the recipes.
    """
    name = path.rpartition("/")[2].casefold()
    if name == "package.json":
        return tuple(_reached_scripts(text, words))
    if name in (*TASK_RUNNER_FILES["make"], *TASK_RUNNER_FILES["just"]):
        requested = requested_targets(text, words)
        recipes = _RULE.findall(text)
        return tuple(recipe for targets, recipe in recipes if not requested.isdisjoint(targets.split()))
    # A file for `task` also starts programs for other purposes than checks.
    return () if name in TASK_RUNNER_FILES["task"] else (text,)


_TASK_FILES = frozenset(name for names in TASK_RUNNER_FILES.values() for name in names)


@lru_cache(MAX_NAMES)
def _may_configure(name: str) -> bool:
    # Cached, because it is asked of every path, again and again.
    return is_manifest(name) or CONFIG_FILE.match(name.casefold()) is not None


def is_configuration(path: str) -> bool:
    """Return True if the file may name others that checks load."""
    if not _may_configure(path.rpartition("/")[2]):
        return False
    *folders, name = path.casefold().split("/")
    # A config.toml may belong to the program; cargo's names no such files.
    return INSTALL_FOLDERS.isdisjoint(folders) and name not in {"setup.py", "config", "config.toml"}


def says_commands(path: str) -> bool:
    """Return True if the file may say what a command does: settings of its program, tasks of a task runner."""
    return is_configuration(path) or path.rpartition("/")[2].casefold() in _TASK_FILES


def files_configured_by(path: str, text: str, paths: Collection[str]) -> frozenset[str]:
    """Return the files among `paths` that a configuration has a tool load."""
    folder = posixpath.dirname(path)
    if path.rpartition("/")[2] == "package.json":
        data = _as_mapping(_parse_json(text))
        text = json.dumps({key: data[key] for key in JS_TOOLS if key in data})
    settings = _MOCHA_SETTINGS if path.rpartition("/")[2].startswith(".mocharc") else _SETTINGS
    # The values of a setting are its quoted texts, or without any its words.
    values = [
        value
        for found in settings.findall(text)
        for value in _VALUE.findall(found) or (word for word in _WORD.findall(found) if word != "-")
    ]
    loaded = {found for value in values if (found := _resolve_file(folder, value, paths))}
    for options in _ADDED_OPTIONS.findall(text):
        loaded |= files_named_by(folder, f"pytest {' '.join(options.split())}", paths).loaded
    return frozenset(loaded)


def _reached_scripts(text: str, words: Collection[str]) -> Iterator[str]:
    scripts = _as_mapping(_as_mapping(_parse_json(text)).get("scripts"))
    asked, reached = set(words), set[str]()
    while more := {name for name in scripts if _is_asked(name, asked)} - reached:
        reached |= more
        asked.update(word for name in more for word in _WORD.findall(str(scripts[name])))
    yield from (str(scripts[name]) for name in sorted(reached))


def _is_asked(script: str, words: Collection[str]) -> bool:
    """Return True if one of the words names a script, as `test` or `test:*`, or what it is a hook of."""
    names = {script, re.sub(r"^(?:pre|post)", "", script)}
    return any(fnmatchcase(name, word) for name in names for word in words if word.strip("*"))


def _loaded_by_options(folder: str, words: Sequence[str], paths: Collection[str]) -> Iterator[str]:
    programs: set[str] = set()
    for at, word in enumerate(words):
        option, _, value = word.partition("=")
        value = value or (words[at + 1] if at + 1 < len(words) else "")
        short = word[:2]
        if option in LOADING_OPTIONS:
            yield from filter(None, [_resolve_file(folder, each, paths) for each in value.split(",")])
        elif short in SHORT_OPTIONS and not programs.isdisjoint(SHORT_OPTIONS[short]):
            value = word[2:].removeprefix("=") or value
            if short == "-p" and not programs.isdisjoint({"pytest", "py.test"}):  # their `-p` names a module
                inner = value.replace(".", "/")
                endings = (f"{inner}.py", f"{inner}/__init__.py")
                yield from (path for path in paths for end in endings if path == end or path.endswith(f"/{end}"))
            yield from filter(
                None, [_resolve_file(folder, value, paths, suffixes=FILE_ONLY if short == "-p" else _SUFFIXES)]
            )
        programs.add(_program_name(word))


def _named_tests(folder: str, words: Sequence[str], paths: Collection[str]) -> Iterator[str]:
    start = next((at for at in range(len(words)) if _starts_runner(words, at)), None)
    own = next((at for at in range(len(words)) if _starts_own_runner(folder, words, at, paths)), None)
    first = own if start is None else start
    for at in range(len(words) if first is None else first + 1, len(words)):
        word, before = words[at], words[at - 1]
        valued = before.startswith("-") and "=" not in before and _OTHER_VALUE.search(before)
        if word.startswith("-") or valued:
            continue
        if "*" in word:
            globs = {posixpath.normpath(posixpath.join(each, _BRACES.sub("*", word))) for each in (folder, "")}
            found = [path for path in paths if any(matches(glob, path) for glob in globs)]
            # A script of the project may also take the program as an argument.
            yield from (path for path in found if start is not None or SOURCE_FOLDERS.isdisjoint(path.split("/")))
        elif start is not None:
            yield from filter(None, [_resolve_file(folder, word, paths, suffixes=FILE_ONLY)])


def _starts_runner(words: Sequence[str], at: int) -> bool:
    word, before = words[at], {_program_name(each) for each in words[:at]}
    if word == "--test":
        return "node" in before
    if word == "test":
        return not before.isdisjoint({"bun", "deno"})
    named = at == 0 or not words[at - 1].startswith("-") or words[at - 1] == "-m"
    # `lib/tap.js` may be the program; the runner itself is installed.
    plain = "/" not in word or "node_modules/" in word
    return named and plain and _program_name(word) in SCRIPT_RUNNERS


def _starts_own_runner(folder: str, words: Sequence[str], at: int, paths: Collection[str]) -> bool:
    """Return True if a word is a script of the repository that Node runs and whose name says that it tests."""
    if at == 0 or _program_name(words[0]) != "node":
        return False
    script = _resolve_file(folder, words[at], paths, suffixes=FILE_ONLY)
    return script is not None and (is_test(script) or _NAMED_SCRIPT_RUNNER.search(_program_name(script)) is not None)


def _program_name(word: str) -> str:
    """Return the name of the program that a word may be: `mocha` for `./node_modules/mocha/bin/_mocha.js`."""
    return re.sub(r"\.[cm]?js$", "", word.rpartition("/")[2]).removeprefix("_")


def _resolve_file(folder: str, word: str, paths: Collection[str], *, suffixes: Sequence[str] = _SUFFIXES) -> str | None:
    inner = word.removeprefix(ROOT)
    # A folder of the command, as in `tsc -p .` and `node -r .`, holds the program.
    if not inner.strip("./"):
        return None
    names = (posixpath.normpath(posixpath.join(each, inner)) for each in (folder, ""))
    return next((f"{name}{end}" for name in names for end in suffixes if f"{name}{end}" in paths), None)


def _parse_json(text: str) -> object:
    try:
        return read_json(text)
    except ValueError:
        return None


def _as_mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
