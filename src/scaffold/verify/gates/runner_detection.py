"""Detect the test runner of a command from its words."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from scaffold.core.proof.gates import GateKind, RunnerKind

PACKAGE_MANAGERS = ("npm", "pnpm", "yarn", "bun")
MAX_COMMAND_CHARS = 8_000
PYTHON_PROGRAM = re.compile(r"python(\d(\.\d+)?)?")
UNITTEST_MODULE = re.compile(r"(?<=-m )unittest(?=\s|$)")

_JOINED = {";", "|", "||", "&", ">", ">>", "<", "(", ")", "|&", ";;"}
ASSIGNED = re.compile(r"\w+=.*", re.DOTALL)


def detect_runner(kind: GateKind, command: str, scripts: Mapping[str, RunnerKind]) -> RunnerKind:
    """Return the runner whose report to read; `scripts` maps the scripts of package.json to their runners.

    `exit` (only the exit code counts) if a command runs several programs or its own script.
    """
    if kind in {"lint", "typecheck"}:
        return "findings"
    words = program_words(command)
    if kind != "test" or not words:
        return "exit"
    names = [PurePosixPath(word).name for word in words]
    if (script := script_name(words)) is not None:
        return scripts.get(script, "exit")
    for runner, found in (("go", ["go", "test"]), ("cargo", ["cargo", "test"])):
        if [name for name in names[:3] if not name.startswith("+")][:2] == found:
            return runner  # type: ignore[return-value]
    if names[0] == "node" and "--test" in words:
        return "node"
    return _named_runner(names)


def program_words(command: str) -> tuple[str, ...]:
    """Return the words of the single program that a command runs, after any `cd`; empty if there is not exactly one."""
    # Options are appended to the command's text, which is right only if it is one program's.
    if len(command) > MAX_COMMAND_CHARS or "\n" in command or "`" in command or "$(" in command:
        return ()
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return ()
    parts: list[list[str]] = [[]]
    for word in words:
        if word in _JOINED:
            return ()
        if word == "&&":
            parts.append([])
        else:
            parts[-1].append(word)
    if any(part[:1] != ["cd"] for part in parts[:-1]):
        return ()
    last = parts[-1]
    while last and ASSIGNED.fullmatch(last[0]):
        last = last[1:]
    return tuple(last)


def _named_runner(names: Sequence[str]) -> RunnerKind:
    """Return the runner among the words: the program itself, the module of `python -m`, or the argument of `uv run`."""
    for at, name in enumerate(names):
        if name in {"pytest", "py.test"}:
            return "pytest"
        if name == "unittest" and names[at - 1] == "-m" and PYTHON_PROGRAM.fullmatch(names[at - 2] if at > 1 else ""):
            return "unittest"
        if name in {"jest", "vitest", "mocha"} and (at == 0 or not names[at - 1].startswith("-")):
            return name  # type: ignore[return-value]
    return "exit"


def script_name(words: Sequence[str]) -> str | None:
    """Return the script of package.json that a package manager runs; None if it runs no script."""
    if PurePosixPath(words[0]).name not in PACKAGE_MANAGERS:
        return None
    rest = [PurePosixPath(word).name for word in words[1:] if not word.startswith("-")]
    if rest[:1] == ["test"]:
        return "test"
    if rest[:1] == ["run"] and len(rest) > 1:
        return rest[1]
    return None
