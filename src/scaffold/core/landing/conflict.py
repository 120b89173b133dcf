"""Files that both sides of a merge changed: their outcomes, and the request to an agent that merges them."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import ActionKey

FileStatus = Literal["merged", "resolved", "refused", "explained"]
"""Git merged it | it was in conflict, and both sides' changes are in the result | nothing could merge it |
the merge agent explained why the sides contradict each other, so that a human decides."""


class FileMerge(Struct, frozen=True):
    """The outcome for one file that both sides changed."""

    path: str
    status: FileStatus
    detail: str = ""
    """How it was resolved, or why it was not."""

    @property
    def line(self) -> str:
        """Return it as text of one line: `app.py: resolved by its functions and classes`."""
        if self.is_open:
            return f"{self.path}: {self.detail}"
        return f"{self.path}: {self.status} {self.detail}".rstrip()

    @property
    def is_open(self) -> bool:
        """Whether the sides are not merged."""
        return self.status in {"refused", "explained"}


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
    """The agent's answer: why the sides contradict each other."""

    why: str


class NotMerged(Struct, frozen=True, tag="not_merged"):
    """Why there is no answer that can be used."""

    why: str


MergeAnswer = MergedCode | ConflictExplanation | NotMerged
