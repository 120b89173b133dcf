"""Decide a session's shell commands with a parser, git's configuration and the given rules.

Also suggest patterns for rules, and find the script files that a command runs: an approval holds for their contents,
not only for their names.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from scaffold.core.errors import GitError
from scaffold.git.repository_config import RepositoryConfig
from scaffold.policy.rule.ruleset import PolicyDecision
from scaffold.policy.rule.tool_rules import Rule, format_pattern
from scaffold.policy.shell.command_decision import decide_command, decide_parsed, visible_commands
from scaffold.policy.shell.command_parts import INSTALLERS, command_parts, part_lines
from scaffold.policy.shell.denial import PRINT_BUILTINS, WRITERS
from scaffold.policy.shell.parse.command_parser import CommandParser, ParserMissing, installed_parser
from scaffold.policy.shell.parsed_command import ParsedCommand, ParseResult, SimpleCommand, UnparsedCommand, Word
from scaffold.policy.shell.reading.nested_commands import limited_command
from scaffold.policy.shell.reading.readonly_commands import READ_ONLY_COMMANDS
from scaffold.policy.shell.risky_flags import RISKY_FLAGS, RUNNERS, has_flag_list
from scaffold.policy.shell.workspace_paths import DecisionContext, WorkspacePaths, path_candidates
from scaffold.policy.shell.wrappers import (
    INTERPRETERS,
    LAUNCH_SUBCOMMANDS,
    LAUNCHERS,
    WRAPPERS,
    inner_commands,
    module_files,
    program_name,
    runs_script,
)

BY_SUBCOMMAND = frozenset({
    *("git", "cargo", "go", "npm", "yarn", "pnpm", "uv", "poetry", "ruff", "make", "gmake", "just", "rake"),
})  # fmt: skip
"""Programs whose second word is a subcommand."""
BY_NAME = frozenset({
    *("pytest", "mypy", "flake8", "pylint", "black", "isort", "pyright", "eslint", "prettier", "tsc", "jest", "vitest"),
    *("mocha", "rspec", "phpunit", "ctest", "shellcheck", "yamllint", "markdownlint", "rubocop", "gofmt", "rustfmt"),
    "unittest",
})  # fmt: skip
"""Programs with one purpose, unless a risky flag changes it."""

_GIT = frozenset({
    *("add", "am", "apply", "archive", "blame", "branch", "checkout", "cherry-pick", "clone", "commit", "describe"),
    *("diff", "fetch", "format-patch", "init", "log", "ls-files", "ls-remote", "merge", "mv", "notes", "pull", "push"),
    *("rebase", "remote", "reset", "restore", "revert", "rm", "show", "stash", "status", "switch", "tag", "worktree"),
})  # fmt: skip
"""Git's own subcommands that a rule may name; any other word may be an alias, which may run anything."""
_SCRIPTS = frozenset({"run", "run-script"})
"""Subcommands that run what the next word names in the project itself, or what stands behind them as a command."""
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_.-]*")
MAX_DEPTH = 4
_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_BUILD_FILES = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "npx", "yarn", "pnpm", "bun"), ("package.json",)),
    **dict.fromkeys(("docker", "podman"), ("Dockerfile", "Containerfile", *_COMPOSE)),
    **dict.fromkeys(("docker-compose", "podman-compose"), _COMPOSE),
    **dict.fromkeys(("uv", "poetry", "pdm", "hatch", "rye", "pip"), ("pyproject.toml", "setup.py")),
    **dict.fromkeys(("gradle", "gradlew"), ("build.gradle", "build.gradle.kts", "settings.gradle")),
    **dict.fromkeys(("mvn", "mvnw"), ("pom.xml",)),
    "pipenv": ("Pipfile",),
    "cargo": ("Cargo.toml", "build.rs"),
    "cmake": ("CMakeLists.txt",),
    "composer": ("composer.json",),
    "deno": ("deno.json",),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "just": ("justfile", "Justfile", ".justfile"),
    "rake": ("Rakefile", "rakefile"),
    "tox": ("tox.ini", "pyproject.toml"),
    "nox": ("noxfile.py",),
}
"""Files that these programs run although no argument names them."""

