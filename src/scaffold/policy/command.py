"""What can be said of a shell command without understanding shells: whether it is plain, and what it likely writes.

A net, not a wall: what a program writes by itself is not seen here; a sandbox stands behind it.
"""

import re
import shlex
from collections.abc import Iterator
from itertools import islice, pairwise

SPECIAL = ";|&$<>()`\n"
"""A command with one of these may do more than its first words say; so may one with other control characters."""

MOST_ENTERED = 20
"""Directories a command changes into that are looked at: their number times that of the targets must stay small."""

_NOT_PLAIN = re.compile(rf"[{re.escape(SPECIAL)}\x00-\x08\x0a-\x1f\x7f]")
_CRUDE = re.compile(r"[;|&()\n]+|[<>]+|[^\s;|&()<>'\"]+")
_SEPARATOR = re.compile(r"[;|&()\n]+")
_BEFORE_PROGRAMS = re.compile(
    r"sudo|env|command|exec|time|nohup|xargs|!|\{|if|then|else|elif|do|while|until|\w+=.*", re.DOTALL
)
_WRITERS = re.compile(r"ch(grp|mod|own)|cp|dd|install|ln|mkdir|mv|patch|rm|rmdir|rsync|shred|tee|touch|truncate|unlink")
_WRITERS_IN_PLACE = re.compile(r"sed|perl")
_SHELLS = re.compile(r"(ba|da|z|k|a)?sh|fish")
_READS_A_WORD = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*")
_IN_PLACE = re.compile(r"-[a-zA-Z]*i|--in-place")


def plain_words(command: str) -> tuple[str, ...] | None:
    """Return the words of a single command without substitutions and redirects; None if it is anything else."""
    if _NOT_PLAIN.search(command):
        return None
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return None


def written_words(command: str) -> tuple[str, ...]:
    """Return what a command names as targets: of its redirects, and of programs that are known to write.

    Commands within it that a shell is handed as one word count, too; where it changes the directory, a target is
    also told as it is named from there.
    """
    tokens = _tokens(command)
    words = [part for word in _targets(tokens) for part in (word, word.rpartition("=")[2]) if part]
    words += [word for inner in _handed_over(tokens) for word in written_words(inner)]
    entered = dict.fromkeys(place for before, place in pairwise(tokens) if before == "cd")
    words += [f"{place}/{word}" for place in islice(entered, MOST_ENTERED) for word in words if word[0] != "/"]
    return tuple(dict.fromkeys(words))


def _handed_over(tokens: list[str]) -> Iterator[str]:
    """Yield the commands that shells are to read from a word, as in `sh -c "..."` and `eval "..."`."""
    shell = handed = False
    for token in tokens:
        if handed:
            yield token
            shell = handed = False
        elif token.startswith("-"):
            handed = shell and _READS_A_WORD.fullmatch(token) is not None
        else:
            name = token.rpartition("/")[2]
            shell, handed = _SHELLS.fullmatch(name) is not None, name == "eval"


def _tokens(command: str) -> list[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";|&()<>\n")
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # an open quote: a document within the command, or no valid command
        return _CRUDE.findall(command)


def _targets(tokens: list[str]) -> Iterator[str]:
    program, writes, redirected = "", False, False
    for token in tokens:
        if set(token) <= set("<>|&") and ">" in token:
            redirected = True
        elif _SEPARATOR.fullmatch(token):
            program, writes, redirected = "", False, False
        elif redirected:
            redirected = False
            yield token
        elif not program:
            program = "" if _BEFORE_PROGRAMS.fullmatch(token) else token.rpartition("/")[2]
            writes = _WRITERS.fullmatch(program) is not None
        elif _WRITERS_IN_PLACE.fullmatch(program) and _IN_PLACE.match(token):
            writes = True
        elif writes:
            yield token
