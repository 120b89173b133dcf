"""Faults in code of other languages: by rules about the text of single lines."""

import re
from collections.abc import Collection, Iterator

from scaffold.verify.planted_faults.fault import Fault, FaultKind

ENDINGS = frozenset(
    (
        *("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "go", "rs", "java", "kt", "kts", "scala", "swift"),
        *("c", "h", "cc", "cpp", "cxx", "hpp", "cs", "rb", "php", "dart", "lua"),
    )
)
_COMMENTS = (b"//", b"#", b"*", b"/*", b"--")
_RULES: tuple[tuple[FaultKind, re.Pattern[bytes], bytes], ...] = (
    ("boundary", re.compile(rb"(?<=\s)<=(?=\s)"), b"<"),
    ("boundary", re.compile(rb"(?<=\s)>=(?=\s)"), b">"),
    ("boundary", re.compile(rb"(?<=[\w)\]] )<(?= [\w(])"), b"<="),
    ("boundary", re.compile(rb"(?<=[\w)\]] )>(?= [\w(])"), b">="),
    ("operator", re.compile(rb"(?<=\s)===(?=\s)"), b"!=="),
    ("operator", re.compile(rb"(?<=\s)!==(?=\s)"), b"==="),
    ("operator", re.compile(rb"(?<=\s)==(?=\s)"), b"!="),
    ("operator", re.compile(rb"(?<=\s)!=(?=\s)"), b"=="),
    ("operator", re.compile(rb"&&"), b"||"),
    ("operator", re.compile(rb"\|\|"), b"&&"),
    ("operator", re.compile(rb"(?<=[\w)\]] )\+(?= [\w(])"), b"-"),
    ("operator", re.compile(rb"(?<=[\w)\]] )-(?= [\w(])"), b"+"),
    ("operator", re.compile(rb"\btrue\b"), b"false"),
    ("operator", re.compile(rb"\bfalse\b"), b"true"),
    ("swapped_arguments", re.compile(rb"(?<=\w\()(\w+), (\w+)(?=\))"), rb"\2, \1"),
    ("deleted_check", re.compile(rb"^[ \t]*if\b.*\b(?:return|throw|continue|break)\b[^{}]*;?[ \t]*\r?\n"), b""),
)


def text_faults(path: str, content: bytes, lines: Collection[int]) -> Iterator[Fault]:
    """Yield the faults that can be planted at `lines` (from 1) of a file; none if its language is not known."""
    if path.rpartition(".")[2].lower() not in ENDINGS or b"\0" in content:
        return
    at = 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        if number in lines and not line.lstrip().startswith(_COMMENTS):
            for kind, pattern, new in _RULES:
                for found in pattern.finditer(line):
                    after = found.expand(new)
                    if after != found[0]:
                        yield Fault(
                            path=path, line=number, start=at + found.start(), end=at + found.end(), new=after, kind=kind
                        )
        at += len(line)
