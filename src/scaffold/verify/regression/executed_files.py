"""Tell the files of the repository that a command executes from those that it only reads."""

import re
from collections.abc import Sequence
from itertools import takewhile

from scaffold.policy.shell.command_decision import visible_commands
from scaffold.verify.gates.projects.own_commands import LAUNCHERS
from scaffold.verify.paths.check_inputs import PACKAGE_MANAGERS, TASK_RUNNER_FILES, launched_commands

TARGETING = frozenset({*TASK_RUNNER_FILES, *PACKAGE_MANAGERS})
"""Programs that run what a file of the repository defines under a name."""
STARTERS = frozenset(
    {*(words[0] for words in LAUNCHERS), *("env", "time", "timeout", "nice", "exec", "command")} - TARGETING
)
"""Programs that start the program after them."""
CHANGING = frozenset({"cd", "pushd"})

_INTERPRETER = re.compile(r"(python|pypy)[\d.]*|py|(ba|da|z|k)?sh|node|ruby|perl|source|\.")
_SHELL_TEXT = re.compile(r"-[A-Za-z]*c")
_TEXT = re.compile(r"-[A-Za-z]*[cep]|--eval|--print")
"""Options with which an interpreter runs a text instead of a file."""


def executing(command: str) -> list[str]:
    """Return commands that execute the files of the repository that this one executes, without those that it reads.

    Files are executed as a program, by an interpreter, as a module, or by the target of a task runner.
    """
    commands = [[word.text for word in each.words] for each in visible_commands(command) if each.words]
    prefix = "cd . && " if any(words[0] in CHANGING for words in commands) else ""
    return [prefix + each for words in commands for each in _executed_words(_without_starter(words))]


def _executed_words(words: Sequence[str]) -> Sequence[str]:
    """Return what a single command executes; its words are not empty."""
    program, options = _program_name(words[0]), list(takewhile(_is_option, words[1:]))
    if program in TARGETING:
        return [" ".join(words)]
    if not _INTERPRETER.fullmatch(program):
        return [words[0]]
    if "-m" in options:
        return [" ".join(words[: words.index("-m") + 2])]
    of_shell = program.endswith("sh")
    if any((_SHELL_TEXT if of_shell else _TEXT).fullmatch(option) for option in options):
        return [each for text in words[len(options) + 1 :][:1] if of_shell for each in executing(text)]
    return launched_commands("", " ".join(words))


def _is_option(word: str) -> bool:
    return word.startswith("-")


def _without_starter(words: Sequence[str]) -> Sequence[str]:
    """Return the words from the program on that `uv run`, `env` and the like start."""
    if not words or words[0] not in STARTERS:
        return words
    rest = range(1, len(words))
    begins = (at for at in rest if "/" in words[at] or _is_runner(_program_name(words[at])))
    return words[next(begins, 0) :]


def _is_runner(program: str) -> bool:
    return program in TARGETING or _INTERPRETER.fullmatch(program) is not None


def _program_name(word: str) -> str:
    return word.rpartition("/")[2]
