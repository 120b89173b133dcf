"""Split commands that run another one, such as `timeout`, `xargs` and `find -exec`, into their part and the rest."""

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from scaffold.policy.shell.parsed_command import SimpleCommand, Word
from scaffold.policy.shell.reading.flags import FlagSpec, parse_arguments
from scaffold.policy.shell.reading.search_scope import NameFilter

_DURATION = re.compile(r"\d+(?:\.\d+)?[smhd]?")
_TIMEOUT_FLAGS = FlagSpec(
    valued="ks", short="v", long="preserve-status foreground verbose kill-after= signal=", no_paths=True
)
_XARGS_FLAGS = FlagSpec(short="0rt", valued="nLPI", long="null no-run-if-empty", no_paths=True)
_ACTIONS = frozenset({"-exec", "-print", "-print0"})
_CHOICES = frozenset({"-o", "-or", "!", "-not", ",", "(", ")"})
_HOLE = "{}"
_RUNS_OTHERS = frozenset({"xargs", "find", "timeout", "cd"})
_PASSES_LINES: dict[str, FlagSpec] = {
    "head": FlagSpec(valued="n", counts=True),
    "tail": FlagSpec(valued="n", counts=True),
    "sort": FlagSpec(short="urn"),
    "uniq": FlagSpec(),
    "grep": FlagSpec(short="vEFiwx", valued="e", text_first="e", texts="e"),
}
"""Programs that pass on lines of their input unchanged, with these flags and without operands."""


class FileNames(Struct, frozen=True):
    """The names of files that a command prints or passes on."""

    starts: tuple[Word, ...]
    """The searched folders; empty for the working directory. Each name begins with one of these, as written."""
    filters: tuple[NameFilter, ...] = ()
    """The certain limits of the names."""
    whole: bool = False
    """Whether each name is passed as one argument; otherwise a blank in it ends an argument."""

    @property
    def stand_in(self) -> tuple[Word, ...]:
        """A glob for each folder: it may mean any of the names, as an argument."""
        starts = self.starts or (Word("."),)
        return tuple(Word(f"{start.text.rstrip('/')}/*", tilde=start.tilde, glob=True) for start in starts)


class InnerCommand(Struct, frozen=True):
    """A command that another one runs, with file names in the place of a stand-in."""

    words: tuple[Word, ...]
    names: FileNames


def limited_command(words: tuple[Word, ...]) -> tuple[Word, ...] | None:
    """Return the command that `timeout` runs; None for other programs and unclear arguments."""
    if not words or words[0] != Word("timeout"):
        return None
    split = _split_flags(words[1:], _TIMEOUT_FLAGS)
    operands = split[1] if split else ()
    if len(operands) < 2 or not all(word.literal for word in operands[:2]):
        return None
    return operands[1:] if _DURATION.fullmatch(operands[0].text) else None


def _split_flags(words: tuple[Word, ...], known: FlagSpec) -> tuple[dict[str, Word | None], tuple[Word, ...]] | None:
    """Return a program's own flags, and what it runs from the first operand on; None for an unknown flag."""
    for at in range(len(words) + 1):
        given = parse_arguments(words[:at], known)
        if not isinstance(given, str) and (at == len(words) or not words[at].text.startswith("-")):
            return dict(given.flags), words[at:]
    return None


def split_find(arguments: tuple[Word, ...]) -> tuple[tuple[Word, ...], tuple[InnerCommand, ...]] | None:
    """Return find's arguments without `-exec`, and the commands that it runs; None if that is unclear."""
    rest: list[Word] = []
    inner: list[tuple[Word, ...]] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word != Word("-exec"):
            rest.append(word)
            continue
        # `;` ends an action, and `+` does right after `{}`.
        texts = [each.text for each in words]
        ends = (at for at, text in enumerate(texts) if text == ";" or (text == "+" and texts[:at][-1:] == [_HOLE]))
        end = next(ends, None)
        if end is None:
            return None
        inner.append(tuple(words[:end]))
        del words[: end + 1]
    names = found_names(arguments)
    if names is None:
        return None
    commands = tuple(_fill_names(words, names) for words in inner)
    known = tuple(each for each in commands if each)
    return (tuple(rest), known) if len(known) == len(commands) else None


def found_names(arguments: tuple[Word, ...], *, whole: bool = True) -> FileNames | None:
    """Return the names that reach the first action of `find`, which must only read; None if they are unclear."""
    before = arguments[: next((at for at, word in enumerate(arguments) if word.text in _ACTIONS), len(arguments))]
    tests = next((at for at, word in enumerate(before) if word.text[:1] in {"-", "(", "!", ")", ","}), len(before))
    starts, texts = before[:tests], [word.text for word in before[tests:]]
    if any(word.glob or word.loose for word in starts):
        return None
    # A pattern limits the names if every name must match it.
    limits = not _CHOICES.intersection(word.text for word in arguments)
    filters = tuple(
        NameFilter(glob, includes=True, ignores_case=test == "-iname")
        for test, glob in pairwise(texts)
        if limits and test in {"-name", "-iname"}
    )
    return FileNames(starts, filters[:1], whole=whole)


def piped_command(words: tuple[Word, ...], before: Sequence[SimpleCommand]) -> InnerCommand | None:
    """Return the command that `xargs` runs with the file names of the pipeline before it; None if that is unclear."""
    split = _split_flags(words[1:], _XARGS_FLAGS)
    if split is None:
        return None
    flags, operands = split
    null = "0" in flags or "null" in flags
    names = _printed_names(before, null=null)
    hole = flags.get("I")
    command = operands or (Word("echo"),)
    if names is None or not all(word.literal or word.glob for word in command):
        return None
    if hole is None:
        command = (*command, Word(_HOLE))
    elif hole.text != _HOLE:
        return None
    return _fill_names(command, names)


def _fill_names(words: tuple[Word, ...], names: FileNames) -> InnerCommand | None:
    # `{}` must be a word of its own; within another word, programs differ.
    if not words or not words[0].literal or words[0].text in _RUNS_OTHERS:
        return None
    if any(_HOLE in word.text and word.text != _HOLE for word in words) or words[0].text == _HOLE:
        return None
    filled = tuple(each for word in words for each in (names.stand_in if word.text == _HOLE else (word,)))
    return InnerCommand(filled, names)


def _printed_names(before: Sequence[SimpleCommand], *, null: bool) -> FileNames | None:
    """Return the names that a pipeline prints, ended by newline or NUL; None if it may print anything else."""
    for simple in reversed(before):
        if simple.in_loop or not simple.words or any(redirect.operator != ">" for redirect in simple.redirects):
            return None
        name, arguments = simple.words[0].text, simple.words[1:]
        if name == "find":
            texts = [word.text for word in arguments]
            if {"-exec", "-printf", "-ls"}.intersection(texts) or ("-print0" in texts) != null:
                return None
            return found_names(arguments, whole=null)
        flags = _PASSES_LINES.get(name)
        given = parse_arguments(arguments, flags) if flags and not null else ""
        if isinstance(given, str) or given.operands or simple.link != "|":
            return None
    return None
