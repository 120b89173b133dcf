"""Read from an error of a JavaScript engine or module loader which name it could not resolve."""

import re

_NOT_CALLABLE = re.compile(
    r"(?:(?<![\w$.)\]])|(?<=require\(\.\.\.\)\.))([A-Za-z_$][\w$.]*)\)? is not a (?:function|constructor)\b"
)
"""Not of what a call returned: that it lacks a method may be what the work broke."""
_NOT_DEFINED = re.compile(r"(?:ReferenceError: |^)([A-Za-z_$][\w$]*) is not defined\b", re.MULTILINE)
_NOT_EXPORTED = re.compile(r"does not provide an export named '([^']+)'")
_NO_MODULE = re.compile(r"(?:Cannot find module|Failed to load url|Failed to resolve import) ['\"]?(\.{1,2}/[^'\"\s]+)")


def unresolved_name(message: str) -> str | None:
    """Return the last part of the name, or the module's name, that an error says cannot be resolved; None if none."""
    for pattern in (_NOT_EXPORTED, _NO_MODULE, _NOT_DEFINED, _NOT_CALLABLE):
        found = pattern.search(message)
        if found:
            name = found[1].rpartition("/")[2].partition(".")[0] if pattern is _NO_MODULE else found[1]
            return name.rpartition(".")[2] or None
    return None
