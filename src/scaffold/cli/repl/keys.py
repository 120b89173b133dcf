"""What keys mean, depending on how things stand: decided here, carried out elsewhere."""

from typing import Literal

from msgspec import Struct

from scaffold.policy.permission.approval_gate import ApprovalAnswer

EXIT_WARNING_S = 2.0
"""How long a warning that one more Ctrl-C leaves holds."""
MIN_IDLE_S = 0.5
"""How long no key may have been pressed before one counts as an answer: what was typed before is none."""

InterruptEffect = Literal["deny", "stop", "end", "clear", "warn", "leave"]
EnterEffect = Literal["send", "continue", "ignore"]
ANSWERS: dict[str, ApprovalAnswer] = {
    "y": "allow",
    "yes": "allow",
    "n": "deny",
    "no": "deny",
    "a": "always",
    "always": "always",
}
"""What answers a question, in small letters; a line that only begins so does not."""


class InterruptContext(Struct, frozen=True, kw_only=True):
    """How things stand when Ctrl-C is pressed; times are seconds of one clock that never goes back."""

    now_s: float
    asked: bool
    """Whether a question is open."""
    busy: bool
    stopping: bool
    """Whether the turn was told to end and has not ended yet."""
    typed: bool
    """Whether there is text in the line."""
    warned_s: float | None
    """When it was last said that one more leaves."""


def on_interrupt(moment: InterruptContext) -> InterruptEffect:
    """Return what Ctrl-C does: no to a question, then stop, then end everything; idle it clears, warns, leaves."""
    if moment.stopping:
        return "end"
    if moment.asked:
        return "deny"
    if moment.busy:
        return "stop"
    if moment.typed:
        return "clear"
    return "leave" if moment.warned_s is not None and moment.now_s - moment.warned_s <= EXIT_WARNING_S else "warn"


def on_enter(before_cursor: str, after_cursor: str) -> EnterEffect:
    """Return what Enter does: a backslash before the cursor goes on with a new line, an empty line is nothing."""
    if before_cursor.endswith("\\") and not after_cursor.strip():
        return "continue"
    return "send" if (before_cursor + after_cursor).strip() else "ignore"


def counts_as_answer(*, shown_s: float | None, last_key_s: float, now_s: float) -> bool:
    """Tell whether a key may answer: the question was shown, and nothing was typed since for a while before it.

    Whoever is in the middle of a word has not read the question.
    """
    return shown_s is not None and now_s - max(shown_s, last_key_s) >= MIN_IDLE_S
