"""What must hold of everything that a command prints; each check returns what does not."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from rich.cells import cell_len

from first_hour.recorder import HANGS, PIPE, Record
from support.documents import parse_problem

_SGR = re.compile(r"\x1b\[[0-9;]*m")
_MOVES = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b[()][A-Z0-9]|\r+")
"""What moves the cursor or erases: a new line of the screen begins behind it."""
_ESCAPE = re.compile(r"\x1b|[\x00-\x08\x0b\x0c\x0e-\x1f]")
_TO_COPY = re.compile(
    r"^\s*(?:[#$+-] ?)?(?:scaffold|ralph|git|cd|uv|pipx|export|source) \S|^diff --git |^ {4,}(?:- )?[a-z_]+: "
)
"""A command and a plan to copy stay in one piece, however narrow the terminal is; so does what git prints."""
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_SPAN = re.compile(r"N(?:ms|min|m|s|h|d)(?:N(?:ms|min|m|s|h|d))*|(?:yesterday|today|justnow)")
_OURS = re.compile(
    r"`((?:scaffold|ralph) [^`\n…]+)`|^\s+((?:scaffold|ralph) [^`\n…]+?)(?:\s{2,}.*|\s+#.*)?$", re.MULTILINE
)
_PATH = re.compile(r"(?<![\w./…@:*-])(?:/[\w.@+-]+){2,}(?![\w*{…/<-])|(?<![\w./*-])\.scaffold/[\w./-]+[\w]")
_PLACEHOLDER = re.compile(r"\b[A-Z][A-Z_]{2,}\b|\.\.\.|\[|\||<")
_NOT_THERE_YET = re.compile(r"not written|(data|cache) folder|save it as|config\.local\.yaml|would |removed ")
"""Lines about files that need not exist."""
_FOR_PROGRAMS = re.compile(r"--json\b|\bservice\b|\bcompletion\b|run --plan .*--dry-run")
"""Commands that print what other programs read."""
_BARS = re.compile("[█·]+")
CUT = "…"
_BARE_CUT = re.compile(rf"(?:^|\s{{2,}})\W*\w{{0,8}}{CUT}")
_ANSWERS = re.compile(r"\[y/N\]|\[Y/n\]")
_WAITS = re.compile(r"waits? for (?:you|an answer)|needs you")
_NEXT = re.compile(
    r"(?:^|[\s`(])(?:scaffold|ralph|git) [a-z-]|in the inbox|`[^`]+`|\s--[a-z]|^error: .+(?:\n\S.*)*\n  \S",
    re.MULTILINE,
)
"""A command, an option, or the second line of an error, which says what to do."""
_UNKNOWN = re.compile(r"(?<!/dev/)\b(?:unknown|None|null|undefined)\b|\?\?")


def lines_of(record: Record) -> list[str]:
    """Return the lines of the screen without colors, before the terminal would wrap them."""
    return [_SGR.sub("", line).rstrip() for line in re.split(r"\n", _MOVES.sub("\n", record.raw)) if line.strip()]


def plain(record: Record) -> str:
    """Return the text without anything that only a terminal understands."""
    return "\n".join(lines_of(record))


def is_live(record: Record) -> bool:
    """Return whether the command drew over what it had drawn."""
    return bool(re.search(r"\x1b\[[0-9;?]*[A-HJKfhl]", record.raw))


def wide_lines(record: Record) -> list[str]:
    """Return the lines that do not fit the terminal, but for a command or a word that cannot be broken."""
    if record.columns == PIPE or _FOR_PROGRAMS.search(record.command):
        return []
    return [
        f"{cell_len(line)} columns: {line}"
        for line in lines_of(record)
        if cell_len(line) > record.columns and not _TO_COPY.search(line) and len(line.split()) > 1
    ]


def escapes(record: Record) -> list[str]:
    """Return the lines of a pipe that have escape codes or other control characters."""
    if record.columns != PIPE:
        return []
    return [ascii(line) for line in record.raw.splitlines() if _ESCAPE.search(line)]


def cuts(record: Record) -> list[str]:
    """Return the lines of a pipe that end in the mark of a cut."""
    return [line for line in lines_of(record) if CUT in line] if record.columns == PIPE else []


def bare_cuts(record: Record) -> list[str]:
    """Return the lines of a screen of which a cell is cut before it says anything."""
    return [line for line in record.screen.splitlines() if _BARE_CUT.search(line)]


def open_questions(record: Record) -> list[str]:
    """Return the lines of a screen that leave the user with a question: it names no answers, and nothing to type."""
    lines = record.screen.splitlines()
    # The answers may be in the next sentence.
    asked = [line for line in lines if line.endswith("?") and "`" not in line and not _ANSWERS.search(record.screen)]
    waits = [line for line in lines if record.code or _WAITS.search(line)]
    return [*asked, *([] if _NEXT.search(record.screen) else waits[:1])]


def unknown_values(record: Record) -> list[str]:
    """Return the lines of a screen with a value that nobody knows."""
    if _FOR_PROGRAMS.search(record.command):
        return []
    return [line for line in record.screen.splitlines() if _UNKNOWN.search(line)]


def difference(terminal: Record, pipe: Record) -> list[str]:
    """Return where a terminal's text departs from that of the pipe, which has all of it; empty if nowhere.

    White space, numbers, spans of time and bars of drawings do not count. What was cut may stand for anything.
    """
    ours, whole = _letters(plain(terminal)), _letters(plain(pipe))
    pattern = ".*".join(re.escape(part) for part in re.split(rf"{CUT}(?:\(\+N(?:lines?)?\))?", ours))
    if re.fullmatch(pattern, whole, re.DOTALL):
        return []
    at = next((n for n, (a, b) in enumerate(zip(ours, whole, strict=False)) if a != b), min(len(ours), len(whole)))
    return [f"{ours[max(0, at - 30) : at + 60]!r} in the pipe is {whole[max(0, at - 30) : at + 60]!r}"]


def _letters(text: str) -> str:
    return _SPAN.sub("T", _NUMBER.sub("N", _BARS.sub("", "".join(text.split()))))


def wrong_code(record: Record, expected: frozenset[int]) -> list[str]:
    """Return what is wrong with the exit code."""
    if record.code == HANGS:
        return ["it did not end"]
    return [] if record.code in expected else [f"it ended with {record.code}, not {sorted(expected)}"]


def tracebacks(record: Record) -> list[str]:
    """Return the lines that only a programmer understands."""
    return [line for line in lines_of(record) if "Traceback (most recent call last)" in line or "This is a bug" in line]


def missing_paths(record: Record, cwd: Path, root: Path) -> list[str]:
    """Return the paths below `root` or `cwd` that a command that succeeded names and that do not exist.

    Only in a pipe is each path in one piece.
    """
    if record.columns != PIPE or record.code != 0:
        return []
    text = "\n".join(line for line in lines_of(record) if not _NOT_THERE_YET.search(line))
    found = {each.rstrip(".,:;") for each in _PATH.findall(text)}
    named = {each: cwd / each for each in found}
    return sorted(
        f"there is no {each}"
        for each, path in named.items()
        if (path.is_relative_to(root) or each.startswith(".scaffold/")) and not path.exists()
    )


def unknown_commands(record: Record) -> list[str]:
    """Return the commands of ours that a pipe's output names and that would not be understood."""
    problems = list[str]()
    if record.columns != PIPE:
        return problems
    for text in _commands(plain(record)):
        try:
            words = shlex.split(text, comments=True)
        except ValueError:
            problems.append(f"`{text}` is not a command")
            continue
        if _PLACEHOLDER.search(text):
            words = [re.sub(r"^[A-Z]+$", "1", word) for word in words if not re.search(r"[\[\]|<]|\.\.\.", word)]
        if problem := parse_problem(words, is_whole=False):
            problems.append(problem)
    return sorted(set(problems))


def _commands(text: str) -> Iterator[str]:
    for quoted, own in _OURS.findall(text):
        yield from (each.strip() for each in (quoted or own).split("&&"))