_ONLY_DATA = frozenset(READ_ONLY_COMMANDS) | WRITERS | PRINT_BUILTINS | {"cd"}
"""Programs that do not run files named by their arguments. Any other program may."""


class ShellCommandPolicy:
    """Decides shell commands. Implements `policy.permission.call_decision.ShellPolicy`."""

    def __init__(self, environ: Mapping[str, str] | None = None, *, parser: Path | None = None) -> None:
        """Decide for the environment `environ`, by default our own; `parser` is the path of shfmt."""
        environ = os.environ if environ is None else environ
        bash = shutil.which("bash", path=environ.get("PATH")) is not None
        self._parser = CommandParser(parser or installed_parser(), bash=bash)
        self._settings = RepositoryConfig(environ)

    async def judge(self, command: str, context: DecisionContext) -> PolicyDecision:
        """Return the decision about a command, before mode and category; `ask` if git or shfmt fails."""
        try:
            return await decide_command(command, await self._with_settings(command, context), self._parser)
        except GitError as failure:
            # Without the settings nothing can be allowed, but what is denied needs none of them.
            denied = decide_parsed(self._parser.parse_first(command), context)
            asked = PolicyDecision("ask", "git", f"the git config of this repository cannot be read: {failure.what}")
            return denied if denied.decision == "deny" else asked
        except ParserMissing as missing:
            return PolicyDecision("ask", "shell", f"its effects are unknown: {missing.what}")

    async def suggest_pattern(self, command: str, context: DecisionContext) -> str | None:
        """Return a pattern that would allow this command and others like it; None if only its whole text could."""
        try:
            extended = await self._with_settings(command, context)
            parsed = await self._parser.read(command)
        except (GitError, ParserMissing):
            return None
        pattern = suggest_pattern(parsed, lambda simple: _is_read_only(simple, extended))
        if pattern is None:
            return None
        with_rule = msgspec.structs.replace(extended, allow=(*extended.allow, Rule("*", pattern)))
        # A suggestion that would not cover this very command, because of a path or a risky flag, is useless.
        return pattern if decide_parsed(parsed, with_rule).decision == "allow" else None

    async def parts(self, command: str, context: DecisionContext) -> Sequence[str]:
        """Return lines about the parts of a command, the most dangerous first; empty if it has only one."""
        extended = msgspec.structs.replace(context, allow=())
        with contextlib.suppress(GitError):  # then what git would do is not known to be harmless
            extended = await self._with_settings(command, extended)
        return part_lines(command_parts(command, context.workspace, lambda simple: _is_read_only(simple, extended)))

    def scripts(self, command: str, workspace: WorkspacePaths) -> tuple[tuple[str, str], ...]:
        """Return (name, digest) of each script file that a command runs."""
        return script_digests(command, workspace)

    async def _with_settings(self, command: str, context: DecisionContext) -> DecisionContext:
        # Reading the settings runs git, which most commands do not need.
        if "git" not in command:
            return context
        settings = await self._settings.program_settings(Path(context.workspace.root))
        return msgspec.structs.replace(context, settings=settings)


def _is_read_only(simple: SimpleCommand, context: DecisionContext) -> bool:
    alone = msgspec.structs.replace(simple, link="")
    return decide_parsed(ParsedCommand((alone,)), msgspec.structs.replace(context, allow=())).decision == "allow"


def suggest_pattern(parsed: ParseResult, read_only: Callable[[SimpleCommand], bool]) -> str | None:
    """Return the pattern of a rule for this and similar commands; None if there is no suitable one.

    All simple commands but one must only read, because a rule covers one program.
    """
    if isinstance(parsed, UnparsedCommand):
        return None
    active = [simple for simple in parsed.commands if not read_only(simple)]
    if len(active) != 1 or not active[0].words:
        return None
    run = limited_command(active[0].words) or active[0].words
    words = _rule_words(tuple(word.text if word.literal else "" for word in run))
    # Without a list of its risky flags, no first words say what a program does.
    return format_pattern(words) if words and has_flag_list(words) else None


