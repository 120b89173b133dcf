"""Run programs for the user as in the user's own shell, outside of a run: git with signing and credentials, gh."""

import os
import re
import shutil
from collections.abc import Mapping

from scaffold.core.errors import ScaffoldError
from scaffold.host.child_environment import path_outside
from scaffold.host.process.command_runner import CommandResult, run_command
from scaffold.policy.trust_decision import TrustStatus
from scaffold.run.context import RunContext

TIMEOUT_S = 600.0
REDIRECTING = frozenset({
    *("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE"),
})  # fmt: skip
"""Variables that redirect git to another repository; a hook that calls us may have set them."""
LOCAL_PROGRAMS = re.compile(
    r"gpg\.(.*\.)?(program|defaultkeycommand)|core\.(sshcommand|gitproxy|askpass|alternaterefscommand)"
    r"|credential\.(.*\.)?helper|remote\..*\.(receivepack|uploadpack|vcs)|url\..*\.(push)?insteadof"
    r"|protocol\.(.*\.)?allow|push\.(gpgsign|recursesubmodules)",
    re.DOTALL,
)
"""Settings that name, or select, a program which signing or pushing runs."""


async def require_own_programs(context: RunContext, trust: TrustStatus) -> None:
    """Raise ScaffoldError if git would run a program that only an untrusted folder's configuration names."""
    if trust.trusted:
        return
    listed = (await context.git("config", "--list", "--show-scope", "--includes", "-z")).out.decode(errors="replace")
    fields = listed.split("\0")
    for scope, entry in zip(fields[::2], fields[1::2], strict=False):
        name = entry.partition("\n")[0]
        if scope in {"local", "worktree"} and LOCAL_PROGRAMS.fullmatch(name):
            raise ScaffoldError(
                f"this folder is not trusted, and its git configuration sets `{name}`, so git would run what it names",
                "If you trust it, say so with `scaffold trust`; or move the setting to your own configuration "
                "(`git config --global`). Nothing was changed.",
            )


async def run_as_user(
    context: RunContext, *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> CommandResult:
    """Run a program in the checkout with the user's whole environment, but without a terminal, and return its result.

    It is looked up on PATH, ignoring folders inside the checkout.
    """
    root = context.repository.root
    own = {name: value for name, value in context.environ.items() if name not in REDIRECTING}
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1"}
    environ = {**own, **quiet, "PATH": path_outside(context.environ, root), **(env or {})}
    return await run_command(argv, cwd=root, env=environ, stdin=stdin, timeout_s=TIMEOUT_S)


def require_program(context: RunContext, name: str, fix: str) -> None:
    """Raise ScaffoldError with `fix` unless the program is installed."""
    path = path_outside(context.environ, context.repository.root) or os.defpath
    if shutil.which(name, path=path) is None:
        raise ScaffoldError(f"the program `{name}` is not installed, or not on PATH", fix)


def told(context: RunContext, finished: CommandResult) -> str:
    """Return the output of a failed program on one line, without secrets."""
    text = (finished.stderr or finished.stdout).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ending = "it took too long" if finished.timed_out else f"exit code {finished.exit_code}"
    return context.redactor.clean(" | ".join(lines) or ending)
