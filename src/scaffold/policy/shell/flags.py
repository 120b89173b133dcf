"""Flags of a command as its own parser takes them apart, by a list of those that only read."""

from collections.abc import Mapping

from msgspec import Struct

from scaffold.policy.shell.script import Word


class Flags(Struct, frozen=True, kw_only=True):
    """What a command may be given without doing more than reading."""

    short: str = ""
    """Letters without a value."""
    valued: str = ""
    """Letters with a value, in the same word or the next."""
    attached: str = ""
    """Letters that may have a value, in the same word only."""
    long: str = ""
    """Names without their dashes, parted by blanks; one that ends in `=` takes a value, `[=]` may take one."""
    texts: str = ""
    """Flags (letters and names, parted by blanks) whose value is no path."""
    text_first: str | None = None
    """If the first operand is no path but a text to look for: the flags that say the text instead."""
    most: int | None = None
    """How many operands it may have; None for any number. A further one may be a file it writes."""
    counts: bool = False
    """Whether `-20` is a number."""
    names_only: bool = False
    """Whether it shows names, sizes and dates of files but nothing of what is in them."""
    no_paths: bool = False
    """Whether no operand is the name of a file."""
    any_glob: bool = False
    """Whether no flag at all would make it write or run something, so that any glob is harmless."""


class Given(Struct, frozen=True):
    """A command's arguments, taken apart."""

    flags: tuple[tuple[str, Word | None], ...]
    """Each without dashes, with its value."""
    operands: tuple[Word, ...]
    """What is no flag and no value, a text to look for left out."""
    paths: tuple[Word, ...]
    """The operands and values that are or may be paths."""


def take_apart(arguments: tuple[Word, ...], known: Flags) -> Given | str:
    """Return the arguments by their meaning, or which of them is not known to only read."""
    return _Parsing(known).parse(arguments)


class _Parsing:
    def __init__(self, known: Flags) -> None:
        self._known = known
        self._long = _long_flags(known.long)
        self._texts = frozenset(known.texts.split())
        self._flags: list[tuple[str, Word | None]] = []
        self._paths: list[Word] = []

    def parse(self, arguments: tuple[Word, ...]) -> Given | str:
        """Return what was given, or in words why it is not surely known."""
        operands: list[Word] = []
        waiting: str | None = None
        ended = False
        for word in arguments:
            if waiting is not None:
                if word.glob or (word.text.startswith("-") and not word.text[1:].isdecimal() and word.text != "-"):
                    return f"`{word.text}` may be more than the value of `{waiting}`"
                self._add(waiting, word)
                waiting = None
            elif ended or not word.text.startswith("-") or word.text == "-":
                if problem := self._unsafe_glob(word, ended=ended):
                    return problem
                operands.append(word)
            elif not word.literal:
                return f"`{word.text}` may stand for any flag"
            elif word.text == "--":
                ended = True
            else:
                waiting, problem = self._flag(word.text)
                if problem:
                    return problem
        if waiting is not None:
            return f"`-{waiting}` lacks its value"
        return self._given(operands)

    def _given(self, operands: list[Word]) -> Given | str:
        known = self._known
        if known.text_first is not None and not {name for name, _ in self._flags} & set(known.text_first.split()):
            operands = operands[0 if operands and not operands[0].literal else 1 :]
        if known.most is not None and (len(operands) > known.most or any(word.glob for word in operands)):
            return f"`{operands[-1].text}` may be a file it writes"
        paths = () if known.no_paths else (*operands, *self._paths)
        return Given(tuple(self._flags), tuple(operands), paths)

    def _add(self, name: str, value: Word | None) -> None:
        self._flags.append((name, value))
        if value is not None and name not in self._texts:
            self._paths.append(value)

    def _unsafe_glob(self, word: Word, *, ended: bool) -> str | None:
        if word.glob and not ended and not self._known.any_glob and word.text[0] in "*?[":
            return f"`{word.text}` may stand for a file whose name is a flag"
        return None

    def _flag(self, text: str) -> tuple[str | None, str | None]:
        """Return the flag whose value is the next word, and why this one is not known to only read."""
        if text.startswith("--"):
            return self._long_flag(text)
        if self._known.counts and text[1:].isdecimal():
            return None, None
        return self._letters(text)

    def _letters(self, text: str) -> tuple[str | None, str | None]:
        for at, letter in enumerate(text[1:], start=1):
            if letter in self._known.short:
                self._add(letter, None)
                continue
            rest = text[at + 1 :]
            if letter in self._known.valued and not rest:
                return letter, None
            if letter in self._known.valued:
                self._add(letter, Word(rest))
            elif letter not in self._known.attached:
                return None, f"`{text}` is not known to only read"
            break
        return None, None

    def _long_flag(self, text: str) -> tuple[str | None, str | None]:
        name, equals, value = text[2:].partition("=")
        kind = self._long.get(name)
        if kind is None or (kind == "" and equals):
            return None, f"`{text}` is not known to only read"
        if kind == "=" and not equals:
            return name, None
        self._add(name, Word(value) if equals else None)
        return None, None


def _long_flags(names: str) -> Mapping[str, str]:
    """Return for each name whether it takes a value: not (empty), always (`=`) or perhaps (`[=]`)."""
    kinds: dict[str, str] = {}
    for name in names.split():
        for ending in ("[=]", "=", ""):
            if name.endswith(ending):
                kinds[name.removesuffix(ending)] = ending
                break
    return kinds
