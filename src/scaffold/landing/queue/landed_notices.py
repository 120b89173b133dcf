"""Tell working agents which of the files that they are editing have changed on the branch."""

import asyncio
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from scaffold.core.errors import GitError
from scaffold.core.ids import ActionKey, Commit
from scaffold.core.model import Attempt, Run
from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.core.states import WORKER_PHASES
from scaffold.git.added_lines import added_lines_of
from scaffold.git.checkouts import worktree
from scaffold.git.checkouts.untouched_files import FormerFile, is_untouched
from scaffold.git.commits import PathChange, path_changes
from scaffold.host.contained_path import ContainedPath
from scaffold.run.context import RunContext
from scaffold.run.notices import MERGE_QUEUE
from scaffold.run.task_list import own_changed_paths

MAX_PATHS = 500
"""How many landed paths are looked up in each worktree; each is an argument of a command."""
MAX_READ = 20
"""With more of them, git is faster than reading each."""
MAX_TOLD = 10
MAX_RANGES = 5


async def tell_running_agents(
    context: RunContext, run: Run, *, old: Commit, new: Commit, landed: Sequence[ActionKey]
) -> None:
    """Send a message to each agent that has changed a path which the branch's move also changed."""
    running = [each for each in context.store.attempts.open_of_run(run.id) if each.phase in WORKER_PHASES]
    if not running:
        return
    paths = (await own_changed_paths(context.git, run.settings.landing.tracked_list, old, new))[:MAX_PATHS]
    named = frozenset(paths)
    changes = [each for each in await path_changes(context.git, old, new) if each.path in named]
    for attempt in running:
        folder = context.worktree_of(attempt)
        # Most attempts work elsewhere, and their number times two processes of git would be the price of each landing.
        is_elsewhere = len(paths) <= MAX_READ and await asyncio.to_thread(_are_as_before, folder, changes)
        edited = () if is_elsewhere else await _edited_paths(context, run, attempt, paths)
        if edited:
            lines = await added_lines_of(context.git, old, new, edited)
            names = join_limited(landed, MAX_TOLD)
            advice = (
                f"That is the work of {names}. Your work will be merged with them: keep your own changes there small."
            )
            text = "\n".join((*_notice_lines(edited, lines), advice))
            with context.store.transaction():
                context.store.messages.send(
                    run.id, sender=MERGE_QUEUE, recipient=attempt.id, body={"text": context.redactor.clean(text)}
                )


def _are_as_before(folder: Path, changes: Sequence[PathChange]) -> bool:
    """Return whether each path is in the folder as it was on the branch: missing, or the same bytes and mode."""
    for each in changes:
        status = ContainedPath(folder, each.path).status()
        if each.kind == "A" and status is None:
            continue
        mode = "100755" if status and status.st_mode & stat.S_IXUSR else "100644"
        if mode != each.former_mode or not is_untouched(folder, FormerFile(each.path, mode, each.former_id)):
            return False
    return True


async def _edited_paths(context: RunContext, run: Run, attempt: Attempt, paths: Sequence[str]) -> tuple[str, ...]:
    git = worktree.find_worktree(context.repository, context.worktree_of(attempt))
    if git is None:
        return ()
    folder = context.temporary_folder(run.id)
    try:
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder, prefix="looked-", ignore_cleanup_errors=True) as own:
            # A copy of the index: git would lock and rewrite it while the agent uses it.
            index = await asyncio.to_thread(shutil.copy, git.registration / "index", own)
            chosen, env = ("--", *(f":(top,literal){path}" for path in paths)), {"GIT_INDEX_FILE": index}
            base = attempt.base_sha
            changed = await git("diff", "--name-only", "--no-renames", "-z", base, *chosen, env=env)
            new = await git("ls-files", "--others", "--exclude-standard", "-z", *chosen, env=env)
            found = {*changed.records, *new.records}
            return tuple(path for path in paths if path in found)
    except (GitError, OSError):  # its worker removes the worktree, or its agent has broken it
        return ()


def _notice_lines(edited: Sequence[str], lines: dict[str, tuple[int, ...]]) -> Iterator[str]:
    for path in edited[:MAX_TOLD]:
        where = f" at {_line_ranges(lines[path])}" if path in lines else ""
        yield utf8_safe(f"`{path}`, which you have changed, has landed changes{where}.")
    if len(edited) > MAX_TOLD:
        yield f"So have {len(edited) - MAX_TOLD} more of the files that you have changed."


def _line_ranges(numbers: Sequence[int]) -> str:
    """Return e.g. `line 3` or `lines 3, 40-61`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in found]
    return f"{'line' if len(numbers) == 1 else 'lines'} {join_limited(shown, MAX_RANGES)}"
