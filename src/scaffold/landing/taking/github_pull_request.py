"""Open or update the pull request for the work of a run: `git push`, then `gh`."""

import re
from collections.abc import Collection, Sequence
from functools import partial
from shlex import quote
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from scaffold.core.errors import GitError, ScaffoldError, UsageError
from scaffold.core.ids import Commit
from scaffold.core.model import Run
from scaffold.git.checkouts import worktree
from scaffold.git.commits import is_contained
from scaffold.landing.taking.land import TakenWork, begin_move, finish_move, settle_moves
from scaffold.landing.taking.user_programs import require_program, run_as_user, told
from scaffold.policy.trust_decision import TrustStatus
from scaffold.run.context import RunContext

GH_FIX = (
    "Install it (https://cli.github.com; Debian and Ubuntu: `apt-get install gh`) and log in with `gh auth login`. "
    "Nothing was pushed."
)
ADDRESS = re.compile(
    r"(?:(?:https?|ssh|git)://(?:[^/@]*@)?|(?:[^/@:]+@)?(?=[^/:]+:[^/]))(?P<host>[^/:]+)(?::\d+(?=/))?[:/]/*"
    r"(?P<owner>[^/]+)/(?P<name>[^/]+?)(?:\.git)?/?"
)
"""The URL of a repository as `https://`, `ssh://` or `git@host:owner/name`."""
REJECTED = (b"[rejected]", b"(non-fast-forward)", b"(fetch first)", b"(stale info)")


class PullRequest(Struct, frozen=True, kw_only=True):
    """The content of a pull request."""

    title: str
    body: str
    """Markdown."""


class Hosted(Struct, frozen=True, kw_only=True):
    """A repository on a server, as `gh` identifies it."""

    host: str
    owner: str
    name: str


class Named(Struct, frozen=True):
    """An owner, or a repository, as `gh` prints it."""

    login: str = ""
    name: str = ""


class Listed(Struct, frozen=True, kw_only=True):
    """A pull request, with the fields of `gh pr list --json`."""

    number: int
    url: str
    state: str
    """OPEN, CLOSED or MERGED."""
    isCrossRepository: bool  # noqa: N815 - the name in GitHub's API
    headRepositoryOwner: Named | None  # noqa: N815
    headRepository: Named | None  # noqa: N815
    headRefOid: str  # noqa: N815

    def is_of(self, target: "Target") -> bool:
        """Return whether its branch is in the repository that was pushed to."""
        if target.head is None:
            return not self.isCrossRepository
        owner = self.headRepositoryOwner.login if self.headRepositoryOwner else ""
        name = self.headRepository.name if self.headRepository else ""
        return (owner.lower(), name.lower()) == (target.head.owner.lower(), target.head.name.lower())


class Target(Struct, frozen=True, kw_only=True):
    """Where the work is pushed."""

    remote: str
    branch: str
    """The branch's name there."""
    known: Commit | None
    """Where it is now; None if it does not exist."""
    head: Hosted | None = None
    """The repository that it is pushed to; None if the URL does not tell."""
    base: Hosted | None = None
    """The repository that has the base branch; None if the URL does not tell."""


