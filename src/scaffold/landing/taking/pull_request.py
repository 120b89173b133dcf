"""Open a pull request for the work of a run, or bring the one that is open up to date: `git push`, then `gh`."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.errors import GitError, ScaffoldError, UsageError
from scaffold.core.ids import Commit
from scaffold.core.model import BranchMove, Goal, Run
from scaffold.landing.taking.land import Work, begin_move, finish_move, settle_moves
from scaffold.landing.taking.remake import request_line
from scaffold.landing.taking.user_programs import require_program, run_as_user, told
from scaffold.policy.trust import TrustStatus
from scaffold.run.context import RunContext

GH_FIX = (
    "Install it (https://cli.github.com; Debian and Ubuntu: `apt-get install gh`) and log in with `gh auth login`. "
    "Nothing was pushed."
)
MAX_TITLE = 72
REJECTED = (b"[rejected]", b"(non-fast-forward)", b"(fetch first)", b"(stale info)")


class PullRequest(Struct, frozen=True, kw_only=True):
    """What a pull request is made of."""

    title: str
    body: str
    """Markdown."""


class Target(Struct, frozen=True, kw_only=True):
    """Where the work is pushed."""

    remote: str
    branch: str
    """The branch's name there."""
    known: Commit | None
    """Where it is now; None if it does not exist."""


async def find_target(context: RunContext, run: Run, work: Work) -> Target:
    """Return where the work is pushed; ScaffoldError without `gh` or a remote, GitError if it cannot be reached.

    The remote is that of the base branch, else the one named `origin`, else the only one.
    """
    require_program(context, "gh", GH_FIX)
    remotes = (await context.git("remote")).line.split()
    configured = await context.git("config", "--get", f"branch.{work.branch}.remote", ok=frozenset({0, 1}))
    preferred = [name for name in (configured.line, "origin") if name in remotes]
    remote = (preferred or (remotes if len(remotes) == 1 else [""]))[0]
    if not remote:
        have = f"it has {', '.join(remotes)}" if remotes else "it has none"
        raise UsageError(
            f"this repository has no remote to push to: {have}",
            f"Add one: `git remote add origin URL`, or set that of {work.branch}. Nothing was pushed.",
        )
    branch = run.session_branch if work.only is None else f"{run.session_branch}-{_ref_part(work.only.key)}"
    # It may be pushed to another address than it is fetched from.
    address = (await context.git("remote", "get-url", "--push", remote)).line
    asked = await run_as_user(context, "git", "ls-remote", "--exit-code", "--", address, f"refs/heads/{branch}")
    if asked.exit_code not in {0, 2}:
        raise GitError(f"{remote} cannot be reached: {told(asked)}", "Fix that, then try again. Nothing was pushed.")
    known = Commit(asked.stdout.decode().split("\t")[0]) if asked.exit_code == 0 else None
    return Target(remote=remote, branch=branch, known=known)


async def would_overwrite(context: RunContext, work: Work, target: Target) -> bool:
    """Return whether the branch there has commits that the work does not contain, so that only force replaces it."""
    if target.known is None:
        return False
    asked = await context.git("merge-base", "--is-ancestor", target.known, work.new, ok=frozenset({0, 1, 128}))
    return asked.exit_code != 0


async def open_pull_request(
    context: RunContext, run: Run, work: Work, target: Target, content: PullRequest, *, force: bool, trust: TrustStatus
) -> str:
    """Push the work and open its pull request, or bring the open one up to date; return its address.

    With `force` the branch there is replaced if it still is where it was seen. GitError if the push fails,
    ScaffoldError if `gh` does; both can be repeated. The hooks of git run only if the folder is trusted.
    """
    await settle_moves(context, run)
    move = begin_move(context, run, work, branch=f"{target.remote}/{target.branch}")
    try:
        await _push(context, work, target, force=force, hooks=trust.trusted)
        url = await _publish(context, work, target, content)
    except ScaffoldError:
        _drop(context, move)
        raise
    finish_move(context, move, url=url)
    return url


def _drop(context: RunContext, move: BranchMove) -> None:
    with context.store.transaction(durable=True):
        context.store.branch_moves.settle(move.id, done=False)


async def _push(context: RunContext, work: Work, target: Target, *, force: bool, hooks: bool) -> None:
    ref = f"refs/heads/{target.branch}"
    lease = [f"--force-with-lease={ref}:{target.known}"] if force and target.known else []
    quiet = [] if hooks else ["-c", "core.hooksPath=/dev/null"]
    argv = ("git", *quiet, "push", "--porcelain", *lease, target.remote, f"{work.new}:{ref}")
    done = await run_as_user(context, *argv)
    if done.exit_code == 0:
        return
    if any(word in done.stdout + done.stderr for word in REJECTED):
        raise GitError(
            f"{target.remote} has other commits on {target.branch}, and refused the push",
            f"Look at them: `git fetch {target.remote} {target.branch} && git log FETCH_HEAD`. At a terminal "
            "`scaffold land --pr` offers to replace them.",
        )
    raise GitError(
        f"the push to {target.remote} failed: {told(done)}",
        "Check the remote (`git remote -v`) and your rights there, then repeat the command.",
    )


async def _publish(context: RunContext, work: Work, target: Target, content: PullRequest) -> str:
    """Return the address of the open pull request of the pushed branch, made now unless there is one."""
    body = content.body.encode(errors="replace")
    open_ones = await _gh_json(
        context, "pr", "list", "--head", target.branch, "--state", "open", "--json", "number,url,baseRefName"
    )
    known = next(iter(open_ones), None)
    if known is None:
        argv = ("pr", "create", "--head", target.branch, "--base", work.branch, "--title", content.title)
        return (await _gh(context, *argv, "--body-file", "-", stdin=body)).strip().split("\n")[-1]
    # Not `gh pr edit`: old ones ask for projects that no longer exist, and fail.
    change = msgspec.json.encode({"body": body.decode(), "base": work.branch})
    path = f"repos/{{owner}}/{{repo}}/pulls/{known['number']}"
    await _gh(context, "api", "--method", "PATCH", path, "--silent", "--input", "-", stdin=change)
    return str(known["url"])


async def _gh_json(context: RunContext, *args: str) -> list[dict[str, Any]]:
    printed = await _gh(context, *args)
    try:
        return msgspec.json.decode(printed, type=list[dict[str, Any]])
    except msgspec.MsgspecError as error:
        raise ScaffoldError(f"`gh {args[0]} {args[1]}` printed no list: {printed[:200]}", "Update `gh`.") from error


async def _gh(context: RunContext, *args: str, stdin: bytes = b"") -> str:
    done = await run_as_user(context, "gh", *args, stdin=stdin)
    name = args[0] if args[0] == "api" else " ".join(args[:2])
    if done.exit_code != 0:
        raise ScaffoldError(
            f"the branch is pushed, but `gh {name}` failed: {context.redactor.clean(told(done))}",
            "Check `gh auth status`, then repeat the same command: it goes on where it stopped.",
        )
    return done.stdout.decode(errors="replace")


def title_of(run: Run, goals: Sequence[Goal], work: Work) -> str:
    """Return the title of a pull request: what was asked for, or what the only action does."""
    first = (work.only.description.strip().partition("\n")[0] if work.only else "") or request_line(run, goals)
    return first if len(first) <= MAX_TITLE else f"{first[: MAX_TITLE - 3].rstrip()}..."


def _ref_part(key: str) -> str:
    """Return an action's key as a part of a branch's name."""
    return "".join(each if each.isalnum() or each in "-_" else "-" for each in key)
