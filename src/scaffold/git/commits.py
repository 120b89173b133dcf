"""Create commits, read them, compare their trees and test their ancestry."""

import asyncio
import contextlib
import os
import posixpath
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, convert, structs

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit, TreeId
from scaffold.core.run_settings import Signature
from scaffold.git.checkouts.submodule import (
    GITLINK_MODE,
    Gitlink,
    checked_out_submodule,
    foreign_repositories,
    gitlinks,
    is_gitlink_folder,
    keep_commit,
    missing_gitlinks,
    submodule_repositories,
)
from scaffold.git.checkouts.untouched_files import FormerFile, unstage_untouched
from scaffold.git.checkouts.worktree import remove_locks
from scaffold.git.checkouts.worktree_metadata import detached_commit
from scaffold.git.client.answer_cache import ALL_SUBMODULES, DIFFERENCES, GitResult, TreeListing
from scaffold.git.client.command_errors import objects_collected
from scaffold.git.client.command_line import Git

_FILE_MODE = "100"
"""Prefix of a regular file's octal mode; links and submodules have other prefixes."""
_LINK_MODE = "120000"
DIFF_OPTIONS = ("--no-ext-diff", "--no-textconv", "--no-color", "-M", "--submodule=short", ALL_SUBMODULES)
"""Make the patch independent of the user's configuration."""
WITHOUT_ATTRIBUTES = {"GIT_WORK_TREE": os.sep, "GIT_INDEX_FILE": "/nonexistent/index"}
"""Variables that make git ignore the repository's .gitattributes: `-diff` would hide the lines of a file."""
READ_COMMIT = ("rev-list", "--max-count=1", "--no-commit-header", "--format=%H %T %P", "--end-of-options")

READ_BLOB = ("cat-file", "blob")
MAX_KEPT_BYTES = 128 * 1024
"""The content of a larger file is not cached."""


class CommitInfo(Struct, frozen=True):
    """A commit with its tree and parents."""

    commit: Commit
    tree: str
    """The tree's id, in hex."""
    parents: tuple[Commit, ...]


class PathChange(Struct, frozen=True):
    """How a path differs between two commits; a rename is a deletion and an addition."""

    path: str
    kind: Literal["A", "D", "M", "T"]
    """Added | deleted | modified (contents or mode) | type changed, e.g. a file became a link."""
    mode: str = "100644"
    """The new mode, in octal as git writes it: `120000` for a link, `000000` for a deleted path."""
    object_id: str = ""
    """The id of the new content, in hex; for a submodule its commit."""
    former_id: str = ""
    """The id of the old content, likewise."""
    former_mode: str = "100644"
    """The old mode; `000000` for an added path."""

    @property
    def is_link(self) -> bool:
        """Whether the path is a symbolic link in the newer commit."""
        return self.mode == "120000"

    @property
    def is_gitlink(self) -> bool:
        """Whether the path is a submodule in the newer commit."""
        return self.mode == GITLINK_MODE

    def as_gitlink(self) -> Gitlink:
        """Return the submodule's new index entry; only if `is_gitlink`."""
        return Gitlink(self.path, Commit(self.object_id))


class KeptOut(Struct, frozen=True):
    """The user's own files in a worktree, which are never committed."""

    base: Commit
    """The commit that the work starts from."""
    files: Mapping[str, Path]
    """{path in the worktree: file outside it with the same content}. None of the paths exists in `base`."""


async def commit_all_info(
    git: Git,
    message: str,
    *,
    author: Signature,
    committer: Signature,
    kept_out: KeptOut | None = None,
    new_folders: bool = True,
    pin: str = "",
) -> CommitInfo:
    """Commit everything in the work tree that git does not ignore; return the commit at HEAD, changed or not.

    Call it only on one of our worktrees, between agent turns. HEAD ends up detached at the commit, and the ref `pin` at
    it; a branch that an agent checked out does not move. Changes in a submodule are committed there first and kept in
    its repository. GitError for another repository in a new folder, to which the commit would hold only a pointer.
    """
    # Between turns no process works here, so any lock was left by a killed git.
    await remove_locks(git)
    links = await gitlinks(git)
    # First, so that the commit contains the submodules' new commits as pointers.
    moved = await commit_submodules(git, links, message, author=author, committer=committer)
    # Before the add, which would turn a nested repository into a pointer and leave out its files.
    if planted := foreign_repositories(git, links):
        raise GitError(
            f"{git.cwd} contains another git repository in {', '.join(planted)}",
            f"remove {planted[0]}/.git and everything next to it: the repository of that submodule is not available "
            "here, so nothing in it can be committed",
        )
    others = (await git("ls-files", "--others", "--exclude-standard", "-z")).records if new_folders else ()
    # git lists a nested repository as a folder (`sub/`), everything else as files
    nested = [path.rstrip("/") for path in others if path.endswith("/")]
    if nested:
        raise GitError(
            f"{git.cwd} contains another git repository in {', '.join(nested)}",
            f"remove {nested[0]}/.git, or the whole folder, so that its files can be committed",
        )
    before = await read_head(git)

    async def make() -> CommitInfo:
        await stage_all(git, links, moved, kept_out=kept_out)
        try:
            return await _commit_staged(git, before, message, author=author, committer=committer, pin=pin)
        except GitError:
            if git.met_collection():
                # Add everything again: git does not check whether the object of a file in the index exists.
                await _set_refs(git, before.commit, "HEAD", pin)
                await git("read-tree", before.commit)
            raise

    return await git.made_whole(make)