async def find_target(context: RunContext, run: Run, work: TakenWork, trust: TrustStatus) -> Target:
    """Return where the work is pushed: the push remote of the base branch, else `origin`, else the only remote.

    Raises ScaffoldError without `gh` or a remote, and for a remote inside of an untrusted folder, whose hooks a push
    would run; GitError if the remote cannot be reached.
    """
    require_program(context, "gh", GH_FIX)
    remotes = (await context.git("remote")).line.split()
    asked = await context.git(
        "for-each-ref", "--format=%(push:remotename)%00%(upstream:remotename)", f"refs/heads/{work.branch}"
    )
    pushed_to, _, upstream = asked.line.partition("\0")
    preferred = [name for name in (pushed_to, "origin") if name in remotes]
    remote = (preferred or (remotes if len(remotes) == 1 else [""]))[0]
    if not remote:
        have = f"it has {', '.join(remotes)}" if remotes else "it has none"
        raise UsageError(
            f"this repository has no remote to push to: {have}",
            f"Add one: `git remote add origin URL`, or set that of {work.branch}. Nothing was pushed.",
        )
    branch = run.session_branch
    if work.only is not None:
        # Not every character of an action's key may be part of a branch name.
        branch += "-" + "".join(each if each.isalnum() or each in "-_" else "-" for each in work.only.key)
    # The push URL may differ from the fetch URL.
    addresses = (await context.git("remote", "get-url", "--push", "--all", remote)).line.splitlines()
    for each in addresses:
        await _require_outside(context, remote, each, trust)
    address = addresses[0]
    there = await run_as_user(context, "git", "ls-remote", "--exit-code", "--", address, f"refs/heads/{branch}")
    if there.exit_code not in {0, 2}:
        why = told(context, there)
        raise GitError(f"{remote} cannot be reached: {why}", "Fix that, then try again. Nothing was pushed.")
    return Target(
        remote=remote,
        branch=branch,
        known=Commit(there.stdout.decode().split("\t")[0]) if there.exit_code == 0 else None,
        head=hosted_at(address) or await _hosted_remote(context, remote),
        base=await _hosted_remote(context, await _base_remote(context, remotes, upstream) or remote),
    )


async def _require_outside(context: RunContext, remote: str, address: str, trust: TrustStatus) -> None:
    path = local_path(address)
    if trust.trusted or path is None:
        return
    repository = context.repository
    place = (repository.root / path).resolve()
    checkouts = [each.path for each in await worktree.list_worktrees(repository)]
    if any(place.is_relative_to(folder.resolve()) for folder in (repository.common_dir, *checkouts)):
        raise ScaffoldError(
            f"this folder is not trusted, and {remote} leads to {place}, a repository inside of it, whose hooks a push "
            "would run",
            "If you trust it, say so with `scaffold trust`. Nothing was pushed.",
        )


def local_path(address: str) -> str | None:
    """Return the path of a git URL that is a folder of this machine; None for other URLs."""
    if address.lower().startswith("file://"):
        return unquote(urlsplit(address).path)
    # As git decides: `host:path`, unless a slash comes before the colon.
    first, colon, _ = address.partition(":")
    return None if colon and "/" not in first else address


async def _base_remote(context: RunContext, remotes: Sequence[str], upstream: str) -> str:
    # Pull requests go to the repository of `gh repo set-default`, else to the upstream.
    found = await context.git("config", "--get-regexp", r"^remote\..*\.gh-resolved$", "^base$", ok=frozenset({0, 1}))
    chosen = found.line.partition("\n")[0].removeprefix("remote.").rpartition(".gh-resolved")[0]
    return next((name for name in (chosen, upstream) if name in remotes), "")


async def _hosted_remote(context: RunContext, remote: str) -> Hosted | None:
    return hosted_at((await context.git("remote", "get-url", remote)).line)


def hosted_at(address: str) -> Hosted | None:
    """Return the repository at a git URL; None for a path, and for an alias of the user's SSH configuration."""
    found = ADDRESS.fullmatch(address)
    if found is None or "." not in found["host"]:
        return None
    host = found["host"].lower()
    return Hosted(host="github.com" if host == "ssh.github.com" else host, owner=found["owner"], name=found["name"])


async def would_overwrite(context: RunContext, work: TakenWork, target: Target) -> bool:
    """Return whether the remote branch has commits that the work lacks, so that only force can replace it."""
    if target.known is None:
        return False
    return not await is_contained(context.git, target.known, work.new)


async def open_pull_request(
    context: RunContext,
    run: Run,
    work: TakenWork,
    target: Target,
    content: PullRequest,
    *,
    force: bool,
    trust: TrustStatus,
) -> str:
    """Push the work and open or update its pull request; return its URL.

    With `force` the remote branch is replaced if it is still where it was seen. Raises GitError if the push fails,
    ScaffoldError if `gh` does; both can be repeated. The hooks of git run only if the folder is trusted.
    """
    await settle_moves(context, run)
    move = begin_move(context, run, work, branch=f"{target.remote}/{target.branch}")
    moves = context.store.branch_moves
    known = {
        each.url
        for each in moves.done_of_run(move.run_id)
        if each.purpose == "pr" and each.branch == move.branch and each.url
    }
    try:
        await _push_branch(context, work, target, force=force, hooks=trust.trusted)
        url = await _open_or_update(context, work, target, content, known=known)
    except ScaffoldError:
        with context.store.transaction(durable=True):
            moves.settle(move.id, done=False)
        raise
    finish_move(context, move, url=url)
    return url


