"""Analyse commands whose arguments are a small language: `find`, `sed`, `test`, `awk` and others."""

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from scaffold.policy.secret.sources import is_secret_setting
from scaffold.policy.shell.parsed_command import Word
from scaffold.policy.shell.reading.flags import FlagSpec, parse_arguments
from scaffold.policy.shell.reading.search_scope import SearchScope
from scaffold.policy.shell.reading.sed_scripts import only_prints


class ReadAccess(Struct, frozen=True):
    """The reads of a command that only reads."""

    paths: tuple[Word, ...] = ()
    """The paths it may read."""
    names_only: bool = False
    """Whether it shows names but no contents."""
    search: SearchScope | None = None
    """Its reads in folders; None if it reads only the files that it names."""


MAX_PROGRAM_CHARS = 400
"""A longer `sed` or `awk` program is not analysed."""
ReadAnalysis = ReadAccess | str
"""The reads of a command, or why it may do more, as a phrase after its name."""

_FIND_ALONE = frozenset({
    *("-depth", "-d", "-mount", "-xdev", "-daystart", "-noleaf", "-ignore_readdir_race", "-empty", "-executable"),
    *("-readable", "-writable", "-nouser", "-nogroup", "-true", "-false", "-print", "-print0", "-ls", "-prune"),
    *("-quit", "-not", "-a", "-and", "-o", "-or", "(", ")", "!", ","),
})  # fmt: skip
_FIND_VALUED = frozenset({
    *("-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-regextype", "-lname"),
    *("-ilname", "-type", "-xtype", "-size", "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin", "-perm"),
    *("-user", "-group", "-uid", "-gid", "-links", "-inum", "-maxdepth", "-mindepth", "-printf", "-fstype", "-used"),
})  # fmt: skip
_FIND_FILE = frozenset({"-newer", "-anewer", "-cnewer", "-samefile"})
_SED_FLAGS = FlagSpec(
    short="nErsuz",
    valued="e",
    long="quiet silent regexp-extended expression= separate unbuffered null-data help version",
    texts="e expression",
    text_first="e expression",
    permutes=False,
)
_AWK_VALUE = r"(?:\$(?:\d+|NF)|NR|NF|\"[\w :;.,=-]*\")"
_AWK_TEST = r"(?:NR|NF|FNR|\$\d+)\s*(?:[<>=!]=?|~)\s*(?:\d+|\"[\w .:-]*\")\s*"
_AWK = re.compile(
    rf"\s*(?:{_AWK_TEST}(?:(?:&&|\|\|)\s*{_AWK_TEST})*|/[\w .:-]+/\s*)?"
    rf"(?:\{{\s*print(?:\s+{_AWK_VALUE}(?:[ ,]+{_AWK_VALUE})*)?\s*;?\s*\}})?\s*"
)
_AWK_FLAGS = FlagSpec(valued="F", texts="F", text_first="", permutes=False)
_JQ_WORDS = re.compile(
    r"\b(?:env|ENV|input|inputs|include|import|input_filename|debug|stderr|halt\w*|get_\w+|modulemeta|builtins)\b|\$__"
)
_JQ_FLAGS = FlagSpec(
    short="rcesSaCMnj",
    valued="",
    long="raw-output compact-output exit-status slurp sort-keys ascii-output color-output monochrome-output null-input "
    "join-output tab help version",
    text_first="",
)
_STRINGS_FLAGS = FlagSpec(short="af", valued="ntes", long="all", texts="n t e s")
_TESTS_OF_FILES = frozenset(f"-{letter}" for letter in "abcdefghkprstuwxGLNOS")
_TESTS_OF_TEXT = frozenset({"-z", "-n"})
_TEST_PAIRS = frozenset({"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"})
_TEST_JOINS = frozenset({"!", "-a", "-o"})
_DATE = FlagSpec(
    short="uR",
    valued="d",
    attached="I",
    long="utc universal rfc-email iso-8601[=] rfc-3339= date= help version",
    texts="d I iso-8601 rfc-3339 date",
)
_VARIABLE_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PS_ALONE = frozenset({"-e", "-f", "-ef", "-eF", "-A", "-Af", "-F", "-w", "-ww", "--forest", "--no-headers"})
_PS_BSD = re.compile(r"[auxwf]+")
_PS_FIELDS = re.compile(
    r"(?:(?:^|,)(?:pid|ppid|pgid|sid|user|uid|comm|args|cmd|command|%cpu|%mem|pcpu|pmem|rss|vsz|stat|state|tty|etime|time"
    r"|start|lstart|nlwp|ni|pri)=?)+"
)
_PS_VALUED: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("-p", "--pid", "--ppid"), re.compile(r"\d+(?:,\d+)*")),
    **dict.fromkeys(("-o", "-eo", "--format"), _PS_FIELDS),
    **dict.fromkeys(("-C", "-u", "-U"), re.compile(r"[\w-]+", re.ASCII)),
}
_PRINTF_ASSIGNS = re.compile(r"%[^a-zA-Z%]*[a-zA-Z]*n")


