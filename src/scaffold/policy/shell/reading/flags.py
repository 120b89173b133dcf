"""Parse a command's flags as the command itself would, against an allowlist of flags that only read."""

from msgspec import Struct

from scaffold.policy.shell.parsed_command import Word


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
    clustered: bool = True
    """Whether it reads `-ab` as `-a -b` and `-n5` as `-n 5`."""
    permutes: bool = True
    """Whether it looks for flags after the first operand; a program that does not would take them for operands."""


class ParsedArguments(Struct, frozen=True):
    """A command's parsed arguments."""

    flags: tuple[tuple[str, Word | None], ...]
    """(name without dashes, value or None)."""
    operands: tuple[Word, ...]
    """Arguments that are neither flags nor values, without the search text."""
    paths: tuple[Word, ...]
    """The operands and values that may be paths."""
    text: Word | None = None
    """The search text or program, if the first operand is one."""


def parse_arguments(arguments: tuple[Word, ...], known: FlagSpec) -> ParsedArguments | str:
    """Return the parsed arguments, or why one of them is not known to be read-only."""
    return _FlagParser(known).parse(arguments)


class _FlagParser:
    def __init__(self, known: FlagSpec) -> None:
        self._known = known
        kinds: dict[str, str] = {}
        for name in known.long.split():
            for ending in ("[=]", "=", ""):
                if name.endswith(ending):
                    kinds[name.removesuffix(ending)] = ending
                    break
        self._long = kinds
        self._texts = frozenset(known.texts.split())
        self._flags: list[tuple[str, Word | None]] = []
        self._paths: list[Word] = []

    def parse(self, arguments: tuple[Word, ...]) -> ParsedArguments | str:
        """Return the parsed arguments, or why they are not known to only read."""
        operands: list[Word] = []
        pending: str | None = None  # the flag whose value is the next word
        end: int | None = None
        for at, word in enumerate(arguments):
            if pending is not None:
                # The program might take it for a flag, if its own list of flags with values differs from ours.
                is_value = self._known.any_glob or not _is_flag(word) or word.text[1:].isdecimal()
                if word.glob or not is_value:
                    return f"`{word.text}` may be more than the value of `{pending}`"
                self._add_flag(pending, word)
                pending, problem = None, None
            elif end is not None or not _is_flag(word):
                problem = self._operand_problem(word, ended=end is not None)
                operands.append(word)
            elif word.text == "--" and (self._known.permutes or not operands):
                end, problem = at, None
            else:
                pending, problem = self._read_flag(word, after_operand=bool(operands))
            if problem:
                return problem
        if pending is not None:
            return f"`-{pending}` has no value"
        return self._swallowed_end(arguments, end) or self._parsed_arguments(operands)

    def _swallowed_end(self, arguments: tuple[Word, ...], end: int | None) -> str | None:
        # The flag before `--` may take it as its value, so that flags could follow it.
        if end is None or self._known.any_glob or not (end and _is_flag(arguments[end - 1])):
            return None
        return next((f"`{word.text}` may be a flag" for word in arguments[end + 1 :] if _is_flag(word)), None)

    def _parsed_arguments(self, operands: list[Word]) -> ParsedArguments | str:
        known = self._known
        text: Word | None = None
        if known.text_first is not None and not {name for name, _ in self._flags} & set(known.text_first.split()):
            # A search text that may expand to file names is checked like a path as well.
            text = operands[0] if operands else None
            operands = operands[0 if text and not text.literal else 1 :]
        # `uniq IN OUT` and `xxd IN OUT` write to their second operand, which a glob may supply.
        if known.most is not None and (len(operands) > known.most or any(word.glob for word in operands)):
            return f"`{operands[-1].text}` may be an output file"
        paths = () if known.no_paths else (*operands, *self._paths)
        return ParsedArguments(tuple(self._flags), tuple(operands), paths, text)

    def _add_flag(self, name: str, value: Word | None) -> None:
        self._flags.append((name, value))
        if value is not None and name not in self._texts:
            self._paths.append(value)

    def _operand_problem(self, word: Word, *, ended: bool) -> str | None:
        if word.glob and not ended and not self._known.any_glob and word.text[0] in "*?[":
            return f"`{word.text}` may match a file whose name is a flag"
        return None

    def _read_flag(self, word: Word, *, after_operand: bool) -> tuple[str | None, str | None]:
        """Return (flag whose value is the next word or None, why the word is not known to be read-only or None)."""
        text = word.text
        # A glob such as `-*` expands to names of files, which become flags.
        # One such as `--include=*.py` can only expand to values of the same flag.
        name, equals, _ = text.partition("=")
        keeps_name = equals and word.sure and not word.tilde and self._known.any_glob and not set(name) & set("*?[")
        if not word.literal and not keeps_name:
            return None, f"`{text}` may expand to any flag"
        if after_operand and not self._known.permutes:
            return None, f"`{text}` comes after the first operand"
        if text.startswith("--"):
            return self._long_flag(text, glob=word.glob)
        if self._known.counts and text[1:].isdecimal():
            return None, None
        return self._read_letters(text)

    def _read_letters(self, text: str) -> tuple[str | None, str | None]:
        if len(text) > 2 and not self._known.clustered:
            return None, f"`{text}` is more than one letter"
        for at, letter in enumerate(text[1:], start=1):
            if letter in self._known.short:
                self._add_flag(letter, None)
                continue
            rest = text[at + 1 :]
            if letter in self._known.valued and not rest:
                return letter, None
            if letter in self._known.valued:
                self._add_flag(letter, Word(rest))
            elif letter not in self._known.attached:
                return None, f"`{text}` is not known to be read-only"
            break
        return None, None

    def _long_flag(self, text: str, *, glob: bool) -> tuple[str | None, str | None]:
        name, equals, value = text[2:].partition("=")
        # Abbreviations are refused: which flag `--out` means depends on the program's version.
        kind = self._long.get(name)
        if kind is None or (kind == "" and equals):
            return None, f"`{text}` is not known to be read-only"
        if kind == "=" and not equals:
            return name, None
        self._add_flag(name, Word(value, glob=glob) if equals else None)
        return None, None


def _is_flag(word: Word) -> bool:
    return word.text.startswith("-") and word.text != "-"
