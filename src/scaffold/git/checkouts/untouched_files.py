"""Files that `git add` would change although their bytes on disk have not changed.

A file whose stored content breaks its own attributes, such as one with CRLF line ends below `*.txt text`, is modified
for git as soon as it is checked out, and adding it stores another content.
"""

import asyncio
import hashlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.git.client.command_line import Git
from scaffold.host.contained_path import ContainedPath

MAX_BYTES = 512 * 1024 * 1024
"""The size of a larger file is answer enough: as we call it, git does not convert it."""
_SHA1_LENGTH = 40


class FormerFile(Struct, frozen=True):
    """A regular file whose content in the index differs from its former content."""

    path: str
    mode: str
    """Its new mode, in octal as git writes it."""
    former_id: str
    """The id of its former content, in hex."""


async def unstage_untouched(
    git: Git, changed: Collection[FormerFile], *, env: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Restore in the index the files whose bytes on disk are still the former content; return their paths.

    `changed` are the files in which the index differs from the commit that was checked out.
    """
    untouched = await asyncio.to_thread(lambda: [each for each in changed if is_untouched(git.cwd, each)])
    if untouched:
        entries = [f"{each.mode} {each.former_id}\t{each.path}\0" for each in untouched]
        await git("update-index", "-z", "--index-info", stdin=os.fsencode("".join(entries)), env=env)
    return tuple(each.path for each in untouched)


def is_untouched(folder: Path, file: FormerFile) -> bool:
    """Return whether the bytes of the file in the checkout are its former content."""
    content = ContainedPath(folder, file.path).read(MAX_BYTES)
    if isinstance(content, str):
        return False
    digest = hashlib.sha1 if len(file.former_id) == _SHA1_LENGTH else hashlib.sha256
    return digest(b"blob %d\0" % len(content) + content).hexdigest() == file.former_id