def _analyse_find(arguments: tuple[Word, ...]) -> ReadAnalysis:
    paths: list[Word] = []
    words = list(arguments)
    # Not `-L`: a search that follows links leaves the workspace.
    while words and (words[0].text[:1] not in {"-", "(", "!", ")", ","} or words[0].text in {"-H", "-P"}):
        word = words.pop(0)
        if word.glob and word.text[0] in "*?[":
            return f"may treat `{word.text}` as an action"
        paths += [word] if word.text not in {"-H", "-P"} else []
    while words:
        word = words.pop(0)
        if not word.literal:
            return f"may treat `{word.text}` as an action"
        if word.text in _FIND_ALONE:
            continue
        if word.text not in _FIND_VALUED | _FIND_FILE:
            return f"may run or write something with `{word.text}`"
        if not words or words[0].glob:
            return f"has an ambiguous value for `{word.text}`"
        value = words.pop(0)
        paths += [value] if word.text in _FIND_FILE else []
    return ReadAccess(tuple(paths), names_only=True)


def _analyse_sed(arguments: tuple[Word, ...]) -> ReadAnalysis:
    given = parse_arguments(arguments, _SED_FLAGS)
    if isinstance(given, str):
        return given
    scripts = [value for name, value in given.flags if name in {"e", "expression"} and value is not None]
    for script in scripts or [given.text or Word("")]:
        # The commands `w` and `e` and the flags `w` and `e` of `s` write files and run programs; only known forms pass.
        if not script.literal or len(script.text) > MAX_PROGRAM_CHARS or not only_prints(script.text):
            return f"may run or write something with `{script.text[:60]}`"
    return ReadAccess(given.paths)


def _analyse_awk(arguments: tuple[Word, ...]) -> ReadAnalysis:
    given = parse_arguments(arguments, _AWK_FLAGS)
    if isinstance(given, str):
        return given
    program = given.text or Word("")
    known = len(program.text) <= MAX_PROGRAM_CHARS and _AWK.fullmatch(program.text)
    if not program.literal or not program.text.strip() or not known:
        return f"may run or write something with `{program.text[:60]}`"
    # awk takes an operand `name=value` for an assignment, for example to FS.
    if any("=" in word.text or word.glob for word in given.operands):
        return "may set a variable from its arguments"
    return ReadAccess(given.paths)


def _analyse_jq(arguments: tuple[Word, ...]) -> ReadAnalysis:
    given = parse_arguments(arguments, _JQ_FLAGS)
    if isinstance(given, str):
        return given
    program = given.text or Word("")
    # `env` shows the environment with its keys, `input` and `import` read further files.
    if not program.literal or _JQ_WORDS.search(program.text):
        return f"may read more than its input with `{program.text}`"
    return ReadAccess(given.paths)


def _analyse_strings(arguments: tuple[Word, ...]) -> ReadAnalysis:
    given = parse_arguments(arguments, _STRINGS_FLAGS)
    if isinstance(given, str):
        return given
    if found := next((word for word in arguments if word.text.startswith("@") or word.glob), None):
        return f"may get any arguments from `{found.text}`"
    return ReadAccess(given.paths)


