"""The user's repository: where it is, whether it can be worked on, who commits."""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import RepositoryUnfit
from scaffold.core.ids import Commit
from scaffold.core.model import Signature
from scaffold.git.command import Answer, Git
from scaffold.git.refs import resolve

OLDEST = (2, 38)
PLACES = ("--path-format=absolute", "--show-toplevel", "--git-common-dir")
"""What `git rev-parse` is asked for: where a checkout is, and the git directory that it shares; a line each."""

UNFINISHED = (
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
"""A file in the git directory, the work that left it there, how to finish and how to give up; first match wins."""

_IDENT = re.compile(r"(?P<name>.*) <(?P<email>.*)> \d+ [+-]\d+")


class Repository(Struct, frozen=True):
    """A checkout and the git directory that it shares with its worktrees; both paths absolute."""

    root: Path
    common_dir: Path
    git: Git
    """Git at `root`."""


class Survey(Struct, frozen=True):
    """Where the checkout stands."""

    head: Commit
    branch: str | None
    """Short name; None for a detached head."""
    dirty: bool
    """Whether anything differs from `head`, files that git does not know yet included, ignored ones not."""


async def open_repository(start: Path, *, environ: Mapping[str, str]) -> Repository:
    """Return the repository whose checkout `start` is in; raises RepositoryUnfit saying why it is none we can use."""
    _check_directory(start)
    git = Git(start, environ=environ)
    await _check_version(git)
    answer = await git("rev-parse", "--is-inside-work-tree", *PLACES, ok=frozenset({0, 128}))
    inside, *places = answer.line.split("\n")
    if inside == "false":
        raise await _without_files(git)
    if answer.exit_code:
        raise _unreadable(start, answer)
    if len(places) != 2:  # a name holds a newline
        places = [(await git("rev-parse", *PLACES[:1], place)).line for place in PLACES[1:]]
    root, common_dir = map(Path, places)
    _check_name(root)
    _check_name(common_dir)
    return Repository(root, common_dir, git.at(root))


async def survey(repo: Repository) -> Survey:
    """Return where the checkout stands; raises RepositoryUnfit if it has no commit or is in the middle of something."""
    git_dir = Path((await repo.git("rev-parse", "--absolute-git-dir")).line)
    for trace, work, finish, give_up in UNFINISHED:
        if (git_dir / trace).exists():
            raise RepositoryUnfit(
                f"{repo.root} is in the middle of {work}", f"finish it with `{finish}` or give it up with `{give_up}`"
            )
    head = await resolve(repo.git, "HEAD")
    if head is None:
        raise RepositoryUnfit(
            f"{repo.root} has no commit yet", "make a first one: `git commit --allow-empty -m 'Begin'`"
        )
    symbolic = await repo.git("symbolic-ref", "--quiet", "HEAD", ok=frozenset({0, 1}))
    status = await repo.git("status", "--porcelain=v2", "-z", "--untracked-files=normal")
    return Survey(head, symbolic.line.removeprefix("refs/heads/") or None, bool(status.out))


async def signatures(repo: Repository) -> tuple[Signature, Signature]:
    """Return author and committer as git would choose them, never guessed from the machine's name.

    Raises RepositoryUnfit if the user has not told git who they are.
    """
    return await _signature(repo, "GIT_AUTHOR"), await _signature(repo, "GIT_COMMITTER")


async def _signature(repo: Repository, role: str) -> Signature:
    given = {name: value for name, value in repo.git.environ.items() if name in {f"{role}_NAME", f"{role}_EMAIL"}}
    answer = await repo.git("-c", "user.useConfigOnly=true", "var", f"{role}_IDENT", env=given, ok=frozenset({0, 128}))
    found = _IDENT.fullmatch(answer.line)
    if found is None:
        raise RepositoryUnfit(
            "git does not know who commits here",
            "tell it: `git config --global user.name 'Your Name'` and `git config --global user.email you@example.org`",
        )
    return Signature(found["name"], found["email"])


def _check_directory(start: Path) -> None:
    if not start.is_dir():
        raise RepositoryUnfit(f"{start} is not a directory", "name an existing directory inside a git repository")


def _check_name(path: Path) -> None:
    """Refuse a path that is no UTF-8: it is to be stored, printed and handed to agents."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        shown = os.fsencode(path).decode(errors="replace")
        raise RepositoryUnfit(f"the path {shown} is not UTF-8", "rename the folder, then try again") from error


async def _check_version(git: Git) -> None:
    oldest = ".".join(map(str, OLDEST))
    if shutil.which("git", path=git.environ.get("PATH", os.defpath)) is None:
        raise RepositoryUnfit("git is not installed, or not on PATH", f"install git {oldest} or newer")
    said = (await git("version")).line
    version = re.search(r"(\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        raise RepositoryUnfit(f"this is {said}, which is too old", f"install git {oldest} or newer")


def _unreadable(start: Path, answer: Answer) -> RepositoryUnfit:
    if b"dubious ownership" in answer.err:
        return RepositoryUnfit(
            f"git does not trust the repository at {start}: it belongs to another user",
            f"if you trust it: `git config --global --add safe.directory {start.resolve()}`",
        )
    if b"not a git repository" in answer.err:
        return RepositoryUnfit(
            f"{start} is not in a git repository", "run `git init` and make a first commit, or name another directory"
        )
    reason = answer.err.decode(errors="replace").strip().replace("\n", " | ")
    return RepositoryUnfit(f"git cannot read the repository at {start}: {reason}", "mend what git names, try again")


async def _without_files(git: Git) -> RepositoryUnfit:
    bare = (await git("rev-parse", "--is-bare-repository")).line == "true"
    return RepositoryUnfit(
        f"{git.cwd} is {'a bare repository' if bare else 'inside a git directory'}: there are no files to work on",
        "clone it, and name the clone" if bare else "name the checkout instead",
    )