async def _push_branch(context: RunContext, work: TakenWork, target: Target, *, force: bool, hooks: bool) -> None:
    ref = f"refs/heads/{target.branch}"
    lease = [f"--force-with-lease={ref}:{target.known}"] if force and target.known else []
    quiet = [] if hooks else ["-c", "core.hooksPath=/dev/null"]
    argv = ("git", *quiet, "push", "--porcelain", *lease, target.remote, f"{work.new}:{ref}")
    done = await run_as_user(context, *argv)
    if done.exit_code == 0:
        return
    if any(word in done.stdout + done.stderr for word in REJECTED):
        fetched = f"git fetch {quote(target.remote)} {quote(target.branch)}"
        raise GitError(
            f"{target.remote} has other commits on {target.branch}, and refused the push",
            f"Look at them: `{fetched} && git log FETCH_HEAD`. At a terminal "
            "`scaffold land --pr` offers to replace them.",
        )
    raise GitError(
        f"the push to {target.remote} failed: {told(context, done)}",
        "Check the remote (`git remote -v`) and your rights there, then repeat the command.",
    )


async def _open_or_update(
    context: RunContext, work: TakenWork, target: Target, content: PullRequest, *, known: Collection[str]
) -> str:
    """Return the URL of the open pull request of the pushed branch, created if there is none.

    A closed one is returned, too, if it was merged with exactly this work, or opened for it by a process that was
    killed before it could record that.
    """
    body = content.body.encode(errors="replace")
    gh = partial(_run_gh, context, target)
    printed = await gh(
        "pr", "list", "--head", target.branch, "--state", "all", "--json", ",".join(Listed.__struct_fields__)
    )
    try:
        listed = msgspec.json.decode(printed, type=list[Listed])
    except msgspec.MsgspecError as error:
        raise ScaffoldError(f"`gh pr list` printed no list: {printed[:200]}", "Update `gh`.") from error
    # A fork may have a branch of the same name. Ours is known, or has exactly the pushed commit.
    ours = [each for each in listed if each.is_of(target) and (each.url in known or each.headRefOid == work.new)]
    is_open = [each for each in ours if each.state == "OPEN"]
    found = next(iter(sorted(is_open, key=lambda each: each.url not in known)), None)
    for each in ours if found is None else ():
        if each.headRefOid == work.new and (each.state == "MERGED" or each.url not in known):
            return each.url
    if found is None:
        head = target.branch if target.head is None else f"{target.head.owner}:{target.branch}"
        argv = ("pr", "create", "--head", head, "--base", work.branch, "--title", content.title)
        return (await gh(*argv, "--body-file", "-", stdin=body)).strip().split("\n")[-1]
    # Not `gh pr edit`: old versions query projects that no longer exist, and fail. The user may have changed the base.
    change = msgspec.json.encode({"body": body.decode()})
    place = f"{target.base.owner}/{target.base.name}" if target.base else "{owner}/{repo}"
    host = ("--hostname", target.base.host) if target.base else ()
    path = f"repos/{place}/pulls/{found.number}"
    await gh("api", "--method", "PATCH", path, *host, "--silent", "--input", "-", stdin=change)
    return found.url


async def _run_gh(context: RunContext, target: Target, *args: str, stdin: bytes = b"") -> str:
    base = target.base
    repo = ("--repo", f"{base.host}/{base.owner}/{base.name}") if base and args[0] == "pr" else ()
    done = await run_as_user(context, "gh", *args, *repo, stdin=stdin)
    name = args[0] if args[0] == "api" else " ".join(args[:2])
    if done.exit_code != 0:
        raise ScaffoldError(
            f"the branch is pushed, but `gh {name}` failed: {told(context, done)}",
            "Check `gh auth status`, then repeat the same command: it goes on where it stopped.",
        )
    return done.stdout.decode(errors="replace")
