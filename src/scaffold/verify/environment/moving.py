"""What installers write down about where they installed to, written anew where the folder has a copy."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

LARGEST_BYTES = 1_000_000
"""Nothing that names a place is longer; programs are."""
PLACES = (
    "pyvenv.cfg",
    "bin/*",
    "lib*/python*/site-packages/*.pth",
    "lib*/python*/site-packages/*.egg-link",
    "lib*/python*/site-packages/__editable__*",
    "lib*/python*/site-packages/_*_editable*.py",
    "lib*/python*/site-packages/*.dist-info/direct_url.json",
)
"""Below a virtual environment: which files name the place it was made in, or that of the code it leads to."""

_SHEBANG = re.compile(rb"#!\s*(?P<program>/.*?)(?P<options>( -\S+)*)\r?\n")
_EXEC = re.compile(rb"#!/bin/sh\n'''exec' \"?(?P<program>/.*?)\"?(?P<options>( -\S+)*) \"\$0\" \"\$@\"\n' '''\n")


def led(made_for: str, top: str, target: str, source: str, folder: str, leads: str) -> str:
    """Return where the copy of a link leads, so that what lay in the checkout `made_for` now lies in that at `top`.

    The link was in `folder`, in the copied folder `source`, which was `target` in that checkout, and led to `leads`.
    One that led out of the checkout, however it said so, leads there still.
    """
    here = Path(made_for, target, os.path.relpath(folder, source))
    place = os.path.normpath(here / leads)
    inside = place == made_for or place.startswith(f"{made_for}/")
    if not leads.startswith("/"):
        return leads if inside else place
    return f"{top}{place.removeprefix(made_for)}" if inside else leads


def mend(copy: Path, made_for: str, top: str) -> None:
    """Have the files in `copy` that name the checkout `made_for` name the one at `top`."""
    for path in _named(copy):
        found = path.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST_BYTES:
            told = path.read_bytes()
            moved = mended(told, made_for.encode(), top.encode())
            if moved != told:
                path.write_bytes(moved)  # its time changes with it: nothing compiled from the old one is believed


def mended(told: bytes, old: bytes, new: bytes) -> bytes:
    """Return the content of a file with the place `old` replaced by `new`, also where `old` is only its beginning.

    The first line of a script may neither be long nor have spaces in its path: then a shell starts the interpreter.
    """
    script = _SHEBANG.match(told) if not (by_shell := _EXEC.match(told)) else by_shell
    moved = _replaced(told, old, new)
    if script is None or not _begins(script["program"], old):
        return moved
    program = _replaced(script["program"], old, new)
    first = b"#!/bin/sh\n'''exec' \"" + program + b'"' + script["options"] + b" \"$0\" \"$@\"\n' '''\n"
    return first + _replaced(told[script.end() :], old, new)


def _begins(path: bytes, place: bytes) -> bool:
    return path == place or path.startswith(place + b"/")


def _replaced(told: bytes, old: bytes, new: bytes) -> bytes:
    """Replace whole paths: what only begins alike is another place."""
    return re.sub(re.escape(old) + rb"(?![\w.-])", lambda _: new, told)


def _named(copy: Path) -> Iterator[Path]:
    for place in PLACES:
        yield from copy.glob(place)
