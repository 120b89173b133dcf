"""What an attempt has done so far, kept at each step: if it is cut off, the next attempt continues it where it can."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from scaffold.core.conversation import KeptTurn, Thinking
from scaffold.core.ids import Commit, TreeId
from scaffold.core.model import Attempt
from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.git import commits, refs
from scaffold.git.trees.merge import Conflicted, merge_commits, on_base
from scaffold.worker.agent.watchdog import worktree_fingerprint
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.workspace.attempt_worktree import committed_by_agent
from scaffold.worker.workspace.shared_folder import SHARED
from scaffold.worker.workspace.workplace import Workplace

REWORK = """\
# Rework the change that was rejected
A human read the change of an earlier attempt before it landed, and rejected it; what they said is above. Your files
already have that change: rework it as they ask, and leave the rest as it is. They are asked again about the result."""
MAX_PATHS = 20
"""How many changed files the message to the agent names."""
RESTORED = (
    "You were interrupted, and your work was saved meanwhile. It is restored; background commands have ended, and "
    "files that git ignores may be gone."
)


class KeptWork:
    """The attempt's turn and how far its work is judged, as the store has them."""

    def __init__(
        self, place: Workplace, records: AttemptRecords, turn: KeptTurn | None = None, progress: str = ""
    ) -> None:
        self.turn = turn
        """The turn that this attempt continues; None if it begins anew."""
        self.progress = progress
        """How far the work was judged before this attempt: JSON of whoever judges it, empty if it must be again."""
        self._records = records
        self._opened = place.workspace.opened

    def keep(self, turn: KeptTurn) -> None:
        """Store the turn, with the progress that was noted last: one is not true without the other."""
        turn = msgspec.structs.replace(turn, worktree=self._opened)
        with self._records.transaction() as attempt:
            self._records.store.kept_turns.keep(attempt.id, turn, self.progress)

    def note(self, progress: msgspec.Struct) -> None:
        """Store how far the work of the present turn is judged, unless that is stored already."""
        stored = self.progress
        self.note_next(progress)
        if self.progress != stored:
            with self._records.transaction() as attempt:
                self._records.store.kept_turns.keep_progress(attempt.id, self.progress)

    def note_next(self, progress: msgspec.Struct) -> None:
        """Note what is true once the next turn has begun: it is stored with that."""
        self.progress = msgspec.json.encode(progress).decode()


async def take_up_turn(place: Workplace, records: AttemptRecords) -> KeptWork:
    """Restore the files of the last attempt if it was cut off, and return its work; an empty one to start over.

    Call it before the attempt executes: until then the last attempt counts, whatever happens to this one. If its turn
    cannot be continued, a notice says why.
    """
    store, attempt = records.store, records.task.attempt
    earlier = store.attempts.for_action(attempt.action_id)
    begun = [each for each in earlier if each.number < attempt.number and each.phase != "workspace"]
    before = begun[-1] if begun else None
    turn = store.kept_turns.get(before.id) if before else None
    if before is None or turn is None:
        return KeptWork(place, records)
    key = records.task.action.key
    restored = await _restore_work(place, before)
    if isinstance(restored, Impossible):
        records.inform(f"{key} starts over after attempt {before.number}: {restored.why}.")
        with store.transaction():
            store.attempts.begin_anew(attempt.action_id)
        return KeptWork(place, records)
    moved = _moved_to(place, before)
    messages = tuple(msgspec.structs.replace(each, parts=tuple(map(moved, each.parts))) for each in turn.messages)
    calls = turn.begun
    if any(calls.values()):
        now = await worktree_fingerprint(place.workspace.git)
        calls = {call: files for call, files in calls.items() if files != now}
    seen, opened = moved(turn.seen), place.workspace.opened
    turn = msgspec.structs.replace(turn, messages=messages, seen=seen, begun=calls, news=restored, worktree=opened)
    # On another base its work has to be judged anew.
    progress = store.kept_turns.progress(before.id) if before.base_sha == place.workspace.base else ""
    with records.transaction(durable=True):
        store.kept_turns.keep(attempt.id, turn, progress)
        store.learning_uses.carry(before.id, attempt.id)
        if before.edits is not None:
            store.attempts.keep_edits(attempt.id, before.edits, fence=attempt.fence)
    how = "waited for you" if before.outcome == "waiting" else "was interrupted"
    records.inform(f"{key} continues where attempt {before.number} {how}.")
    return KeptWork(place, records, turn, progress)


class Impossible(msgspec.Struct, frozen=True):
    """Earlier work cannot be taken up, and why."""

    why: str


