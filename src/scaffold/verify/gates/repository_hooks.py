"""Run a repository's own commit hooks on files, with pre-commit, husky or lefthook.

They run in a scratch repository in the folder for temporary files: hooks look at staged files, stage their fixes, and
some write into `.git`. None of that may happen in a worktree. We never run git in the scratch repository afterwards.
"""

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit, TreeId
from scaffold.core.model import Activity
from scaffold.core.proof.gates import Gate, GateRun
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.host.atomic_files import delete_folder_if_possible, write_atomic
from scaffold.host.process.command_runner import CommandResult
from scaffold.verify.contract.check_runs import NOT_STARTED_CODES, HookPlace, Tree, kept_log, result_detail
from scaffold.verify.gates.hook_tools import HookTool, is_hook_file, merged_results, read_hooks, tools_in
from scaffold.verify.gates.reports.runner_result import RunnerResult, unusable_result
from scaffold.verify.services.lifecycle import ShellCommand, run_with_services

BINARIES = "node_modules/.bin"
SHA256_CHARS = 64
IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "hooks"), ("EMAIL", "hooks@localhost"))
}
"""Tools that stash unstaged changes make commits, which stay in the scratch repository."""


class HookInput(Struct, frozen=True, kw_only=True):
    """The input of hooks: the staged files that differ from HEAD, as in a commit."""

    staged: TreeId
    head: Commit
    without: tuple[str, ...] | None = ()
    """Paths that HEAD lacks, so that they count as staged although they did not change; None: all."""
    definitions: Commit
    """The commit whose files define the hooks."""


class HookRun(Struct, frozen=True, kw_only=True):
    """The result of hooks, and the files as they left them."""

    run: GateRun
    left: TreeId
    """The tree with their fixes, or the staged tree without fixes."""

    @property
    def ended(self) -> bool:
        """Whether all hooks finished, so that their fixes are complete."""
        return self.run.problem in {None, "vacuous"}


async def run_on_all_files(gate: Gate, tree: Tree, *, environment: str, timeout_s: float) -> GateRun:
    """Run the hooks on all files of the commit of `tree`; an `error` says why they cannot judge anything."""
    staged = await commits.tree_of(tree.git, tree.commit)
    all_files = HookInput(staged=staged, head=tree.commit, without=None, definitions=tree.commit)
    return (await run_hooks(gate, tree, all_files, environment=environment, timeout_s=timeout_s)).run


async def run_hooks(gate: Gate, tree: Tree, given: HookInput, *, environment: str, timeout_s: float) -> HookRun:
    """Run the hooks of each tool once, on the files that the previous tool left. Nothing in the worktree changes."""
    left, runs, absent = given.staged, list[_ToolRun](), dict[str, str]()
    for tool, file in tools_in(await commits.listed_paths(tree.git, given.definitions)):
        if tree.hooks is None:
            absent[tool.name] = "the folder is not trusted; run `scaffold trust` to trust it"
            continue
        hooks = _Hooks(tool, tree, tree.hooks)
        if not hooks.is_installed():
            absent[tool.name] = f"{tool.program} is not installed; {tool.remedy}"
            continue
        try:
            runs.append(await hooks.run(given, left, timeout_s))
        except GitError:  # perhaps an untrusted filter
            absent[tool.name] = f"the files cannot be checked out for the hooks in {file}"
        except _ChangedSinceTrustError as changed:
            absent[tool.name] = str(changed)
        else:
            left = runs[-1].left
    return HookRun(run=_gate_run(gate, tree, environment, runs, absent), left=left)


class _ChangedSinceTrustError(Exception):
    """A file that defines hooks is not the version that the user trusts."""


class _ToolRun(Struct, frozen=True):
    tool: HookTool
    finished: CommandResult
    printed: str
    result: RunnerResult
    left: TreeId


