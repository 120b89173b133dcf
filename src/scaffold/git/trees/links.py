"""Follow symbolic links to files of the same commit: a link may give a file another suffix, such as `.py`."""

import os
from collections.abc import Mapping, Sequence
from posixpath import splitext

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.git.commits import PathChange

MAX_STEPS = 40
"""The most links to follow to one file, as in Linux."""


class _FilesAndLinks(Struct, frozen=True):
    files: Mapping[str, str]
    """{path: blob id} of the regular files."""
    linked: Mapping[str, str]
    """{link: file} for links to regular files with another suffix."""

    def content(self, path: str) -> str:
        """Return the id of the contents that are read under a path; empty if the path does not exist."""
        return self.files.get(self.linked.get(path, path), "")


async def linked_files(git: Git, commit: Commit) -> Mapping[str, str]:
    """Return {link: file} for the commit's links to its own regular files with another suffix than the link."""
    return (await _read_files_and_links(git, commit)).linked


async def follow_links(git: Git, old: Commit, new: Commit, changes: Sequence[PathChange]) -> tuple[PathChange, ...]:
    """Return the changes from `old` to `new`, treating links to files with another suffix as these files.

    A file that changed under such a link counts twice, by its own name and by the link's.
    """
    after = await _read_files_and_links(git, new)
    if not after.linked and all(change.kind != "T" for change in changes):
        return tuple(changes)
    before = await _read_files_and_links(git, old)
    links = {*before.linked, *after.linked}
    followed = []
    for path in sorted(links):
        was, now = before.content(path), after.content(path)
        if was and now:
            followed.append(PathChange(path, "M", object_id=now, former_id=was))
        elif now:
            followed.append(PathChange(path, "A", object_id=now))
        else:
            followed.append(PathChange(path, "D", mode="000000", former_id=was))
    own = (change for change in changes if change.path not in links)
    return (*own, *(each for each in followed if each.object_id != each.former_id))


async def _read_files_and_links(git: Git, commit: Commit) -> _FilesAndLinks:
    files = await commits.listed_files(git, commit)
    links = await commits.listed_links(git, commit)
    targets = await commits.batch_contents(git, [*links.values()])
    texts = {path: os.fsdecode(text) for path, text in zip(links, targets, strict=True) if text is not None}
    found = {path: resolved_path(path, texts) for path in texts}
    return _FilesAndLinks(
        files=files,
        linked={
            link: path
            for link, path in found.items()
            if path is not None and path in files and splitext(path)[1] != splitext(link)[1]
        },
    )


def resolved_path(path: str, links: Mapping[str, str]) -> str | None:
    """Resolve a path of a tree, given the targets of the tree's links; None if it leads outside or in a loop.

    Parent folders may be links, too.
    """
    done, left, steps = list[str](), path.split("/"), 0
    while left:
        part = left.pop(0)
        if part == ".." and not done:
            return None
        if part == "..":
            done.pop()
        elif part not in {"", "."}:
            done.append(part)
            target = links.get("/".join(done))
            if target is not None:
                steps += 1
                if steps > MAX_STEPS or target.startswith("/"):
                    return None
                done.pop()
                left = [*target.split("/"), *left]
    return "/".join(done)
