"""Recognise sed scripts that only print, delete and substitute.

Versions of sed find the end of a regular expression differently: some skip bracket expressions, some do not. A script
counts only if both see the same end, and if each of its commands is known.
"""

_COMMANDS = frozenset("pPdDqgGhHnNxl=")
"""Commands without an argument that write nothing but standard output."""
_FLAGS = frozenset("0123456789gpIiM")
"""Flags of `s`: `e` would run the result, `w` write it to a file."""
_REGEX_FLAGS = frozenset("IM")
_SEPARATORS = frozenset("/|#,:@!%")
_BLANK = " \t"
_NAMED = ".:="
"""Characters that begin a named class inside a bracket expression, as in `[[:digit:]]`."""


class _Unclear(Exception):
    """The script has a part that is not known to only print."""


def only_prints(script: str) -> bool:
    """Return whether sed with this script writes only its standard output and runs nothing."""
    try:
        _SedScript(script).check()
    except _Unclear:
        return False
    return True


class _SedScript:
    """Reads a script from left to right; raises _Unclear at the first character that is not understood."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._at = 0
        self._open = 0
        """How many `{` are open."""

    def check(self) -> None:
        self._skip(_BLANK + ";\n")
        if not self._has_more:
            raise _Unclear
        while self._has_more:
            self._read_command()
            self._skip(_BLANK + ";\n")
        if self._open:
            raise _Unclear

    @property
    def _has_more(self) -> bool:
        return self._at < len(self._script)

    def _peek(self) -> str:
        return self._script[self._at : self._at + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise _Unclear
        self._at += 1
        return char

    def _skip(self, chars: str) -> None:
        while self._has_more and self._peek() in chars:
            self._at += 1

    def _read_command(self) -> None:
        if self._read_address():
            self._skip(_BLANK)
            if self._peek() == ",":
                self._take()
                self._skip(_BLANK)
                if not self._range_end():
                    raise _Unclear
        self._skip(_BLANK)
        while self._peek() == "!":
            self._take()
            self._skip(_BLANK)
        name = self._take()
        if name == "{":
            self._open += 1
            return
        if name == "}" and self._open:
            self._open -= 1
        elif name == "s":
            self._read_substitution()
        elif name not in _COMMANDS:
            raise _Unclear
        self._skip(_BLANK)
        if self._has_more and self._peek() not in ";\n}":
            raise _Unclear

    def _read_address(self) -> bool:
        char = self._peek()
        if char == "$":
            self._take()
        elif char.isascii() and char.isdigit():
            self._read_number()
            if self._peek() == "~":
                self._take()
                self._read_number()
        elif char == "/":
            self._take()
            self._read_field("/", is_regex=True)
            while self._peek() in _REGEX_FLAGS:
                self._take()
        else:
            return False
        return True

    def _range_end(self) -> bool:
        if self._peek() and self._peek() in "+~":
            self._take()
            self._read_number()
            return True
        return self._read_address()

    def _read_number(self) -> None:
        if not (self._peek().isascii() and self._peek().isdigit()):
            raise _Unclear
        while self._peek().isascii() and self._peek().isdigit():
            self._take()

    def _read_substitution(self) -> None:
        separator = self._take()
        if separator not in _SEPARATORS:
            raise _Unclear
        self._read_field(separator, is_regex=True)
        self._read_field(separator, is_regex=False)
        while self._peek() and self._peek() in _FLAGS:
            self._take()

    def _read_field(self, separator: str, *, is_regex: bool) -> None:
        while (char := self._take()) != separator:
            if char == "\n":
                raise _Unclear
            if char == "\\":
                if self._take() == "\n":
                    raise _Unclear
            elif char == "[" and is_regex:
                self._read_brackets(separator)

    def _read_brackets(self, separator: str) -> None:
        # A separator, line break or backslash before `]` is read differently by versions of sed. A `]` that comes
        # first, also after `^`, is an ordinary character.
        if self._peek() == "^":
            self._take()
        first = True
        while (char := self._take()) != "]" or first:
            first = False
            if char in {separator, "\n"}:
                raise _Unclear
            if char == "\\":
                if self._peek() in {"]", "[", "\n", ""}:
                    raise _Unclear
                if self._peek() == separator:
                    self._take()
            elif char == "[" and self._peek() and self._peek() in _NAMED:
                self._named_class(separator)

    def _named_class(self, separator: str) -> None:
        mark = self._take()
        if mark == separator:
            raise _Unclear
        while not (self._peek() == mark and self._script[self._at + 1 : self._at + 2] == "]"):
            char = self._take()
            if not (char.isascii() and char.isalpha()):
                raise _Unclear
        self._at += 2
