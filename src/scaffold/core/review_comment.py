"""What a human says about lines of a change."""

from datetime import datetime

from msgspec import Struct

from scaffold.core.ids import ActionId, AttemptId, Commit, RunId


class ReviewComment(Struct, frozen=True, kw_only=True):
    """A comment on lines of one attempt's change."""

    id: str
    run_id: RunId
    action_id: ActionId
    attempt_id: AttemptId
    """The attempt whose change it is about."""
    number: int
    """From 1, counting the comments on changes of the action."""
    base_sha: Commit
    commit_sha: Commit
    """The commits between which the change was shown."""
    fingerprint: str
    """Of the change, as an approval has it."""
    path: str
    first_line: int
    last_line: int
    before: bool = False
    """Whether the lines are those before the change."""
    quoted: str
    """The lines as they were shown, without secrets; without the middle of many."""
    text: str
    """Without secrets."""
    author: str
    sent_as: str = ""
    """How it was sent to the agent: `rejection`, `message`, or `item ID` once the change had landed; empty: a draft."""
    created_at: datetime
    sent_at: datetime | None = None

    @property
    def place(self) -> str:
        """The file with its lines, as the user names them: `app.py:3`, `app.py:3-5`, `app.py:-3` before the change."""
        lines = f"{self.first_line}" if self.first_line == self.last_line else f"{self.first_line}-{self.last_line}"
        return f"{self.path}:{'-' if self.before else ''}{lines}"
