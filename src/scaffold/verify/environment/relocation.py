"""Rewrite the absolute paths that installers leave in their files, for a copy in another checkout."""

import os
import re
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

MAX_BYTES = 1_000_000
"""Larger files are not rewritten: files with paths are smaller, programs are larger."""
PATH_BEARING_FILES = (
    "pyvenv.cfg",
    "bin/*",
    "lib*/python*/site-packages/*.pth",
    "lib*/python*/site-packages/*.egg-link",
    "lib*/python*/site-packages/__editable__*",
    "lib*/python*/site-packages/_*_editable*.py",
    "lib*/python*/site-packages/*.dist-info/direct_url.json",
)
"""Files in a virtual environment that contain its own path or the path of editable sources."""

_SHEBANG = re.compile(rb"#!\s*(?P<program>/.*?)(?P<options>( -\S+)*)\r?\n")
_EXEC = re.compile(rb"#!/bin/sh\n'''exec' \"?(?P<program>/.*?)\"?(?P<options>( -\S+)*) \"\$0\" \"\$@\"\n' '''\n")
_ACTIVATED = re.compile(
    rb"^(?P<sets>VIRTUAL_ENV=|set -gx VIRTUAL_ENV |setenv VIRTUAL_ENV )(?P<path>/[^\s'\"]*)$", re.MULTILINE
)
"""An unquoted path in an activation script; venv quotes only if needed."""


def relocated_link(made_for: str, top: str, target: str, source: str, folder: str, leads: str) -> str:
    """Return the target of a copied link, with the checkout `made_for` replaced by the one at `top`.

    The link is in `folder` below the copied folder `source`, which was `target` in `made_for`, and points to `leads`.
    A link that points outside the checkout, absolute or relative, keeps pointing there.
    """
    here = Path(made_for, target, os.path.relpath(folder, source))
    path = os.path.normpath(here / leads)
    inside = path == made_for or path.startswith(f"{made_for}/")
    # A relative link inside the checkout stays right in every copy; one that leads out starts from another folder now.
    if not leads.startswith("/"):
        return leads if inside else path
    return f"{top}{path.removeprefix(made_for)}" if inside else leads


def relocate_copy(copy: Path, made_for: str, top: str) -> None:
    """Replace the path of the checkout `made_for` by `top` in the files of `copy`."""
    for path in _path_bearing_files(copy):
        found = path.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_size <= MAX_BYTES:
            content = path.read_bytes()
            moved = relocated_content(content, made_for.encode(), top.encode())
            if moved != content:
                path.write_bytes(moved)  # the new mtime invalidates stale bytecode


def relocated_content(content: bytes, old: bytes, new: bytes) -> bytes:
    """Return the content of a file with the path `old`, also as a prefix of longer paths, replaced by `new`.

    A script's shebang line becomes one for /bin/sh that starts the interpreter: a shebang path has a length limit and
    cannot contain spaces.
    """
    script = _SHEBANG.match(content) if not (by_shell := _EXEC.match(content)) else by_shell
    moved = _replace_paths(_quote_path(content, old, new), old, new)
    if script is None or not _lies_in(script["program"], old):
        return moved
    program = _replace_paths(script["program"], old, new)
    first = b"#!/bin/sh\n'''exec' \"" + program + b'"' + script["options"] + b" \"$0\" \"$@\"\n' '''\n"
    return first + _replace_paths(content[script.end() :], old, new)


def _quote_path(content: bytes, old: bytes, new: bytes) -> bytes:
    """Quote the path `old` in an activation script if the shell needs quotes for `new`."""
    if shlex.quote(os.fsdecode(new)) == os.fsdecode(new):
        return content
    return _ACTIVATED.sub(
        lambda line: line["sets"] + b"'" + line["path"] + b"'" if _lies_in(line["path"], old) else line[0], content
    )


def _lies_in(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder + b"/")


def _replace_paths(content: bytes, old: bytes, new: bytes) -> bytes:
    """Replace whole paths only: `/a/b` does not match in `/a/bc`."""
    # A function, because a backslash in the new path would be an escape in a replacement text.
    return re.sub(re.escape(old) + rb"(?![\w.-])", lambda _: new, content)


def _path_bearing_files(copy: Path) -> Iterator[Path]:
    for pattern in PATH_BEARING_FILES:
        yield from copy.glob(pattern)