async def commit_submodules(
    git: Git, links: Sequence[Gitlink], message: str, *, author: Signature, committer: Signature
) -> tuple[Gitlink, ...]:
    """Commit all changes in those submodules of one of our worktrees that are checked out; return the moved ones.

    Their new commits are pinned against pruning.
    """
    moved = []
    for link in links:
        inner = checked_out_submodule(git, link)
        if inner is None:
            continue
        now = await commit_all_info(inner, message, author=author, committer=committer)
        if now.commit != link.commit:
            await _refuse_missing(inner, link.commit, now.commit)
            await keep_commit(inner, now.commit)
            moved.append(Gitlink(link.path, now.commit))
    return tuple(moved)


async def stage_all(
    git: Git,
    links: Sequence[Gitlink],
    moved: Sequence[Gitlink],
    *,
    env: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    kept_out: KeptOut | None = None,
) -> None:
    """Add all files to the index, and `moved` submodules. Git enters none of the folders of `links`.

    With the option `--ignore-errors`, files that cannot be read are left out. The files `kept_out` are removed from
    the index, also under another path.
    """
    # Exit code 1: some files could not be read; all others were added.
    ok = frozenset({0, 1}) if options else frozenset({0})
    folders = [link.path for link in links if is_gitlink_folder(git.cwd, link.path)]
    excluded = [*folders, *(await _unstage_kept_out(git, kept_out, env) if kept_out else ())]
    if excluded:
        paths = _nul_terminated([":/", *(f":(top,exclude,literal){path}" for path in excluded)])
        by_list = ("--pathspec-from-file=-", "--pathspec-file-nul")
        await git("add", "--all", *options, *by_list, stdin=paths, env=env, ok=ok)
    else:
        await git("add", "--all", *options, "--", ":/", env=env, ok=ok)
    if moved:
        entries = _nul_terminated([f"{GITLINK_MODE} {link.commit}\t{link.path}" for link in moved])
        await git("update-index", "-z", "--index-info", stdin=entries, env=env)
    if kept_out and (copies := await _moved_copies(git, kept_out, env)):
        await git("update-index", "--force-remove", "-z", "--stdin", stdin=_nul_terminated(copies), env=env)


async def _unstage_kept_out(git: Git, kept_out: KeptOut, env: Mapping[str, str] | None) -> tuple[str, ...]:
    """Remove the paths from the index; return the ones that git does not ignore, which `add --all` would add.

    Ignored paths must not be passed to `add`: git refuses them, even as an exclusion.
    """
    await git("update-index", "--force-remove", "-z", "--stdin", stdin=_nul_terminated([*kept_out.files]), env=env)
    others = await git("ls-files", "-z", "--others", "--exclude-standard", env=env)
    return tuple(path for path in others.records if path in kept_out.files)


