"""Commits: made from a work tree or from a tree, compared, related."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, convert

from scaffold.core.errors import GitFailed
from scaffold.core.ids import Commit
from scaffold.core.model import Signature
from scaffold.git.command import Answer, Git
from scaffold.git.refs import resolve
from scaffold.git.submodule import keep, populated
from scaffold.git.worktree import unlock

_FILE = "100"
"""How the mode of a file begins, in octal; those of links and submodules do not."""
ALL_SUBMODULES = "--ignore-submodules=none"
"""Whatever .gitmodules says, which a candidate may have written."""
READABLE = ("--no-ext-diff", "--no-textconv", "--no-color", "-M", ALL_SUBMODULES)
"""For a patch that is the same whatever somebody has configured."""


class Described(Struct, frozen=True):
    """A commit and what it says of itself."""

    commit: Commit
    tree: str
    """Its id, in hex."""
    parents: tuple[Commit, ...]


class Change(Struct, frozen=True):
    """How a path differs between two commits; a renamed file is deleted and added."""

    path: str
    kind: Literal["A", "D", "M", "T"]
    """Added | deleted | other contents or mode | of another type, such as a link in place of a file."""
    mode: str = "100644"
    """As git writes it, in octal: `120000` is a link; `000000` of what is deleted."""

    @property
    def is_link(self) -> bool:
        """Whether a link is there now."""
        return self.mode == "120000"


async def commit_all(git: Git, message: str, *, author: Signature, committer: Signature) -> Commit | None:
    """Commit everything in the work tree that git does not ignore, return the commit; None if nothing differs.

    For a worktree of ours, between the turns of whoever works in it. HEAD ends up detached at the commit: a branch
    that an agent may have checked out stays where it is. Raises GitFailed for a repository made inside this one:
    a commit would hold a mere pointer to it, and its files would be lost. Changes inside a submodule are committed
    there first, and kept in its repository.
    """
    before, now = await _committed(git, message, author=author, committer=committer)
    return None if now == before else now.commit


async def head_with_all(git: Git, message: str, *, author: Signature, committer: Signature) -> Described:
    """Do as `commit_all` does, and return what HEAD is at then, whether or not anything differed."""
    _, now = await _committed(git, message, author=author, committer=committer)
    return now


async def commit_submodules(git: Git, message: str, *, author: Signature, committer: Signature) -> None:
    """Commit everything in the submodules of a worktree of ours, as `commit_all` does; what is new in them is kept."""
    for inner, link in await populated(git):
        await commit_all(inner, message, author=author, committer=committer)
        head = await resolve(inner, "HEAD")
        if head is not None and head != link.commit:
            await keep(inner, head)


async def commit_tree(
    git: Git, tree: str, *, parents: Sequence[Commit], message: str, author: Signature, committer: Signature
) -> Commit:
    """Return a new commit of `tree` that no ref keeps yet."""
    people = {
        "GIT_AUTHOR_NAME": author.name,
        "GIT_AUTHOR_EMAIL": author.email,
        "GIT_COMMITTER_NAME": committer.name,
        "GIT_COMMITTER_EMAIL": committer.email,
    }
    flags = [word for parent in parents for word in ("-p", parent)]
    return Commit((await git("commit-tree", *flags, "-F", "-", tree, stdin=message.encode(), env=people)).line)


async def tree_of(git: Git, commit: Commit) -> str:
    """Return the id of the tree of `commit`, in hex."""
    return (await git("rev-parse", "--verify", f"{commit}^{{tree}}")).line


async def describe(git: Git, name: str) -> Described:
    """Return what `name` (a ref, `HEAD`, an id) stands for; raises GitFailed if it stands for no commit."""
    said = await git("rev-list", "--max-count=1", "--no-commit-header", "--format=%H %T %P", "--end-of-options", name)
    commit, tree, *parents = said.line.split()
    return Described(Commit(commit), tree, tuple(map(Commit, parents)))


async def contains(git: Git, newer: Described, older: Commit) -> bool:
    """Return whether `newer` contains `older`; git is asked only where it is neither that nor made from it."""
    return older in {newer.commit, *newer.parents} or await is_ancestor(git, older, newer.commit)


async def is_ancestor(git: Git, older: Commit, newer: Commit) -> bool:
    """Return whether `newer` contains `older`; a commit contains itself."""
    return (await git("merge-base", "--is-ancestor", older, newer, ok=frozenset({0, 1}))).exit_code == 0


async def changed_paths(git: Git, old: Commit, new: Commit) -> tuple[str, ...]:
    """Return the paths that differ between two commits, sorted as git does; of a renamed file both names."""
    return tuple((await _differences(git, old, new)).records[1::2])


async def changes(git: Git, old: Commit, new: Commit) -> tuple[Change, ...]:
    """Return how each path differs between two commits, sorted as git does."""
    told = (await _differences(git, old, new)).records
    return tuple(_change(how, path) for how, path in zip(told[::2], told[1::2], strict=True))


async def fingerprint(git: Git, old: Commit, new: Commit) -> bytes:
    """Return what two differences have in common that change the same contents to the same, and no others have."""
    return (await _differences(git, old, new)).out


async def renames(git: Git, old: Commit, new: Commit) -> dict[str, str]:
    """Return the new names of files by those they had in the older commit, as far as their contents tell."""
    kinds = {change.kind for change in await changes(git, old, new)}
    if not kinds >= {"A", "D"}:
        return {}
    told = (await git("diff-tree", "-r", "-z", "-M", "--diff-filter=R", "--name-status", old, new)).records
    return dict(zip(told[1::3], told[2::3], strict=True))


async def contents(git: Git, commit: Commit, path: str) -> bytes | None:
    """Return what a file, or where a link leads, at a commit; None if nothing of the kind is there."""
    answer = await git("cat-file", "blob", f"{commit}:{path}", ok=frozenset({0, 128}))
    return answer.out if answer.exit_code == 0 else None


async def all_contents(git: Git, names: Sequence[str]) -> tuple[bytes | None, ...]:
    """Return what is in files, each an id or `COMMIT:PATH`, by one process; None for what is not there."""
    if not names:
        return ()
    asked = [name.encode(errors="surrogateescape") for name in names]
    out = (await git("cat-file", "--batch", "-z", stdin=b"\0".join((*asked, b"")))).out
    found: list[bytes | None] = []
    at = 0
    for name in asked:
        absent = name + b" missing\n"
        if out.startswith(absent, at):
            found.append(None)
            at += len(absent)
            continue
        begin = out.index(b"\n", at) + 1
        end = begin + int(out[at:begin].rpartition(b" ")[2])
        found.append(out[begin:end])
        at = end + 1
    return tuple(found)


async def diff_text(git: Git, old: Commit, new: Commit, *, limit_bytes: int) -> str:
    """Return the patch from `old` to `new` for reading; above `limit_bytes` its middle is left out, and it says so."""
    answer = await git("diff-tree", "-r", "-p", *READABLE, old, new, limit_bytes=limit_bytes)
    return answer.out.decode(errors="replace")


def _change(how: str, path: str) -> Change:
    _, mode, _, _, kind = how.split()
    return convert({"path": path, "kind": kind, "mode": mode}, Change)


async def _refuse_nested(git: Git) -> None:
    """Git lists a repository inside the work tree as a folder, all else as files."""
    others = await git("ls-files", "--others", "--exclude-standard", "-z")
    nested = [path.rstrip("/") for path in others.records if path.endswith("/")]
    if nested:
        raise GitFailed(
            f"{git.cwd} holds a git repository of its own in {', '.join(nested)}",
            f"remove {nested[0]}/.git, or the folder, so that its files can be committed",
        )


async def listed_paths(git: Git, commit: Commit) -> tuple[str, ...]:
    """Return every path of the commit's tree, sorted as git does; submodules by their folder."""
    return tuple(record.partition("\t")[2] for record in await _tree_records(git, commit))