class _Hooks:
    """The hooks of one tool, each time in a new repository."""

    def __init__(self, tool: HookTool, tree: Tree, place: HookPlace) -> None:
        self._tool = tool
        self._tree = tree
        self._place = place
        temporary = tree.sandbox.confinement.temporary if tree.sandbox else Path(tree.environ["TMPDIR"])
        self._folder = temporary / "hooks"

    def is_installed(self) -> bool:
        """Return whether the tool is on PATH, or among the packages of the checkout."""
        top = self._tree.git.cwd
        return shutil.which(self._tool.program, path=f"{top / BINARIES}:{self._tree.environ['PATH']}") is not None

    async def run(self, given: HookInput, staged: TreeId, timeout_s: float) -> _ToolRun:
        """Stage a tree and run the hooks; return how they ended, and the tree they left."""
        await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True)
        top = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            decided = await self._stage_tree(top, given, staged)
            await self._place.prepare(top)
            environ = {**self._tree.environ, **IDENTITY, "PATH": f"{top / BINARIES}:{self._tree.environ['PATH']}"}
            environ |= _pre_commit_home(environ)
            command = ShellCommand(text=self._tool.command, cwd=top, environ=environ, timeout_s=timeout_s)
            async with self._tree.during(Activity(label="hooks", command=self._tool.command)):
                finished = await run_with_services(command, self._tree.services, self._tree.sandbox, top=top)
            printed = self._tree.clean((finished.stdout + finished.stderr).decode(errors="replace").strip())
            left = await self._tree_left(top, staged, decided)
            return _ToolRun(self._tool, finished, printed, _hook_result(self._tool, finished, printed, top), left)
        finally:
            # Delete the checkout now: the folder above is only deleted at the end of the attempt.
            await asyncio.to_thread(delete_folder_if_possible, top)

    async def _stage_tree(self, top: Path, given: HookInput, staged: TreeId) -> Sequence[str]:
        """Make a repository at `top` with the tree checked out and in the index; return the files that define hooks."""
        # The worktree's `Git` only works with its own git directory.
        outer = Git(self._folder.parent, environ=self._tree.git.environ)
        form = "sha256" if len(given.head) == SHA256_CHARS else "sha1"
        await outer("init", "--quiet", "--template=", f"--object-format={form}", str(top))
        # The objects of the repository are read in place; new ones stay in this one.
        info = top / ".git" / "objects" / "info"
        write_atomic(info / "alternates", os.fsencode(self._place.common_dir / "objects") + b"\n")
        git = outer.at(top)
        await git("update-ref", "--no-deref", "HEAD", await _head_commit(git, given))
        await git("read-tree", staged)
        # Before the files of the change are checked out, so that none of its links is followed.
        for name in self._tool.ignored:
            write_atomic(top / name, b"")
        write_atomic(top / ".git" / "info" / "exclude", "".join(f"/{name}\n" for name in self._tool.ignored).encode())
        # The change does not decide which hooks judge it.
        commit = given.definitions
        entries = (await git("ls-tree", "-r", "-z", commit)).records
        wanted = [entry for entry in entries if is_hook_file(entry.partition("\t")[2])]
        there = (await git("ls-files", "--cached", "-z")).records
        gone = [path for path in there if is_hook_file(path)]
        lines = [f"0 {'0' * len(commit)}\t{path}" for path in gone] + wanted
        await git("update-index", "-z", "--index-info", stdin=b"".join(os.fsencode(line) + b"\0" for line in lines))
        decided = sorted({*gone, *(entry.partition("\t")[2] for entry in wanted)})
        await git("checkout-index", "--all", "--force", "--quiet")
        await git("update-index", "--refresh", "-q", ok=frozenset({0, 1}))
        await asyncio.to_thread(_require_trusted, top, decided, self._place.trusted)
        return decided

    async def _tree_left(self, top: Path, staged: TreeId, decided: Collection[str]) -> TreeId:
        """Return the tree of the files at `top`, without new files. Git no longer enters the repository there."""
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="index-") as own:
            env = {"GIT_DIR": str(self._place.common_dir), "GIT_WORK_TREE": str(top), "GIT_INDEX_FILE": f"{own}/index"}
            git = self._tree.git.at(top)
            await git("read-tree", staged, env=env)
            kept = [f":(top,exclude,literal){path}" for path in decided]
            await git("add", "--update", "--", ":/", *kept, env=env)
            return TreeId((await git("write-tree", env=env)).line)


