"""Run a repository's own commit hooks on a change: those of pre-commit, husky and lefthook.

They run in a repository of their own, in the folder for temporary files: hooks look at what is staged, stage what they
fix, and some write into `.git`. None of that may happen in a worktree. Git of ours never runs in there afterwards.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.core.contract import CheckResult
from scaffold.core.errors import GitError
from scaffold.core.step import Work
from scaffold.git import commits
from scaffold.git.command import Git
from scaffold.host.files import delete_folder_if_possible, write_atomic
from scaffold.host.process.command import CommandResult
from scaffold.verify.contract.checks import Tree, kept_log, result_detail
from scaffold.verify.services.lifecycle import ShellCommand, run_with_services

TIMEOUT_S = 600.0
MOST_REPEATS = 2
"""A hook that fixes files fails at first; fixes of one may be fixed by another."""
BINARIES = "node_modules/.bin"
SHA256_CHARS = 64
IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "hooks"), ("EMAIL", "hooks@localhost"))
}
"""Tools that stash what is not staged make commits, in a repository that is thrown away."""
Prepare = Callable[[Path], Awaitable[None]]


class HookTool(Struct, frozen=True, kw_only=True):
    """What runs the hooks of a repository."""

    file: str
    """The file that defines them."""
    program: str
    command: str
    """Run by /bin/sh at the top of the repository, with the change staged."""
    remedy: str
    """What the user may do if it cannot run here."""
    ignored: tuple[str, ...] = ()
    """Files that its installation makes and git ignores: hooks load them, and empty ones do."""


TOOLS = (
    HookTool(
        file=".pre-commit-config.yaml",
        program="pre-commit",
        command="pre-commit run --color never",
        remedy="`pre-commit install-hooks` in your checkout prepares its environments",
    ),
    *(
        HookTool(
            file=file,
            program="lefthook",
            command="lefthook run pre-commit",
            remedy="install lefthook and the programs that it calls",
        )
        for file in ("lefthook.yml", ".lefthook.yml", "lefthook.yaml", ".lefthook.yaml")
    ),
    HookTool(
        file=".husky/pre-commit",
        program="sh",
        command="sh -e .husky/pre-commit",
        remedy="install the programs that it calls",
        # Before version 9 each hook loads the first, to log and to start itself again.
        ignored=(".husky/_/husky.sh", ".husky/_/h"),
    ),
)
"""Several may be in use at once."""


class HookVerdict(Struct, frozen=True, kw_only=True):
    """What the hooks of one tool made of a change."""

    tree: str
    """The tree with their fixes; the change's own without any."""
    result: CheckResult


def hook_tools(top: Path) -> tuple[HookTool, ...]:
    """Return what runs hooks in the checkout at `top`, that still is as git checked it out."""
    return tuple(tool for tool in TOOLS if (top / tool.file).is_file())


async def inapplicable(tool: HookTool, tree: Tree, common_dir: Path, prepare: Prepare) -> str:
    """Return why the hooks say nothing about a change of `tree.base`; empty if they do.

    They do not if they fail at the base with nothing staged: their programs or environments are missing, perhaps.
    """
    where = _Hooks(tool, tree, common_dir, prepare)
    if not where.is_installed():
        return f"{tool.program} is not installed; {tool.remedy}"
    try:
        finished, _ = await where.run(await commits.tree_of(tree.git, tree.base))
    except GitError:  # a filter that is not trusted, perhaps
        return "the files of the base cannot be checked out for them"
    if finished.exit_code == 0:
        return ""
    how = "in time" if finished.timed_out else f"(exit code {finished.exit_code})"
    return f"`{tool.command}` does not pass {how} on the base, without any change; {tool.remedy}"


async def run_hooks(tool: HookTool, tree: Tree, common_dir: Path, prepare: Prepare) -> HookVerdict:
    """Run the hooks on the change from `tree.base` to `tree.commit`, again after they fixed files.

    `prepare` copies the dependencies into a checkout. Nothing in the worktree changes.
    """
    where = _Hooks(tool, tree, common_dir, prepare)
    unchanged: str = await commits.tree_of(tree.git, tree.commit)
    finished, now = await where.run(unchanged)
    before = unchanged
    for _ in range(MOST_REPEATS):
        if finished.exit_code == 0 or now == before:
            break
        before = now
        finished, now = await where.run(before)
    return HookVerdict(tree=now if finished.exit_code == 0 else unchanged, result=where.result(finished))