async def _restore_work(place: Workplace, before: Attempt) -> str | Impossible:
    """Restore the attempt's work on the present base and return what its agent should know.

    On the same base HEAD is where its agent left it; on another one it does not move.
    """
    git, base, now = place.workspace.git, place.workspace.base, place.task.attempt
    if before.model != now.model:
        return Impossible(f"its conversation is with {before.model}, and the model is now {now.model}")
    head = before.head_sha or await refs.resolve(place.run_context.git, refs.rescue_ref(before.id))
    if head is not None:
        if await refs.resolve(place.run_context.git, head) is None:
            return Impossible("the repository no longer has its work")
        tree = await work_on_base(place, before, head)
        if isinstance(tree, Impossible):
            return tree
        await git("read-tree", "-u", "--reset", tree)
        if tree == head and before.start == place.workspace.start:
            await git("reset", "--soft", await committed_by_agent(git, before.id, head))
    if before.base_sha == base:
        return RESTORED
    changed = sorted(utf8_safe(path) for path in await commits.changed_paths(git, before.base_sha, base))
    named = join_limited(changed, MAX_PATHS)
    return f"{RESTORED} Other work has landed since and is in your files now; read these again: {named}"


async def work_on_base(place: Workplace, before: Attempt, head: Commit) -> str | Impossible:
    """Return the commit or tree with the work of an earlier attempt on the present base."""
    base = place.workspace.base
    if before.base_sha == base:
        return head
    git = place.run_context.git
    merged = await merge_commits(git, await on_base(git, base, before.base_sha), head)
    if isinstance(merged, Conflicted):
        paths = join_limited([utf8_safe(path) for path in merged.paths], MAX_PATHS)
        return Impossible(f"its work conflicts with what landed meanwhile in {paths}")
    return merged.tree


def _moved_to(place: Workplace, before: Attempt) -> Callable[[Any], Any]:
    """Return what replaces the folders of the attempt `before` by those of this one."""
    # Signed thinking must go back to its provider unchanged, so folders are replaced in everything else.
    old = place.run_context.worktree_of(before)
    moves = [(_folder_pattern({old, old.resolve(), Path(before.worktree or old)}), place.workspace.path)]
    if place.shared is not None:
        temporary = place.run_context.temporary(before.run_id, before.id)
        # A sandbox has a folder of its own in it.
        shared = _folder_pattern({temporary, temporary.resolve()}, rf"(?:/\w+)?/{SHARED}")
        moves.append((shared, place.shared.path.path))

    def moved(part: Any) -> Any:
        for pattern, new in moves:
            part = part if isinstance(part, Thinking) else _replace_folder(part, pattern, _json_escaped(str(new)))
        return part

    return moved


def _folder_pattern(folders: set[Path], below: str = "") -> re.Pattern[str]:
    escaped = sorted((re.escape(_json_escaped(str(folder))) for folder in folders), key=len, reverse=True)
    return re.compile(rf"(?:{'|'.join(escaped)}){below}(?![\w.-])")


def _json_escaped(path: str) -> str:
    return msgspec.json.encode(path).decode()[1:-1]


def _replace_folder(part: object, pattern: re.Pattern[str], new: str) -> object:
    text = msgspec.json.encode(part).decode()
    changed = pattern.sub(lambda _: new, text)
    return part if changed == text else msgspec.json.decode(changed, type=type(part))


async def restore_rejected_change(place: Workplace, records: AttemptRecords) -> TreeId | None:
    """Restore the files of the change that a human rejected last, and return their tree; None if there is none.

    Attempts that failed, were killed or stopped since then have not reworked it, but one that is to take another
    approach starts over. On a base that has moved, the files are merged with it; if that is not possible, the attempt
    starts over. HEAD does not move.
    """
    git, attempt = place.workspace.git, records.task.attempt
    earlier = [each for each in records.store.attempts.for_action(attempt.action_id) if each.number < attempt.number]
    before = next((each for each in reversed(earlier) if each.outcome in {"rejected", "landed", "recorded"}), None)
    if before is None or before.outcome != "rejected" or before.head_sha is None or attempt.alternative:
        return None
    if await refs.resolve(place.run_context.git, before.head_sha) is None:
        return None
    tree = await work_on_base(place, before, before.head_sha)
    if isinstance(tree, Impossible):
        text = f"{records.task.action.key} starts over after attempt {before.number} was rejected: {tree.why}."
        records.inform(text)
        return None
    await git("read-tree", "-u", "--reset", tree)
    return TreeId((await git("write-tree")).line)
