"""Files that both sides of a merge changed: their outcomes, and the request to an agent that merges them."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import ActionKey

FileStatus = Literal["merged", "resolved", "refused"]
"""Git merged it | it was in conflict, and both sides' changes are in the result | nothing could merge it."""


class FileMerge(Struct, frozen=True):
    """The outcome for one file that both sides changed."""

    path: str
    status: FileStatus
    detail: str = ""
    """How it was resolved, or why it was not."""

    @property
    def line(self) -> str:
        """Return it as text of one line: `app.py: resolved by its functions and classes`."""
        if self.status == "refused":
            return f"{self.path}: {self.detail}"
        return f"{self.path}: {self.status} {self.detail}".rstrip()


class FileVersions(Struct, frozen=True):
    """The three versions of a text file that both sides changed; the base is empty if both added it."""

    path: str
    base: str
    ours: str
    theirs: str


class MergeQuestion(Struct, frozen=True):
    """Files in conflict for an agent: `ours` is what landed, `theirs` the work of the action."""

    action: ActionKey
    task: str
    files: tuple[FileVersions, ...]


class MergedCode(Struct, frozen=True, tag="merged_code"):
    """The agent's answer: the whole text of each file, by path."""

    texts: Mapping[str, str]


class ConflictExplanation(Struct, frozen=True, tag="conflict_explanation"):
    """Why the agent, or the lack of one, leaves the conflict to others."""

    why: str


MergeAnswer = MergedCode | ConflictExplanation
