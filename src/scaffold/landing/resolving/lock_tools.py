"""Have lock files in conflict made anew by their own tools, in a clean checkout, without a network."""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct, structs

from scaffold.core.activity import Activity
from scaffold.core.ids import AttemptId, Commit, TreeId
from scaffold.core.landing.conflict import FileMerge
from scaffold.core.model import Run
from scaffold.core.printable_text import join_limited, truncate_text, utf8_safe
from scaffold.git import commits
from scaffold.git.trees.tree_file import NewFile
from scaffold.host.atomic_files import read_untrusted, write_atomic
from scaffold.host.process.command_runner import CommandResult, Containment, run_command
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.landing.conflicts.lock_files import (
    MAX_BYTES,
    LockTool,
    lock_tool,
    require_versions,
    text_to_start_from,
)
from scaffold.landing.conflicts.merge_ladder import HelpersAnswer
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.resolution import ReadFile, read_text
from scaffold.landing.proving.checkout import Checkouts
from scaffold.run.activity_recorder import ActivityRecorder
from scaffold.run.context import RunContext
from scaffold.verify.contract.check_runs import Tree

TIMEOUT_S = 120.0
MAX_CHARS = 300
MAX_LINES = 3
MAX_PATHS = 5
MESSAGE = "A merge without its lock files\n"


class LockFileMaker(Struct, frozen=True, kw_only=True):
    """Makes the lock files of one candidate in a checkout of the merge queue."""

    context: RunContext
    run: Run
    checkouts: Checkouts
    attempt_id: AttemptId

    async def make(self, tip: Commit, tree: TreeId, files: Sequence[ReadFile]) -> HelpersAnswer:
        """Return the files as their tools make them for a tree on `tip` in which all else is merged, or NotMergeable.

        What a tool made counts only if it changed no other file. It runs as a check does: in the sandbox, if there is
        one, and without a network.
        """
        made = await self._make_files(tip, tree, files)
        told = tuple(FileMerge(each.path, "resolved", f"by its tool: {_told(each.path)}") for each in files)
        return HelpersAnswer({each.path: made[each.path] for each in files}, told)

    async def _make_files(self, tip: Commit, tree: TreeId, files: Sequence[ReadFile]) -> dict[str, NewFile]:
        tools = {each.path: _require_tool(each.path) for each in files}
        starts = {
            each.path: await asyncio.to_thread(text_to_start_from, each.versions, tools[each.path]) for each in files
        }
        commit = await self._commit_tree(tip, tree)
        activities = ActivityRecorder(self.context, self.run, attempt_id=self.attempt_id)
        async with (
            self.checkouts.taken(activities.during) as checkout,
            checkout.tree(None, base=tip, commit=commit) as place,
        ):
            for file in files:
                data = file.written(starts[file.path]).data
                await asyncio.to_thread(write_atomic, place.git.cwd / file.path, data)
            for path, tool in tools.items():
                await self._run_tool(path, tool, place)
            await _require_only(place, tools)
            return {file.path: await _read_result(file, tools[file.path], place) for file in files}

    async def _commit_tree(self, tip: Commit, tree: TreeId) -> Commit:
        committer = self.run.settings.identity.committer
        return await commits.commit_tree(
            self.context.git, tree, parents=[tip], message=MESSAGE, author=committer, committer=committer
        )

    async def _run_tool(self, path: str, tool: LockTool, place: Tree) -> None:
        """Run a tool in the folder of its file; raise NotMergeable if it does not succeed."""
        folder = PurePosixPath(path).parent
        if shutil.which(tool.program, path=place.environ.get("PATH")) is None:
            raise NotMergeable(f"only {tool.program} can make {path} anew, and it is not installed")
        work = Activity(label="lock file", command=tool.command, folder="" if folder.name == "" else str(folder))
        async with place.during(work):
            ended = await run_command(
                tool.argv,
                cwd=place.git.cwd / folder,
                env=place.environ,
                timeout_s=TIMEOUT_S,
                containment=Containment(sandbox=_without_network(place.sandbox)),
            )
        if ended.exit_code != 0:
            raise NotMergeable(f"`{tool.command}` could not make {path} anew: {_failure_text(ended, place)}")


def _without_network(sandbox: SandboxSpec | None) -> SandboxSpec | None:
    if sandbox is None:
        return None
    return structs.replace(sandbox, confinement=structs.replace(sandbox.confinement, network="none"), proxy=None)


async def _require_only(place: Tree, tools: dict[str, LockTool]) -> None:
    """Raise NotMergeable if anything but these files differs from the commit; ignored files never land."""
    changed = await place.git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
    others = [record[3:] for record in changed.records if record[3:] not in tools]
    if others:
        commands = join_limited(list(dict.fromkeys(f"`{each.command}`" for each in tools.values())), MAX_PATHS)
        raise NotMergeable(f"{commands} also changed {utf8_safe(join_limited(others, MAX_PATHS))}")


async def _read_result(file: ReadFile, tool: LockTool, place: Tree) -> NewFile:
    """Return the file as its tool made it; raise NotMergeable if it is no such file, or does not have both sides'."""
    data = await asyncio.to_thread(read_untrusted, place.git.cwd / file.path, MAX_BYTES)
    if isinstance(data, str):
        raise NotMergeable(f"what `{tool.command}` made of {file.path} cannot be read: {data}")
    text, _ = read_text(data, MAX_BYTES)
    try:
        await asyncio.to_thread(require_versions, file.versions, tool, text)
    except NotMergeable as refused:
        raise NotMergeable(f"what `{tool.command}` made of {file.path} does not count: {refused}") from refused
    return NewFile(file.mode, data)


def _require_tool(path: str) -> LockTool:
    tool = lock_tool(path)
    if tool is None:
        raise NotMergeable("no tool is known that makes it anew without a network")
    return tool


def _told(path: str) -> str:
    return f"regenerated by `{_require_tool(path).command}`"


def _failure_text(ended: CommandResult, place: Tree) -> str:
    if ended.timed_out:
        return f"it took more than {TIMEOUT_S:.0f} s"
    said = place.clean((ended.stderr or ended.stdout).decode(errors="replace"))
    lines = [line.strip() for line in said.splitlines() if line.strip()][:MAX_LINES]
    return truncate_text(" ".join(lines), MAX_CHARS) or f"exit code {ended.exit_code}"