async def _head_commit(git: Git, given: HookInput) -> Commit:
    # Hooks compare the staged files with this commit, which is the input's without some of its paths.
    if given.without == ():
        return given.head
    if given.without is None:
        await git("read-tree", "--empty")
    else:
        await git("read-tree", given.head)
        gone = b"".join(os.fsencode(path) + b"\0" for path in given.without)
        await git("update-index", "--force-remove", "-z", "--stdin", stdin=gone)
    tree = (await git("write-tree")).line
    return Commit((await git("commit-tree", tree, "-m", "Before the staged files", env=IDENTITY)).line)


def _require_trusted(top: Path, decided: Sequence[str], trusted: Mapping[str, str] | None) -> None:
    for name in decided if trusted is not None else ():
        path = top / name
        if not path.is_symlink() and not path.is_file():
            continue
        if path.is_symlink():
            raise _ChangedSinceTrustError(f"{name} is a link; make it a file")
        if hashlib.sha256(path.read_bytes()).hexdigest() != (trusted or {}).get(name):
            raise _ChangedSinceTrustError(
                f"{name} of the base commit is not the version that you trust; commit or undo its change"
            )


def _hook_result(tool: HookTool, finished: CommandResult, printed: str, top: Path) -> RunnerResult:
    if finished.timed_out:
        return unusable_result("timeout", "It timed out.")
    if finished.exit_code is None:
        why = "too many processes" if finished.too_many_processes else f"signal {finished.signal}"
        return unusable_result("error", f"It was stopped by {why}.")
    if finished.exit_code in NOT_STARTED_CODES:
        what = f"`{tool.command}` could not be run (exit code {finished.exit_code}); {tool.remedy}"
        return unusable_result("error", what)
    return read_hooks(tool, finished.exit_code, printed, top)


def _gate_run(gate: Gate, tree: Tree, environment: str, runs: Sequence[_ToolRun], absent: Mapping[str, str]) -> GateRun:
    """Return the run of the gate. The hooks of a tool that cannot run here are skipped, unless no others exist."""
    skipped = RunnerResult(outcomes=dict.fromkeys(absent, "skipped"))
    result = merged_results({**{each.tool.name: each.result for each in runs}, "": skipped})
    if not runs:
        result = unusable_result("error", "; ".join(absent.values()) or "the base has no commit hooks")
    printed = "\n".join(each.printed for each in runs)
    failed = result.problem in {"error", "timeout"} or "failed" in result.outcomes.values()
    first = next((each.finished for each in runs if each.finished.exit_code), runs[0].finished if runs else None)
    hashes = [each.finished.stdout_sha256 for each in runs]
    return GateRun(
        gate=gate,
        commit=tree.commit,
        environment=environment,
        exit_code=first.exit_code if first else None,
        problem=result.problem,
        outcomes=result.outcomes,
        absent=absent if runs else {},
        counts=result.counts,
        messages=result.messages,
        lines=result.lines,
        detail=result_detail(result.why, printed),
        log=kept_log(gate.name, gate.command, tree, printed) if failed and printed else "",
        duration_s=round(sum(each.finished.duration_s for each in runs), 3),
        output_hash=hashes[0] if len(hashes) == 1 else None,
    )


def _pre_commit_home(environ: Mapping[str, str]) -> dict[str, str]:
    # The sandbox has another, empty folder for caches.
    cache = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "/"), ".cache"))
    home = environ.get("PRE_COMMIT_HOME") or str(Path(cache, "pre-commit"))
    return {"PRE_COMMIT_HOME": home} if Path(home).is_dir() else {}