class _Hooks:
    """The hooks of one tool, each time in a new repository."""

    def __init__(self, tool: HookTool, tree: Tree, common_dir: Path, prepare: Prepare) -> None:
        self._tool = tool
        self._tree = tree
        self._common_dir = common_dir
        self._prepare = prepare
        temporary = tree.sandbox.confinement.temporary if tree.sandbox else Path(tree.environ["TMPDIR"])
        self._folder = temporary / "hooks"
        self._number = 0

    def is_installed(self) -> bool:
        """Return whether the tool is on PATH, or among the packages of the checkout."""
        top = self._tree.git.cwd
        return shutil.which(self._tool.program, path=f"{top / BINARIES}:{self._tree.environ['PATH']}") is not None

    async def run(self, staged: str) -> tuple[CommandResult, str]:
        """Stage a tree on the base and run the hooks; return how they ended, and the tree that they left."""
        self._number += 1
        top = self._folder / str(self._number)
        try:
            return await self._run_in(top, staged)
        finally:
            # A whole checkout; the folder above is only deleted at the end of the attempt.
            await asyncio.to_thread(delete_folder_if_possible, top)

    async def _run_in(self, top: Path, staged: str) -> tuple[CommandResult, str]:
        await self._stage(top, staged)
        await self._prepare(top)
        environ = {**self._tree.environ, **IDENTITY, "PATH": f"{top / BINARIES}:{self._tree.environ['PATH']}"}
        environ |= _pre_commit_home(environ)
        command = ShellCommand(text=self._tool.command, cwd=top, environ=environ, timeout_s=TIMEOUT_S)
        async with self._tree.during(Work(label="hooks", command=self._tool.command)):
            finished = await run_with_services(command, self._tree.services, self._tree.sandbox, top=top)
        return finished, await self._left(top, staged)

    def result(self, finished: CommandResult) -> CheckResult:
        """Return the result of a run on the change."""
        printed, passed = self._printed(finished), finished.exit_code == 0
        why = f"The repository's commit hooks ({self._tool.file}) {'passed' if passed else 'failed'}."
        if finished.timed_out:
            why = f"The repository's commit hooks ({self._tool.file}) did not end within {TIMEOUT_S:g} s."
        return CheckResult(
            name=self._tool.command,
            verdict="pass" if passed else "timeout" if finished.timed_out else "fail",
            exit_code=finished.exit_code,
            detail=result_detail(why, printed),
            log="" if passed else kept_log("hooks", self._tool.command, self._tree, printed),
            duration_s=round(finished.duration_s, 3),
            output_hash=finished.stdout_sha256,
        )

    def _printed(self, finished: CommandResult) -> str:
        return self._tree.clean((finished.stdout + finished.stderr).decode(errors="replace").strip())

    async def _stage(self, top: Path, staged: str) -> None:
        """Make a repository at `top` whose HEAD is the base, with the tree checked out and in the index."""
        base = self._tree.base
        # Not git of the worktree, which knows its own git directory only.
        outer = Git(self._folder.parent, environ=self._tree.git.environ)
        form = "sha256" if len(base) == SHA256_CHARS else "sha1"
        await outer("init", "--quiet", "--template=", f"--object-format={form}", str(top))
        # The objects of the repository are read in place; new ones stay in this one.
        info = top / ".git" / "objects" / "info"
        write_atomic(info / "alternates", os.fsencode(self._common_dir / "objects") + b"\n")
        git = outer.at(top)
        await git("update-ref", "--no-deref", "HEAD", base)
        await git("read-tree", staged)
        # Before the files of the change: none of its links is followed, and what git has replaces them.
        for name in self._tool.ignored:
            write_atomic(top / name, b"")
        write_atomic(top / ".git" / "info" / "exclude", "".join(f"/{name}\n" for name in self._tool.ignored).encode())
        await git("checkout-index", "--all", "--force", "--quiet")
        # The change does not decide which hooks judge it.
        await git("checkout", base, "--", f":(top,literal){self._tool.file}")
        await git("update-index", "--refresh", "-q", ok=frozenset({0, 1}))

    async def _left(self, top: Path, staged: str) -> str:
        """Return the tree of the files at `top`, without new ones. The repository there is not entered any more."""
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="index-") as own:
            env = {
                "GIT_DIR": str(self._common_dir),
                "GIT_WORK_TREE": str(top),
                "GIT_INDEX_FILE": f"{own}/index",
            }
            git = self._tree.git.at(top)
            await git("read-tree", staged, env=env)
            await git("add", "--update", "--", ":/", f":(top,exclude,literal){self._tool.file}", env=env)
            return (await git("write-tree", env=env)).line


def _pre_commit_home(environ: Mapping[str, str]) -> dict[str, str]:
    """Return where pre-commit has its environments: the sandbox has another folder for caches, which is empty."""
    cache = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "/"), ".cache"))
    home = environ.get("PRE_COMMIT_HOME") or str(Path(cache, "pre-commit"))
    return {"PRE_COMMIT_HOME": home} if Path(home).is_dir() else {}
