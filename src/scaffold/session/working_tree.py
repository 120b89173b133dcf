"""What changed in a session's directory: by git, or by the tools of the session."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import GitError, UsageError
from scaffold.core.ids import Commit
from scaffold.core.printable_text import count_of, join_limited
from scaffold.git.checkouts.worktree_metadata import find_checkout
from scaffold.git.client.command_line import Git
from scaffold.git.commits import merge_base
from scaffold.git.refs import resolve
from scaffold.policy.path.containment import Refusal
from scaffold.session.file_history import ChangedFile, FileHistory, TurnChanges
from scaffold.tools.content.line_diff import format_line, line_diff
from scaffold.tools.content.safe_open import read_whole
from scaffold.tools.content.text_encoding import decode
from scaffold.tools.workspace import printable_name

MAX_LINES = 1_000
MAX_OUTPUT_BYTES = 1_000_000
MAX_NAMED = 30
COMPARED_BYTES = 2_000_000
NO_CHANGE = "Nothing has changed."
_OPTIONS = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--submodule=short")
_FOUND = frozenset({0, 1, 128})


class StartCommit(Struct, frozen=True):
    """Where a session began; `commit` is empty if the directory is in no repository."""

    commit: str
    is_empty: bool = False
    """Whether the repository has no commit yet; `commit` is then the empty tree."""


async def start_of_changes(folder: Path) -> StartCommit:
    """Return the commit that is checked out now."""
    if find_checkout(folder) is None:
        return StartCommit("")  # without starting git
    git = Git(folder, environ=os.environ)
    try:
        head = await git("rev-parse", "--verify", "--quiet", "HEAD^{commit}", ok=_FOUND)
        if head.exit_code == 0:
            return StartCommit(head.line)
        if (await git("rev-parse", "--is-inside-work-tree", ok=_FOUND)).line == "true":
            return StartCommit(await _empty_tree(git), is_empty=True)
    except GitError:
        pass  # without git, or in a repository that it refuses, the tools' changes are known all the same
    return StartCommit("")


async def tree_changes(start: StartCommit | None, history: FileHistory, root: Path) -> str:
    """Return the working tree's diff to `start` and its untracked files, outside git the tools' changes; GitError."""
    if start is None or not start.commit:
        return tool_changes(history.turns(), history, root)
    git = Git(root, environ=os.environ)
    text = await _git_diff(git, start.commit)
    untracked = (await git("ls-files", "--others", "--exclude-standard", "-z", "--full-name", ":/")).records
    names = join_limited([printable_name(name) for name in untracked], MAX_NAMED)
    if not text and not names:
        return NO_CHANGE
    since = "nothing is committed yet" if start.is_empty else f"since commit {start.commit[:10]}"
    parts = [f"{since}:", text, f"untracked: {names}" if names else ""]
    return "\n".join(part for part in parts if part)


async def change_to_review(named: str, history: FileHistory, root: Path) -> str:
    """Return what a branch has that HEAD lacks, a commit or a range, with its messages; without a name what is open.

    UsageError if there is no such change.
    """
    if not named:
        changes = await tree_changes(await start_of_changes(root), history, root)
        if changes == NO_CHANGE:
            raise UsageError("everything is committed", "Name a branch, a commit or a range, e.g. `/review main..`.")
        return changes
    if find_checkout(root) is None:
        raise UsageError("there is no git repository here", "`/review` alone reviews what the file tools changed.")
    git = Git(root, environ=os.environ)
    first, dots, last = named.partition("..")
    left, right = [await _find_commit(git, each or "HEAD") for each in (first, last.removeprefix("."))]
    base, tip = await merge_base(git, left, right), right if dots else left
    refs = {f"refs/heads/{named}", f"refs/remotes/{named}"}
    if not dots and refs.isdisjoint((await git("for-each-ref", "--format=%(refname)", *refs)).line.splitlines()):
        base = await resolve(git, f"{tip}^")
    messages = await git("log", "--format=commit %h%n%B", f"-{MAX_NAMED}", tip, *([f"^{base}"] if base else []), "--")
    diff = await _git_diff(git, base or await _empty_tree(git), tip)
    if not diff:
        since = f"`/review {named}..` reviews what HEAD has since, `/review COMMIT` one commit."
        raise UsageError(f"`{named}` has no change", "Name another range." if dots else since)
    return f"{messages.out.decode(errors='replace')}\n{diff}"


async def _find_commit(git: Git, name: str) -> Commit:
    if (found := await resolve(git, name)) is None:
        raise UsageError(
            f"`{name}` is neither a branch nor a commit", "What to look at follows it: `/review main.. the locking`."
        )
    return found


async def _empty_tree(git: Git) -> str:
    return (await git("hash-object", "-t", "tree", "--stdin")).line


async def _git_diff(git: Git, *revisions: str) -> str:
    diff = await git("diff", *_OPTIONS, *revisions, "--", limit_bytes=MAX_OUTPUT_BYTES)
    return diff.out.decode(errors="replace").rstrip("\n")


def tool_changes(turns: Sequence[TurnChanges], history: FileHistory, root: Path) -> str:
    """Return what file tools changed in `turns`, the latest first: each file before them and now."""
    first: dict[bytes, ChangedFile] = {}
    for turn in turns:
        first.update(turn.files)  # the earliest turn comes last, and what was before it counts
    home, ran = root.resolve(), {name for turn in turns for name in turn.ran}
    parts = [
        part for path, change in first.items() for part in _file_diff(history, home, Path(os.fsdecode(path)), change)
    ]
    more = [f"what {join_limited(sorted(ran), MAX_NAMED)} may have changed is not shown"] if ran else []
    return "\n".join([*parts, *more]) if parts else NO_CHANGE


def bound_lines(text: str) -> str:
    """Return the first lines of a diff, where nothing shows it a screen at a time."""
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"... {count_of(len(lines) - MAX_LINES, 'more line')}; `git diff` shows all"]
    return "\n".join(lines)


def _file_diff(history: FileHistory, root: Path, path: Path, change: ChangedFile) -> Iterator[str]:
    name = printable_name(str(path.relative_to(root) if path.is_relative_to(root) else path))
    before = _decode_text(history.content(change.before)) if change.before else "" if change.kept else None
    after: str | None = ""
    try:
        if path.exists():
            content = read_whole(root, path, path.name, limit_bytes=COMPARED_BYTES)
            after = None if isinstance(content, Refusal) else _decode_text(content.data)
    except OSError:
        after = None
    if before is None or after is None:
        yield f"{name}: changed; its text cannot be compared"
        return
    if diff := line_diff(before, after):
        yield f"{name}  +{diff.added} -{diff.removed}"
        yield from map(format_line, diff.lines)


def _decode_text(data: bytes | None) -> str | None:
    decoded = decode(data) if data is not None and len(data) <= COMPARED_BYTES else None
    return decoded.text.replace("\r\n", "\n") if decoded else None
