"""Whose report a command leaves, told from its words."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from scaffold.core.gates import GateKind, Runner

PACKAGERS = ("npm", "pnpm", "yarn", "bun")
PYTHONS = re.compile(r"python(\d(\.\d+)?)?")
UNITTEST = re.compile(r"(?<=-m )unittest(?=\s|$)")
CHECKS = ("lint", "typecheck")

_JOINED = {";", "|", "||", "&", ">", ">>", "<", "(", ")", "|&", ";;"}
_ASSIGNED = re.compile(r"\w+=.*", re.DOTALL)


def runner_of(kind: GateKind, command: str, scripts: Mapping[str, Runner]) -> Runner:
    """Return the runner whose report is read; `scripts` tells it for those of package.json.

    Where a command does more than one thing, or hides what it does in a script of its own, only its exit code counts.
    """
    if kind in CHECKS:
        return "findings"
    words = program(command)
    if kind != "test" or not words:
        return "exit"
    names = [PurePosixPath(word).name for word in words]
    if names[0] in PACKAGERS and (script := _script(names)) is not None:
        return scripts.get(script, "exit")
    for runner, found in (("go", ["go", "test"]), ("cargo", ["cargo", "test"])):
        if [name for name in names[:3] if not name.startswith("+")][:2] == found:
            return runner  # type: ignore[return-value]
    if names[0] == "node" and "--test" in words:
        return "node"
    return _by_name(names)


def program(command: str) -> tuple[str, ...]:
    """Return the words of the one program that a command comes down to, `cd` before it aside; empty if it is none."""
    if "\n" in command or "`" in command or "$(" in command:
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
    while last and _ASSIGNED.fullmatch(last[0]):
        last = last[1:]
    return tuple(last)


def _by_name(names: Sequence[str]) -> Runner:
    """Return the runner that is the program, what `python -m` names, or what a program such as `uv run` is to run."""
    for at, name in enumerate(names):
        if name in {"pytest", "py.test"}:
            return "pytest"
        if name == "unittest" and names[at - 1] == "-m" and PYTHONS.fullmatch(names[at - 2] if at > 1 else ""):
            return "unittest"
        if name in {"jest", "vitest"} and (at == 0 or not names[at - 1].startswith("-")):
            return name  # type: ignore[return-value]
    return "exit"


def _script(names: Sequence[str]) -> str | None:
    """Return the script of package.json that is run; None if it is a program."""
    rest = [name for name in names[1:] if not name.startswith("-")]
    if rest[:1] == ["test"]:
        return "test"
    if rest[:1] == ["run"] and len(rest) > 1:
        return rest[1]
    return None
