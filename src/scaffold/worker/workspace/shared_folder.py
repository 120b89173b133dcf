"""The folder in which agents share notes: each attempt has its own copy, which is merged into the projections."""

from msgspec import Struct

from scaffold.core.ids import ActionKey
from scaffold.host.contained_path import ContainedPath
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.run.attempts.assignment import Assignment
from scaffold.run.context import RunContext
from scaffold.run.notices import warn
from scaffold.run.shared_notes import EDITS, SCRATCH, UnusableNotes, merge_notes, notes_of_story, read_notes

SHARED = "shared"
"""The name of the folder."""
VARIABLES = ("SCAFFOLD_SHARED_DIR", "RALPH_SHARED_DIR")


class SharedFolder(Struct, frozen=True, kw_only=True):
    """An attempt's own copy of the notes, in a folder that its commands may write, remove and replace by a link."""

    path: ContainedPath
    given: dict[str, str]
    """The notes by file name, as the attempt got them or as they were when they were last merged."""
    story_scratch: str = ""
    """The name of the file with the notes of one story; empty unless the attempt works on a step of one."""

    @property
    def variables(self) -> dict[str, str]:
        """The variables by which commands learn where it is."""
        return dict.fromkeys(VARIABLES, str(self.path))


def open_shared_folder(
    context: RunContext, task: Assignment, sandbox: SandboxSpec | None, story: ActionKey | None
) -> SharedFolder:
    """Create the folder beside the temporary files of the attempt's commands, with the present notes.

    `story`: the story that the attempt is a step of; None for another attempt.
    """
    temporary = context.temporary(task.run.id, task.attempt.id)
    top = sandbox.confinement.temporary if sandbox else temporary
    top.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Commands of an attempt that continues have had it already.
    path = ContainedPath(top, SHARED)
    with (path / EDITS).opened(create=True, mode=0o700):
        pass
    names = [SCRATCH, *([notes_of_story(story)] if story else [])]
    given = {}
    for name in names:
        found = read_notes(context.projections / name)
        given[name] = found if isinstance(found, str) else ""
        (path / name).write(given[name].encode())
    return SharedFolder(path=path, given=given, story_scratch=names[1] if story else "")


def left_shared_folder(context: RunContext, task: Assignment, story: ActionKey | None) -> SharedFolder | None:
    """Return the folder that a killed worker left; None without one. Notes that are there already count as given."""
    temporary = context.temporary(task.run.id, task.attempt.id)
    tops = (temporary, *(sorted(temporary.iterdir()) if temporary.is_dir() else ()))
    path = next((found for top in tops if (found := ContainedPath(top, SHARED)).path.is_dir()), None)
    if path is None:
        return None
    names = [SCRATCH, *([notes_of_story(story)] if story else [])]
    given = {name: read_notes(context.projections / name) for name in names}
    texts = {name: text if isinstance(text, str) else "" for name, text in given.items()}
    return SharedFolder(path=path, given=texts, story_scratch=names[1] if story else "")


async def merge_shared_folder(context: RunContext, task: Assignment, folder: SharedFolder) -> None:
    """Add the lines that the attempt's agent wrote to the notes in the projections; warn of a file that is unusable."""
    for name, given in tuple(folder.given.items()):
        written = read_notes(folder.path / name)
        outcome = (
            await merge_notes(context, name, given, written)
            if isinstance(written, str) and written != given
            else written
        )
        if isinstance(outcome, UnusableNotes):
            text = f"{task.action.key} wrote notes in {name} that are not kept: {outcome.why}."
            warn(context, task.run.id, text)
        elif isinstance(written, str):
            folder.given[name] = written