def _rule_words(texts: tuple[str, ...]) -> tuple[str, ...]:
    name, second, third = (*texts, "", "")[:3]
    # `./pytest` or `/tmp/git` are other programs than the rule would name.
    if "/" in name:
        return ()
    if name in BY_NAME:
        return (name,)
    if re.fullmatch(r"python[\d.]*", name) and second == "-m" and third in BY_NAME:
        return (name, second, third)
    if name not in BY_SUBCOMMAND or not _SUBCOMMAND.fullmatch(second) or _is_open_ended(name, second):
        return ()
    if name not in LAUNCHERS or second not in _SCRIPTS:
        return (name, second)
    # `npm run` alone would allow every script; what `uv run` starts is a command of its own.
    names_script = third and not (third.startswith("-") or _runs_anything(third))
    named = _rule_words(texts[2:]) if name in RUNNERS else (third,) if names_script else ()
    return (name, second, *named) if named else ()


def _is_open_ended(name: str, second: str) -> bool:
    """Return whether a subcommand runs whatever its arguments name: packages that it installs, programs, hooks."""
    launches = name in LAUNCHERS and second in LAUNCH_SUBCOMMANDS - _SCRIPTS
    launches = launches or (name == "git" and second not in _GIT)
    return launches or _runs_anything(second) or second in (*INSTALLERS.get(name, ()), *RISKY_FLAGS[name].words.split())


def _runs_anything(word: str) -> bool:
    return word in INTERPRETERS or word in WRAPPERS or runs_script(word)


def script_digests(command: str, workspace: WorkspacePaths) -> tuple[tuple[str, str], ...]:
    """Return (name, digest) of each existing file that a command runs as a script, sorted by name."""
    folders = {workspace.root}
    found: dict[str, str] = {}
    commands = visible_commands(command)
    # `cat x.sh | sh` runs what another command of the line names.
    fed = any(_runs_code(simple) for simple in commands)
    for simple in commands:
        words = simple.words
        if len(words) == 2 and words[0].text == "cd":
            folders |= set(workspace.reached(words[1].text, frozenset(folders), tilde=words[1].tilde))
        for word in (*_script_words(simple, 0), *(_candidate_files(simple) if fed else ())):
            for path in workspace.reached(word.text, frozenset(folders), tilde=word.tilde):
                if digest := workspace.files.digest(path):
                    found[workspace.within(path)] = digest
    return tuple(sorted(found.items()))


def _script_words(simple: SimpleCommand, depth: int) -> Iterator[Word]:
    # Most of these words do not name a file.
    if not simple.words or depth > MAX_DEPTH:
        return
    program = simple.words[0]
    name = program_name(program)
    if "/" in program.text:
        yield program
    if _runs_code(simple):
        for word in _candidate_files(simple):
            yield word
            yield from map(Word, module_files(word.text))
            yield from (Word(f"{word.text}/{file}", tilde=word.tilde) for file in _BUILD_FILES.get(name, ()))
    yield from map(Word, _BUILD_FILES.get(name, ()))
    for inner in inner_commands(simple):
        for each in (inner,) if isinstance(inner, SimpleCommand) else visible_commands(inner):
            yield from _script_words(each, depth + 1)


def _runs_code(simple: SimpleCommand) -> bool:
    return bool(simple.words) and program_name(simple.words[0]) not in _ONLY_DATA


def _candidate_files(simple: SimpleCommand) -> Iterator[Word]:
    """Yield all words that may be files to read: arguments, values of flags and variables, redirected input."""
    read = (each.target for each in simple.redirects if not each.is_text and (not each.writes or each.operator == "<>"))
    given = (*simple.words[1:], *read)
    for word in (*given, *(Word(value, tilde=value.startswith("~/")) for _, value in simple.assignments)):
        yield from path_candidates(word)
