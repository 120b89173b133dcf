"""What a step's agent asks to change in the steps of its story: a file in its shared folder."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.core.ids import ActionKey
from scaffold.host.files import read_untrusted, write_atomic
from scaffold.plan.story.apply_edit import foreign_files
from scaffold.plan.story.step_edit import MAX_EDIT_BYTES
from scaffold.run.context import safe_file_name
from scaffold.run.shared_notes import add_notes, notes_of_story
from scaffold.worker.attempt_context import AttemptContext

EDITS = "workflow_edits"
"""The folder for the files, in the shared folder and in the projections."""
FAILED = "failed"
"""The folder for those that were not used, in the other one."""


class EditFolder(Struct, frozen=True, kw_only=True):
    """The folder in which a step's agent asks for edits of its story."""

    path: Path
    story: ActionKey

    @property
    def own(self) -> Path:
        """The file of the agent's own story."""
        return self.path / f"{safe_file_name(self.story)}.json"


def edit_folder(context: AttemptContext) -> EditFolder | None:
    """Return the folder of the attempt, which may not exist; None if it is no step of a story."""
    shared, story = context.shared, context.task.parent
    if shared is None or story is None or story.method != "story":
        return None
    return EditFolder(path=shared.path / EDITS, story=story.key)


async def collect_edits(context: AttemptContext) -> str | None:
    """Return the text of the edits that the agent has written since the last call; None without any.

    A file that is not text, or of another story, is kept and not used; the story's notes say so.
    """
    folder = edit_folder(context)
    if folder is None or not folder.path.is_dir():
        return None
    written = sorted(each.name for each in folder.path.iterdir() if each.suffix == ".json")
    refused = [f"{each.what}. {each.fix}" for each in foreign_files(written, folder.own.name)]
    text, why = _text_of(folder.own) if folder.own.name in written else (None, "")
    if why:
        refused.append(f"the edit file `{folder.own.name}` is not used: {why}.")
    await _note(context, folder.story, refused)
    for name in written:
        used = text is not None and name == folder.own.name
        _keep(context, folder.path / name, name if used else _failed_name(context, name))
        with contextlib.suppress(OSError):
            (folder.path / name).unlink()
    return text


def keep_unused_edits(context: AttemptContext) -> None:
    """Keep the edits of a step that has failed, which are not applied, beside those that were refused."""
    folder = edit_folder(context)
    if folder is not None:
        _keep(context, folder.own, _failed_name(context, folder.own.name))


def _text_of(file: Path) -> tuple[str | None, str]:
    """Return the text of an edit file, or None and why it is not used."""
    content = read_untrusted(file, MAX_EDIT_BYTES)
    if isinstance(content, str):
        return None, content
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None, "it is not UTF-8 text"
    return (None, "it contains NUL") if "\0" in text else (text, "")


async def _note(context: AttemptContext, story: ActionKey, refused: Sequence[str]) -> None:
    if refused:
        lines = [f"- {context.task.action.key}: {each}" for each in refused]
        await add_notes(context.run_context, notes_of_story(story), "\n".join(lines))


def _failed_name(context: AttemptContext, name: str) -> str:
    return f"{FAILED}/{context.task.attempt.id}-{safe_file_name(name)}"


def _keep(context: AttemptContext, file: Path, name: str) -> None:
    """Copy an edit file into the projections, for people; a checkout that cannot be written is left alone."""
    content = read_untrusted(file, MAX_EDIT_BYTES)
    if isinstance(content, bytes):
        with contextlib.suppress(OSError):
            write_atomic(context.run_context.projections / EDITS / name, content)
