"""Open the user's repository, check that it can be used, and read the commit identity."""

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import GitError, RepositoryError
from scaffold.core.ids import Commit
from scaffold.core.run_settings import Signature
from scaffold.git.client.answer_cache import GitResult
from scaffold.git.client.command_line import Git
from scaffold.git.common_dir import not_in_repository
from scaffold.git.refs import resolve

# Since 2.38 git has `merge-tree --write-tree` and `cat-file --batch -z`.
MIN_GIT_VERSION = (2, 38)
REV_PARSE_OPTIONS = ("--path-format=absolute", "--show-toplevel", "--git-common-dir")
"""Arguments of `git rev-parse` that print the top of the checkout and the common git directory, one per line."""

FETCH_MISSING = (
    "-c fetch.negotiationAlgorithm=noop fetch --no-tags --no-write-fetch-head --recurse-submodules=no "
    "--filter=blob:none --upload-pack=git-upload-pack --quiet --stdin --"
)
"""As git itself fetches the objects that it misses, with none of the programs that the repository's settings name."""
FETCH_TIMEOUT_S = 3_600.0
UNFINISHED_OPERATIONS = (
    ("rebase-merge", "a rebase", "git rebase --continue", "git rebase --abort"),
    ("rebase-apply/applying", "applying mailed patches (git am)", "git am --continue", "git am --abort"),
    ("rebase-apply", "a rebase", "git rebase --continue", "git rebase --abort"),
    ("MERGE_HEAD", "a merge", "git merge --continue", "git merge --abort"),
    ("CHERRY_PICK_HEAD", "a cherry-pick", "git cherry-pick --continue", "git cherry-pick --abort"),
    ("REVERT_HEAD", "a revert", "git revert --continue", "git revert --abort"),
    (
        "sequencer",
        "a cherry-pick or revert of several commits",
        "git cherry-pick --continue",
        "git cherry-pick --abort",
    ),
    ("BISECT_LOG", "a bisect", "git bisect reset", "git bisect reset"),
)
"""Marker file in the git directory, operation, command to finish it, command to abort it; the first match wins."""

_IDENT = re.compile(r"(?P<name>.*) <(?P<email>.*)> \d+ [+-]\d+")


class Repository(Struct, frozen=True):
    """The user's checkout and the git directory that it shares with its worktrees; both paths are absolute."""

    root: Path
    common_dir: Path
    git: Git
    """Git at `root`."""


class CheckoutStatus(Struct, frozen=True):
    """The state of the user's checkout."""

    head: Commit
    branch: str | None
    """Short name; None for a detached HEAD."""
    dirty: bool
    """Whether anything differs from `head`; untracked files count, ignored ones and those in submodules do not."""


async def open_repository(start: Path, *, environ: Mapping[str, str]) -> Repository:
    """Return the repository whose checkout contains `start`.

    Raises NotInRepository outside a repository, another RepositoryError if the repository cannot be used.
    """
    if not start.is_dir():  # noqa: ASYNC240 - one call of the system
        raise RepositoryError(f"{start} is not a directory", "use an existing directory inside a git repository")
    git = Git(start, environ=environ)
    await _check_version(git, environ)
    answer = await git("rev-parse", "--is-inside-work-tree", *REV_PARSE_OPTIONS, ok=frozenset({0, 128}))
    inside, *paths = answer.line.split("\n")
    if inside == "false":
        elsewhere = await git("config", "core.worktree", ok=frozenset({0, 1}))
        if elsewhere.line:
            git_dir = Path((await git("rev-parse", "--absolute-git-dir")).line)
            raise RepositoryError(
                f"the files of the repository at {git.cwd} are in {git_dir / elsewhere.line} (`core.worktree`)",
                f"let them name it, and work there: {_pointer_command(git_dir, git_dir / elsewhere.line)}",
            )
        bare = (await git("rev-parse", "--is-bare-repository")).line == "true"
        raise RepositoryError(
            f"{git.cwd} is {'a bare repository' if bare else 'inside a git directory'}: there are no files to work on",
            "clone it and use the clone" if bare else "use the checkout instead",
        )
    if answer.exit_code:
        named, top = environ.get("GIT_DIR"), environ.get("GIT_WORK_TREE", ".")
        raise _unreadable_error(start, answer, _pointer_command(start / named, start / top) if named else "")
    if len(paths) != 2:  # a path contains a newline: ask for one path at a time
        paths = [(await git("rev-parse", *REV_PARSE_OPTIONS[:1], option)).line for option in REV_PARSE_OPTIONS[1:]]
    root, common_dir = map(Path, paths)
    _check_name(root)
    _check_name(common_dir)
    return Repository(root, common_dir, git.at(root))


async def checkout_status(repo: Repository) -> CheckoutStatus:
    """Return the state of the checkout; raise RepositoryError if it has no commit or an operation is unfinished."""
    git_dir = Path((await repo.git("rev-parse", "--absolute-git-dir")).line)
    for marker, operation, finish, abort in UNFINISHED_OPERATIONS:
        if (git_dir / marker).exists():
            raise RepositoryError(
                f"{repo.root} is in the middle of {operation}", f"finish it with `{finish}` or abort it with `{abort}`"
            )
    head = await resolve(repo.git, "HEAD")
    if head is None:
        if named := (await repo.git("rev-parse", "--quiet", "--verify", "HEAD", ok=frozenset({0, 1, 128}))).line:
            lender = repo.common_dir / "objects/info/alternates"
            lent = f", which it borrows from {lender.read_text().strip()}" if lender.is_file() else ""
            raise RepositoryError(
                f"{repo.root} lacks the objects of its commit {named[:12]}{lent}",
                "make them available again, or fetch them: `git fetch --refetch origin`",
            )
        raise RepositoryError(
            f"{repo.root} has no commits", "create one: `git commit --allow-empty -m 'Initial commit'`"
        )
    # Without --short, which prints `heads/NAME` if a tag has the same name.
    symbolic = await repo.git("symbolic-ref", "--quiet", "HEAD", ok=frozenset({0, 1}))
    # git would look for changed files in submodules, and obey the configuration that it finds there
    options = ("--porcelain=v2", "-z", "--untracked-files=normal", "--ignore-submodules=dirty")
    status = await repo.git("status", *options)
    return CheckoutStatus(head, symbolic.line.removeprefix("refs/heads/") or None, bool(status.out))