async def listed_files(git: Git, commit: Commit) -> dict[str, str]:
    """Return the id of what is in each file of the commit's tree by its path; links and submodules are none."""
    entries = (record.partition("\t") for record in await _tree_records(git, commit))
    return {path: about.split()[2] for about, _, path in entries if about.startswith(_FILE)}


async def sizes(git: Git, ids: Sequence[str]) -> tuple[int | None, ...]:
    """Return how many bytes are in each file, by one process; None for an object that is not here."""
    if not ids:
        return ()
    told = (await git("cat-file", "--batch-check=%(objectsize)", stdin="\n".join((*ids, "")).encode())).line
    return tuple(None if line.endswith(" missing") else int(line) for line in told.split("\n"))


async def _committed(git: Git, message: str, *, author: Signature, committer: Signature) -> tuple[Described, Described]:
    """Commit everything, and return what HEAD was at and what it is at now; the same if nothing differs."""
    await unlock(git)
    await commit_submodules(git, message, author=author, committer=committer)
    await _refuse_nested(git)
    await git("add", "--all", "--", ":/")
    tree = (await git("write-tree")).line
    before = await describe(git, "HEAD")
    if tree == before.tree:
        return before, before
    parents = (before.commit,)
    commit = await commit_tree(git, tree, parents=parents, message=message, author=author, committer=committer)
    await git("update-ref", "--no-deref", "HEAD", commit)
    return before, Described(commit, tree, parents)


async def _differences(git: Git, old: Commit, new: Commit) -> Answer:
    """Ask for all that is to be known at once, so that who wants one thing of it after the other asks only once."""
    asked = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", ALL_SUBMODULES)
    return await git.about(*asked, commits=(old, new))


async def _tree_records(git: Git, commit: Commit) -> list[str]:
    return (await git.about("ls-tree", "-r", "-z", "--full-tree", commits=(commit,))).records
