"""Parse a command's flags as the command itself would, against an allowlist of flags that only read."""

from collections.abc import Mapping

from msgspec import Struct

from scaffold.policy.shell.script import Word


class FlagSpec(Struct, frozen=True, kw_only=True):
    """The arguments with which a command only reads."""

    short: str = ""
    """Letters without a value."""
    valued: str = ""
    """Letters with a value, in the same word or the next."""
    attached: str = ""
    """Letters with an optional value, in the same word only."""
    long: str = ""
    """Names without dashes, separated by spaces; with the suffix `=` the value is required, with `[=]` optional."""
    texts: str = ""
    """Flags (letters and names, separated by spaces) whose value is not a path."""
    text_first: str | None = None
    """The flags that replace the first operand if that is a search text, not a path; None if it is a path."""
    most: int | None = None
    """Maximum number of operands; None for any number. The command may write to a further one."""
    counts: bool = False
    """Whether `-20` is a number."""
    names_only: bool = False
    """Whether it shows only names, sizes and dates of files, not their contents."""
    no_paths: bool = False
    """Whether no operand is a file name."""
    any_glob: bool = False
    """Whether no flag makes it write or run something, so that a glob that expands to a flag is harmless."""


class ParsedArguments(Struct, frozen=True):
    """A command's parsed arguments."""

    flags: tuple[tuple[str, Word | None], ...]
    """(name without dashes, value or None)."""
    operands: tuple[Word, ...]
    """Arguments that are neither flags nor values, without the search text."""
    paths: tuple[Word, ...]
    """The operands and values that may be paths."""


def parse_arguments(arguments: tuple[Word, ...], known: FlagSpec) -> ParsedArguments | str:
    """Return the parsed arguments, or why one of them is not known to be read-only."""
    return _FlagParser(known).parse(arguments)


class _FlagParser:
    def __init__(self, known: FlagSpec) -> None:
        self._known = known
        self._long = _long_flags(known.long)
        self._texts = frozenset(known.texts.split())
        self._flags: list[tuple[str, Word | None]] = []
        self._paths: list[Word] = []

    def parse(self, arguments: tuple[Word, ...]) -> ParsedArguments | str:
        """Return the parsed arguments, or why they are not known to only read."""
        operands: list[Word] = []
        pending: str | None = None  # the flag whose value is the next word
        ended = False
        for word in arguments:
            if pending is not None:
                # The program might take it for a flag, if its own list of flags with values differs from ours.
                if word.glob or (word.text.startswith("-") and not word.text[1:].isdecimal() and word.text != "-"):
                    return f"`{word.text}` may be more than the value of `{pending}`"
                self._add(pending, word)
                pending = None
            elif ended or not word.text.startswith("-") or word.text == "-":
                if problem := self._unsafe_glob(word, ended=ended):
                    return problem
                operands.append(word)
            # A glob such as `-*` expands to names of files, which become flags.
            elif not word.literal:
                return f"`{word.text}` may expand to any flag"
            elif word.text == "--":
                ended = True
            else:
                pending, problem = self._flag(word.text)
                if problem:
                    return problem
        if pending is not None:
            return f"`-{pending}` has no value"
        return self._given(operands)

    def _given(self, operands: list[Word]) -> ParsedArguments | str:
        known = self._known
        if known.text_first is not None and not {name for name, _ in self._flags} & set(known.text_first.split()):
            # A search text that may expand to file names is checked like a path as well.
            operands = operands[0 if operands and not operands[0].literal else 1 :]
        # `uniq IN OUT` and `xxd IN OUT` write to their second operand, which a glob may supply.
        if known.most is not None and (len(operands) > known.most or any(word.glob for word in operands)):
            return f"`{operands[-1].text}` may be an output file"
        paths = () if known.no_paths else (*operands, *self._paths)
        return ParsedArguments(tuple(self._flags), tuple(operands), paths)

    def _add(self, name: str, value: Word | None) -> None:
        self._flags.append((name, value))
        if value is not None and name not in self._texts:
            self._paths.append(value)

    def _unsafe_glob(self, word: Word, *, ended: bool) -> str | None:
        if word.glob and not ended and not self._known.any_glob and word.text[0] in "*?[":
            return f"`{word.text}` may match a file whose name is a flag"
        return None

    def _flag(self, text: str) -> tuple[str | None, str | None]:
        """Return (flag whose value is the next word or None, why this word is not known to be read-only or None)."""
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
                return None, f"`{text}` is not known to be read-only"
            break
        return None, None

    def _long_flag(self, text: str) -> tuple[str | None, str | None]:
        name, equals, value = text[2:].partition("=")
        # Abbreviations are refused: which flag `--out` means depends on the program's version.
        kind = self._long.get(name)
        if kind is None or (kind == "" and equals):
            return None, f"`{text}` is not known to be read-only"
        if kind == "=" and not equals:
            return name, None
        self._add(name, Word(value) if equals else None)
        return None, None


def _long_flags(names: str) -> Mapping[str, str]:
    """Return {name: kind}; a value is not allowed (empty), required (`=`) or optional (`[=]`)."""
    kinds: dict[str, str] = {}
    for name in names.split():
        for ending in ("[=]", "=", ""):
            if name.endswith(ending):
                kinds[name.removesuffix(ending)] = ending
                break
    return kinds