async def starting_point(repo: Repository) -> CheckoutStatus:
    """Return the state of the checkout for a run that starts there, with all files of its commit at hand.

    What a partial clone lacks of them is fetched. Raises RepositoryError if that fails, and as `checkout_status` does.
    """
    if head := await resolve(repo.git, "HEAD"):
        await complete_commit(repo, head)
    return await checkout_status(repo)


async def complete_commit(repo: Repository, commit: Commit) -> None:
    """Fetch the files that a partial clone lacks of a commit; RepositoryError, with the command, if that fails."""
    promised = await repo.git("config", "--get-regexp", r"^remote\..*\.promisor$", ok=frozenset({0, 1}))
    if not promised.out:
        return
    remote = promised.out.decode().split()[0].partition(".")[2].rpartition(".")[0]
    listing = ("rev-list", "--objects", "--no-object-names", "--missing=print", "--max-count=1", commit)
    asked = set[bytes]()
    try:
        # The files in a folder are known once that is here; what a server does not send is not asked for twice.
        while missing := {line[1:] for line in (await repo.git(*listing)).out.split(b"\n") if line[:1] == b"?"} - asked:
            asked |= missing
            await repo.git(
                *(*FETCH_MISSING.split(), remote),
                stdin=b"".join(each + b"\n" for each in missing),
                timeout_s=FETCH_TIMEOUT_S,
                env={"GIT_ALLOW_PROTOCOL": "file:http:https:ssh", "GIT_SSH_COMMAND": "ssh"},
            )
    except GitError as error:
        raise RepositoryError(
            f"this is a partial clone, and the files that it lacks of {commit[:12]} cannot be fetched: {error.what}",
            f"fetch them: `git fetch --refetch --no-filter {shlex.quote(remote)}`",
        ) from error


async def signatures(repo: Repository) -> tuple[Signature, Signature]:
    """Return author and committer as git would choose them, never guessed from the host name.

    Raises RepositoryError if user.name or user.email is not set.
    """
    return await _read_signature(repo, "GIT_AUTHOR"), await _read_signature(repo, "GIT_COMMITTER")


async def _read_signature(repo: Repository, role: str) -> Signature:
    given = {name: value for name, value in repo.git.environ.items() if name in {f"{role}_NAME", f"{role}_EMAIL"}}
    # Otherwise git invents an address from the login and host name.
    answer = await repo.git("-c", "user.useConfigOnly=true", "var", f"{role}_IDENT", env=given, ok=frozenset({0, 128}))
    found = _IDENT.fullmatch(answer.line)
    if found is None:
        raise RepositoryError(
            "git has no name and email configured for commits",
            "set them: `git config --global user.name 'Your Name' && git config --global user.email you@example.org`",
        )
    return Signature(found["name"], found["email"])


def _check_name(path: Path) -> None:
    # The path is stored, printed and passed to agents, so it must be UTF-8.
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        shown = os.fsencode(path).decode(errors="replace")
        raise RepositoryError(f"the path {shown} is not valid UTF-8", "rename the folder, then retry") from error


async def _check_version(git: Git, environ: Mapping[str, str]) -> None:
    oldest = ".".join(map(str, MIN_GIT_VERSION))
    if shutil.which("git", path=git.environ.get("PATH", os.defpath)) is None:
        if inside := shutil.which("git", path=environ.get("PATH", os.defpath)):
            raise RepositoryError(
                f"the only git on PATH is {inside}, inside the folder {git.cwd}, whose programs are not run",
                "use another directory inside a git repository",
            )
        raise RepositoryError("git is not installed, or not on PATH", f"install git {oldest} or newer")
    output = (await git("version")).line
    version = re.search(r"(\d+)\.(\d+)", output)
    if version is None or (int(version[1]), int(version[2])) < MIN_GIT_VERSION:
        raise RepositoryError(f"{output} is too old", f"install git {oldest} or newer")


def _pointer_command(git_dir: Path, top: Path) -> str:
    return f"`echo 'gitdir: {git_dir.resolve()}' > {shlex.quote(str(top.resolve() / '.git'))}`"


def _unreadable_error(start: Path, answer: GitResult, pointer: str) -> RepositoryError:
    if pointer and b"not a git repository" in answer.err:
        return RepositoryError(f"{start} is not in a git repository, and GIT_DIR is not obeyed", f"name it: {pointer}")
    if b"dubious ownership" in answer.err:
        return RepositoryError(
            f"git does not trust the repository at {start}: it belongs to another user",
            f"if you trust it: `git config --global --add safe.directory {start.resolve()}`",
        )
    if b"not a git repository" in answer.err:
        return not_in_repository(start)
    reason = answer.err.decode(errors="replace").strip().replace("\n", " | ")
    fix = "install a newer git" if "repository extension" in reason else "fix the cause, then retry"
    return RepositoryError(f"git cannot read the repository at {start}: {reason}", fix)