async def _moved_copies(git: Git, kept_out: KeptOut, env: Mapping[str, str] | None) -> tuple[str, ...]:
    """Return the added files with the name and content of a kept-out file: its folder was renamed.

    Content that exists anywhere in the base is not the user's own, and an empty file proves nothing.
    """
    sources: dict[str, list[Path]] = {}
    for path, source in kept_out.files.items():
        sources.setdefault(_file_name(path), []).append(source)
    args = ("diff-index", "--cached", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", ALL_SUBMODULES)
    records = (await git(*args, kept_out.base, env=env)).records
    added = [_parse_change(status, path) for status, path in zip(records[::2], records[1::2], strict=True)]
    similar = [each for each in added if each.mode.startswith(_FILE_MODE) and _file_name(each.path) in sources]
    if not similar:
        return ()
    known = frozenset((await listed_files(git, kept_out.base)).values())
    new = [each for each in similar if each.object_id not in known]
    sizes = await blob_sizes(git, [each.object_id for each in new])
    return tuple(
        [
            each.path
            for each, size in zip(new, sizes, strict=True)
            for source in sources[_file_name(each.path)]
            if size and size == _size_of(source) and await _has_content(git, each.object_id, source)
        ]
    )


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def _size_of(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except OSError:
        return None


async def _has_content(git: Git, blob: str, file: Path) -> bool:
    found = (await git("cat-file", "blob", blob)).out
    with contextlib.suppress(OSError):
        return found == await asyncio.to_thread(file.read_bytes)
    return False


async def commit_tree(
    git: Git, tree: str, *, parents: Sequence[Commit], message: str, author: Signature, committer: Signature
) -> Commit:
    """Create a commit of `tree` and return it; no ref points to it yet."""
    identity = {
        "GIT_AUTHOR_NAME": author.name,
        "GIT_AUTHOR_EMAIL": author.email,
        "GIT_COMMITTER_NAME": committer.name,
        "GIT_COMMITTER_EMAIL": committer.email,
    }
    flags = [word for parent in parents for word in ("-p", parent)]
    commit = Commit((await git("commit-tree", *flags, "-F", "-", tree, stdin=message.encode(), env=identity)).line)
    git.answers.keep(READ_COMMIT, (commit,), GitResult(0, f"{' '.join((commit, tree, *parents))}\n".encode(), b""))
    return commit


async def tree_of(git: Git, commit: Commit) -> TreeId:
    """Return the id of the tree of `commit`."""
    return TreeId((await read_commit(git, commit)).tree)


async def read_commit(git: Git, name: str) -> CommitInfo:
    """Return the commit that `name` (a ref, `HEAD`, an id) resolves to, or raise GitError."""
    commit, tree, *parents = (await git.read_cached(*READ_COMMIT, commits=(name,))).line.split()
    return CommitInfo(Commit(commit), tree, tuple(map(Commit, parents)))


async def read_head(git: Git) -> CommitInfo:
    """Return the commit at HEAD of one of our worktrees; runs no git if HEAD is detached at a commit that is known."""
    return await read_commit(git, detached_commit(git.registration) or "HEAD")


async def contains(git: Git, newer: CommitInfo, older: Commit) -> bool:
    """Return whether `newer` contains `older`; runs git only if `older` is neither `newer` nor a parent of it."""
    return older in {newer.commit, *newer.parents} or await is_ancestor(git, older, newer.commit)


async def is_ancestor(git: Git, older: Commit, newer: Commit) -> bool:
    """Return whether `newer` contains `older`; a commit contains itself."""
    return (await git("merge-base", "--is-ancestor", older, newer, ok=frozenset({0, 1}))).exit_code == 0


async def merge_base(git: Git, one: Commit, other: Commit) -> Commit | None:
    """Return the best common ancestor of two commits; None if they have none."""
    found = await git.read_cached("merge-base", commits=(one, other), ok=frozenset({0, 1}))
    return Commit(found.line) if found.exit_code == 0 else None


async def is_contained(git: Git, commit: Commit, tip: Commit) -> bool:
    """Return whether `tip` contains `commit`; False also if the repository no longer has `commit`."""
    return (await git("merge-base", "--is-ancestor", commit, tip, ok=frozenset({0, 1, 128}))).exit_code == 0


async def contained(git: Git, wanted: Collection[Commit], tip: Commit) -> frozenset[Commit]:
    """Return the commits in `wanted` that `tip` contains, in two calls of git; commits that are gone are left out."""
    asked = "\n".join((*wanted, "")).encode()
    lines = (await git("cat-file", "--batch-check=%(objectname)", stdin=asked)).line.splitlines()
    there = [Commit(line) for line in lines if not line.endswith(" missing")]
    if not there:
        return frozenset()
    limits = "\n".join((*there, f"^{tip}", "")).encode()
    beyond = (await git("rev-list", "--stdin", stdin=limits)).line.splitlines()
    return frozenset(there).difference(map(Commit, beyond))


async def changed_paths(git: Git, old: Commit, new: Commit) -> tuple[str, ...]:
    """Return the paths that differ between two commits, in git's order; both names of a renamed file."""
    return tuple((await _raw_diff(git, old, new)).records[1::2])


async def path_changes(git: Git, old: Commit, new: Commit) -> tuple[PathChange, ...]:
    """Return the path changes between two commits, in git's order."""
    return _path_changes(await _raw_diff(git, old, new))


async def modified_files(git: Git, old: Commit, new: Commit) -> tuple[FormerFile, ...]:
    """Return the regular files of both commits whose contents differ."""
    files = [
        each for each in await path_changes(git, old, new) if each.kind == "M" and each.mode.startswith(_FILE_MODE)
    ]
    return tuple(FormerFile(each.path, each.mode, each.former_id) for each in files if each.object_id != each.former_id)


async def submodule_changes(git: Git, old: Commit, new: Commit) -> tuple[PathChange, ...]:
    """Return the path changes inside the submodules that the change moves, nested ones too.

    Paths begin at the top of the outermost repository. A submodule commit that is missing here yields no changes.
    """
    moved = [each for each in await path_changes(git, old, new) if each.is_gitlink and each.kind == "M"]
    repositories = await submodule_repositories(git, new) if moved else {}
    found = list[PathChange]()
    for link in moved:
        inner, ends = repositories.get(link.path), (Commit(link.former_id), Commit(link.object_id))
        if inner is None or await missing_gitlinks(git, new, [link.as_gitlink()]):
            continue
        changes = (*await path_changes(inner, *ends), *await submodule_changes(inner, *ends))
        found += [structs.replace(change, path=f"{link.path}/{change.path}") for change in changes]
    return tuple(found)


async def patch_fingerprint(git: Git, old: Commit, new: Commit) -> bytes:
    """Return a fingerprint of the change: equal for two changes with the same blobs before and after."""
    return (await _raw_diff(git, old, new)).out


async def renames(git: Git, old: Commit, new: Commit) -> dict[str, str]:
    """Return {old name: new name} of the files that git detects as renamed by similar contents."""
    kinds = {change.kind for change in await path_changes(git, old, new)}
    if not kinds >= {"A", "D"}:
        return {}
    records = (await git("diff-tree", "-r", "-z", "-M", "--diff-filter=R", "--name-status", old, new)).records
    return dict(zip(records[1::3], records[2::3], strict=True))


async def file_contents(git: Git, commit: Commit, path: str) -> bytes | None:
    """Return the contents of a file, or the target of a link, at a commit; None if the path is neither."""
    return (await batch_contents(git, [f"{commit}:{path}"]))[0]


async def batch_contents(git: Git, names: Sequence[str]) -> tuple[bytes | None, ...]:
    """Return the contents of files named by id or `COMMIT:PATH`, None for a missing file; runs at most one process."""
    ids = [_blob_id(git, name) for name in names]
    known = {each: git.answers.find((*READ_BLOB, each)) for each in ids}
    found: dict[str, bytes | None] = {each: answer.out for each, answer in known.items() if answer}
    if unknown := [each for each in known if each and each not in found]:
        found.update(zip(unknown, await _read_blobs(git, unknown), strict=True))
    return tuple(map(found.get, ids))


def _blob_id(git: Git, name: str) -> str:
    """Return the id of `COMMIT:PATH` if the commit's listing is known, empty without such a file; else the name."""
    commit, _, path = name.partition(":")
    # A path that begins or is joined in another way is git's to read.
    listing = git.answers.listing(Commit(commit)) if path and path == posixpath.normpath(path) else None
    return name if listing is None else listing.blob(path)


async def _read_blobs(git: Git, names: Sequence[str]) -> list[bytes | None]:
    requests = [name.encode(errors="surrogateescape") for name in names]
    out = (await git("cat-file", "--batch", "-z", stdin=b"\0".join((*requests, b"")))).out
    found: list[bytes | None] = []
    at = 0
    for name in requests:
        absent = name + b" missing\n"
        if out.startswith(absent, at):
            found.append(None)
            at += len(absent)
            continue
        # Read by the length that git reports, because the contents may look like the next answer.
        begin = out.index(b"\n", at) + 1
        *_, kind, size = out[at : begin - 1].split(b" ")
        content, at = out[begin : begin + int(size)], begin + int(size) + 1
        found.append(content if kind == b"blob" else None)
        if kind == b"blob" and len(content) <= MAX_KEPT_BYTES:
            git.answers.keep(READ_BLOB, (os.fsdecode(name),), GitResult(0, content, b""))
    return found


async def diff_text(git: Git, old: Commit, new: Commit, *, limit_bytes: int, paths: Sequence[str] = ()) -> str:
    """Return the patch from `old` to `new` for display; above `limit_bytes` its middle is replaced by a note.

    If `paths` are given, the patch is limited to them.
    """
    args = ("diff-tree", "-r", "-p", *DIFF_OPTIONS, old, new, "--", *(f":(top,literal){path}" for path in paths))
    answer = await git(*args, env=WITHOUT_ATTRIBUTES, limit_bytes=limit_bytes)
    return answer.out.decode(errors="replace")


def _parse_change(status: str, path: str) -> PathChange:
    former_mode, mode, old, new, kind = status.removeprefix(":").split()
    ids = {"object_id": new, "former_id": old}
    return convert({"path": path, "kind": kind, "mode": mode, **ids, "former_mode": former_mode}, PathChange)


def _nul_terminated(records: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(record) + b"\0" for record in records)


async def _refuse_missing(git: Git, old: Commit, new: Commit) -> None:
    """Raise GitError if a change in a submodule moves a nested submodule to a commit that is missing here."""
    links = [each.as_gitlink() for each in await path_changes(git, old, new) if each.is_gitlink]
    if missing := await missing_gitlinks(git, new, links):
        raise GitError(
            f"{git.cwd / missing[0].path} points to {missing[0].commit[:12]}, which is not a commit of that submodule "
            "here",
            f"restore it: `git update-index --cacheinfo {GITLINK_MODE},COMMIT,{missing[0].path}` in {git.cwd}",
        )


async def listed_paths(git: Git, commit: Commit) -> tuple[str, ...]:
    """Return every path of the commit's tree, in git's order; a submodule is the path of its folder."""
    return (await list_tree(git, commit)).paths


async def listed_files(git: Git, commit: Commit) -> dict[str, str]:
    """Return {path: blob id} of the regular files in the commit's tree; no links, no submodules."""
    return (await list_tree(git, commit)).with_mode(_FILE_MODE)


async def listed_links(git: Git, commit: Commit) -> dict[str, str]:
    """Return {path: blob id} of the symbolic links in the commit's tree; the blob contains the target."""
    return (await list_tree(git, commit)).with_mode(_LINK_MODE)


async def list_tree(git: Git, commit: Commit) -> TreeListing:
    """Return the listing of the commit's tree, derived from a cached listing if possible, else read by git."""
    found = git.answers.listing(commit)
    if found is None and (other := next(git.answers.listed(), None)) is not None:
        # Shorter than a listing, and asked for by others, too. The other commit may have been collected.
        await git.read_cached(*DIFFERENCES, commits=(other, commit), ok=frozenset({0, 128}))
        found = git.answers.listing(commit)
    if found is None:
        found = TreeListing.from_records((await git("ls-tree", "-r", "-z", "--full-tree", commit)).records)
        git.answers.keep_listing(commit, found)
    return found


async def blob_sizes(git: Git, ids: Sequence[str]) -> tuple[int | None, ...]:
    """Return the size of each blob in bytes, None for a missing object; runs one process."""
    if not ids:
        return ()
    output = (await git("cat-file", "--batch-check=%(objectsize)", stdin="\n".join((*ids, "")).encode())).line
    return tuple(None if line.endswith(" missing") else int(line) for line in output.split("\n"))


async def _commit_staged(
    git: Git, before: CommitInfo, message: str, *, author: Signature, committer: Signature, pin: str
) -> CommitInfo:
    """Commit the index on top of `before`, which is at HEAD; return the commit at HEAD, `before` if nothing changed."""
    # Not `git commit`: it would run hooks, finish a pending merge, and move the branch that HEAD names.
    tree = (await git("write-tree")).line
    if tree == before.tree:
        await _set_refs(git, before.commit, pin)
        return before
    parents = (before.commit,)
    commit = await commit_tree(git, tree, parents=parents, message=message, author=author, committer=committer)
    if await unstage_untouched(git, await modified_files(git, before.commit, commit)):
        tree = (await git("write-tree")).line
        if tree == before.tree:
            await _set_refs(git, before.commit, pin)
            return before
        commit = await commit_tree(git, tree, parents=parents, message=message, author=author, committer=committer)
    await _set_refs(git, commit, "HEAD", pin)
    if not await git.still_has(commit, known=before.commit):
        raise objects_collected(commit)
    return CommitInfo(commit, tree, parents)


async def _set_refs(git: Git, commit: Commit, *names: str) -> None:
    """Set all refs that have a name to the commit, in one transaction; a HEAD on a branch leaves it."""
    wanted = "".join(f"option no-deref\nupdate {name} {commit}\n" for name in names if name)
    if wanted:
        await git("update-ref", "--stdin", stdin=wanted.encode())


async def _raw_diff(git: Git, old: Commit, new: Commit) -> GitResult:
    # The full diff is cached once for paths, kinds of change, fingerprints and listings.
    known = git.answers.difference(old, new)
    return await git.read_cached(*DIFFERENCES, commits=(old, new)) if known is None else known


def _path_changes(differences: GitResult) -> tuple[PathChange, ...]:
    records = differences.records
    return tuple(_parse_change(status, path) for status, path in zip(records[::2], records[1::2], strict=True))