def _analyse_test(arguments: tuple[Word, ...]) -> ReadAnalysis:
    # Some bash operators evaluate their operands, including commands in an array index.
    if any(word.text in {"-v", "-R"} for word in arguments):
        return "may evaluate a name (`-v`, `-R`)"
    paths: list[Word] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word.glob:
            return f"may take arbitrary arguments from `{word.text}`"
        if word.text in _TEST_JOINS:
            continue
        if word.text in _TESTS_OF_FILES | _TESTS_OF_TEXT and words:
            operand = words.pop(0)
            paths += [operand] if word.text in _TESTS_OF_FILES else []
        elif words and words[0].text in _TEST_PAIRS and len(words) > 1:
            paths += [word, words[1]] if words[0].text in {"-nt", "-ot", "-ef"} else []
            del words[:2]
        elif word.text.startswith("-"):
            return f"has an operator that is not known to be read-only (`{word.text}`)"
    if any(path.glob for path in paths):
        return "may take arbitrary arguments from a glob"
    return ReadAccess(tuple(paths), names_only=True)


def _analyse_bracket(arguments: tuple[Word, ...]) -> ReadAnalysis:
    if not arguments or arguments[-1].text != "]":
        return "does not end with `]`"
    return _analyse_test(arguments[:-1])


def _analyse_date(arguments: tuple[Word, ...]) -> ReadAnalysis:
    given = parse_arguments(arguments, _DATE)
    if isinstance(given, str):
        return given
    # An operand without `+` is the time to set.
    if not all(word.literal and word.text.startswith("+") for word in given.operands):
        return "may set the clock"
    return ReadAccess()


def _analyse_echo(arguments: tuple[Word, ...]) -> ReadAnalysis:
    # The text itself is printed, but a glob lists names of files, also of those outside the workspace.
    return ReadAccess(tuple(word for word in arguments if word.glob), names_only=True)


def _analyse_printf(arguments: tuple[Word, ...]) -> ReadAnalysis:
    if not arguments or arguments[0].text.startswith("-") or not arguments[0].literal:
        return "may set a variable"
    if _PRINTF_ASSIGNS.search(arguments[0].text):
        return "may set a variable with `%n`"
    return ReadAccess(tuple(word for word in arguments if word.glob), names_only=True)


def _analyse_command(arguments: tuple[Word, ...]) -> ReadAnalysis:
    if len(arguments) == 2 and arguments[0].text in {"-v", "-V"} and arguments[1].literal:
        return ReadAccess()
    return "runs another command"


def _analyse_sleep(arguments: tuple[Word, ...]) -> ReadAnalysis:
    if len(arguments) == 1 and arguments[0].literal and re.fullmatch(r"\d{1,2}(\.\d+)?s?", arguments[0].text):
        return ReadAccess()
    return "may wait too long"


def _analyse_hostname(arguments: tuple[Word, ...]) -> ReadAnalysis:
    if all(word.text in {"-s", "-I", "--short"} for word in arguments):
        return ReadAccess()
    return "may set the host name, or look it up in the network"


def _analyse_printenv(arguments: tuple[Word, ...]) -> ReadAnalysis:
    if not arguments or not all(word.literal and _VARIABLE_NAME.fullmatch(word.text) for word in arguments):
        return "may show all of the environment"
    if secret := next((word.text for word in arguments if is_secret_setting(word.text)), None):
        return f"may show a secret, {secret}"
    return ReadAccess()


def _analyse_ps(arguments: tuple[Word, ...]) -> ReadAnalysis:
    # The letters mean different things with and without a dash; `e` shows environments.
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word.literal and (word.text in _PS_ALONE or _PS_BSD.fullmatch(word.text)):
            continue
        value = words.pop(0) if words else Word("")
        known = _PS_VALUED.get(word.text)
        if known is None or not value.literal or not known.fullmatch(value.text):
            return f"may show environments with `{word.text}`"
    return ReadAccess()


ARGUMENT_PARSERS: Mapping[str, Callable[[tuple[Word, ...]], ReadAnalysis]] = {
    "find": _analyse_find,
    "sed": _analyse_sed,
    "awk": _analyse_awk,
    "jq": _analyse_jq,
    "strings": _analyse_strings,
    "test": _analyse_test,
    "[": _analyse_bracket,
    "date": _analyse_date,
    "echo": _analyse_echo,
    "printf": _analyse_printf,
    "command": _analyse_command,
    "hostname": _analyse_hostname,
    "printenv": _analyse_printenv,
    "ps": _analyse_ps,
    "sleep": _analyse_sleep,
}
"""Command name -> function that analyses the arguments after the name."""
