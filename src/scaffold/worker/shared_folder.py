"""The folder in which agents share notes: each attempt has its own copy, which is merged into the projections."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.core.ids import ActionKey
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.run.assignment import Assignment
from scaffold.run.context import RunContext
from scaffold.run.notices import warn
from scaffold.run.shared_notes import SCRATCH, UnusableNotes, merge_notes, notes_of_story, read_notes

VARIABLES = ("SCAFFOLD_SHARED_DIR", "RALPH_SHARED_DIR")


class SharedFolder(Struct, frozen=True, kw_only=True):
    """An attempt's own copy of the notes, in a folder that its commands may write."""

    path: Path
    given: Mapping[str, str]
    """The notes as the attempt got them, by file name."""
    story_scratch: str = ""
    """The name of the file with the notes of one story; empty for an attempt that is no step of one."""

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
    path = (sandbox.confinement.temporary if sandbox else temporary) / "shared"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    (path / "workflow_edits").mkdir(mode=0o700, exist_ok=True)
    names = [SCRATCH, *([notes_of_story(story)] if story else [])]
    given = {}
    for name in names:
        found = read_notes(context.projections / name)
        given[name] = found if isinstance(found, str) else ""
        (path / name).write_text(given[name], encoding="utf-8")
    return SharedFolder(path=path, given=given, story_scratch=names[1] if story else "")


async def merge_shared_folder(context: RunContext, task: Assignment, folder: SharedFolder) -> None:
    """Merge what the attempt's agent wrote into the notes in the projections; warn of a file that cannot be used.

    Other agents may have written to the same notes meanwhile: their lines stay, and the new ones are added.
    """
    for name, given in folder.given.items():
        written = read_notes(folder.path / name)
        if isinstance(written, str) and written != given:
            written = await merge_notes(context, name, given, context.redactor.clean(written))
        if isinstance(written, UnusableNotes):
            text = f"{task.action.key} wrote notes in {name} that are not kept: {written.why}."
            warn(context, task.run.id, text)
