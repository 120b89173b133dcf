"""The reason of a denial, written in the input line while the question stays open."""

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from scaffold.policy.permission.approval_gate import ApprovalQuestion

REASON_HINT = "Enter: no, with this reason   Esc: back to the question"


class DenialReason:
    """Borrows the input line for a reason; what was typed before is put back afterwards."""

    def __init__(self, line: Buffer) -> None:
        self._line = line
        self._before = Document()
        self.question: ApprovalQuestion | None = None
        """The question that the reason is for; None while none is written."""

    def begin(self, question: ApprovalQuestion) -> None:
        """Empty the line for the reason."""
        self._before, self.question = self._line.document, question
        self._line.reset()

    def end(self) -> str:
        """Restore the line, and return the reason; empty if none was written."""
        reason = self._line.text.strip()
        self.question = None
        self._line.reset(self._before)
        return reason

    def end_if_answered(self, current: ApprovalQuestion | None) -> None:
        """Restore the line if the question is no longer the current one; an unfinished reason stays in the line."""
        if self.question is not None and current is not self.question and (reason := self.end()):
            self._line.insert_text(reason)
