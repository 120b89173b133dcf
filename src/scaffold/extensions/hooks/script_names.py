"""The files that a hook's command runs, as far as its text names them."""

import os.path
import re
import shlex
from collections.abc import Iterator, Sequence

PROJECT = "CLAUDE_PROJECT_DIR"
"""The variable with the folder of the project, in a hook's environment."""
HOOK_FILES = "SCAFFOLD_HOOK_FILES"
"""The variable with the folder of the scripts where that is another one: in worktrees, whose files agents change."""

_PROJECT = (f"${PROJECT}/", f"${{{PROJECT}}}/")
_HOME = ("~/", "$HOME/", "${HOME}/")
_ENDS = frozenset({";", "|", "||", "&", "&&", "(", ")", ";;"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SUFFIXES = frozenset({".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua"})
_STARTERS = frozenset({
    *("bash", "sh", "zsh", "dash", "ksh", "fish", "python", "python3", "node", "deno", "bun", "ruby", "perl", "php"),
    *("lua", "pwsh", "tsx", "ts-node", "npx", "uv", "uvx", "pipx", "poetry", "source", ".", "exec", "env", "command"),
    *("time", "timeout", "nice", "nohup", "xargs"),
})  # fmt: skip
"""Programs that run the file that an argument names."""


def named_scripts(command: str, *, home: str, top: str = "") -> tuple[str, ...]:
    """Return the files a command runs: absolute, or relative to the project, whose folder is `top` if there is one."""
    found = (_script_path(word, home, top) for simple in _simple_commands(command) for word in _run_files(simple))
    return tuple(dict.fromkeys(place for place in found if place))


def with_files_elsewhere(command: str, scripts: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the command with its scripts taken from `$SCAFFOLD_HOOK_FILES`, and those that are not found in it."""
    left = []
    for script in scripts:
        end = rf"{re.escape(script)}(?![\w./-])"
        by_variable = rf"\$(?:{PROJECT}|\{{{PROJECT}\}})(\"?)/{end}"
        changed, count = re.subn(by_variable, lambda found: f"${HOOK_FILES}{found[1]}/{script}", command)  # noqa: B023
        word = rf"(^|[\s;&|(])(?:\./)?{end}"
        bare, more = re.subn(word, lambda found: f'{found[1]}"${HOOK_FILES}"/{script}', changed)  # noqa: B023
        quoted, others = re.subn(rf"\"(?:\./)?{end}\"", f'"${HOOK_FILES}/{script}"', bare)
        command = quoted
        if not count + more + others:
            left.append(script)
    return command, tuple(left)


def _simple_commands(command: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        for word in lexer:
            if word in _ENDS:
                yield words
                words = []
            else:
                words.append(word)
    except ValueError:  # an open quote: the shell will say so
        return
    yield words


def _run_files(words: Sequence[str]) -> Iterator[str]:
    rest = [word for word in words if not _ASSIGNMENT.match(word)]
    while rest:
        program, rest = rest[0], rest[1:]
        if _is_file(program):
            yield program
        if program.rpartition("/")[2] not in _STARTERS:
            return
        # `python3 -u x.py`, `uv run x.py`, `timeout 5 x.sh`: the first argument that is a file, or starts one.
        rest = rest[next((at for at, word in enumerate(rest) if _is_file(word) or word in _STARTERS), len(rest)) :]


def _is_file(word: str) -> bool:
    if word.startswith("-"):
        return False
    return "/" in word or os.path.splitext(word)[1] in _SUFFIXES  # noqa: PTH122 - a text, not a path


def _script_path(word: str, home: str, top: str) -> str:
    for start in _PROJECT:
        if word.startswith(start):
            return _relative_path(word.removeprefix(start))
    for start in _HOME:
        if word.startswith(start):
            word = f"{home}/{word.removeprefix(start)}"
    if any(mark in word for mark in "$`*?"):
        return ""
    if not word.startswith("/"):
        return _relative_path(word)
    place = os.path.normpath(word)
    return place.removeprefix(f"{top}/") if top and place.startswith(f"{top}/") else place


def _relative_path(name: str) -> str:
    place = os.path.normpath(name)
    return "" if place in {"", "."} or place.startswith(("/", "..")) or any(mark in place for mark in "$`*?") else place
