"""Answers to the question whether a call may run: as words, as keys, and when they count."""

import re

from scaffold.policy.permission.approval_gate import ApprovalAnswer, DenyBecause

MIN_IDLE_S = 0.5
"""A key counts as an answer only after this pause: earlier keys were typed for something else."""
EDITS_KEY = "A"
"""The only answer in upper case: it is for all edits, where the same letter in lower case is for one file."""
ANSWERS: dict[str, ApprovalAnswer] = {
    "y": "allow",
    "yes": "allow",
    "n": "deny",
    "no": "deny",
    "a": "always",
    "always": "always",
    "edits": "edits",
    "o": "singly",
    "one by one": "singly",
}
"""The answers to a question, in lower case; the whole line must match."""
_REASONED = re.compile(r"no?,? because:?\s+(?P<reason>\S.*)", re.IGNORECASE | re.DOTALL)


def parse_answer(words: str) -> ApprovalAnswer | None:
    """Return the answer that a key or a line means, `no, because ...` included; None if it is not an answer."""
    if reasoned := _REASONED.fullmatch(words.strip()):
        return DenyBecause(reasoned["reason"])
    return "edits" if words.strip() == EDITS_KEY else ANSWERS.get(words.strip().lower())


def counts_as_answer(*, shown_s: float | None, last_key_s: float, now_s: float) -> bool:
    """Return whether a key may answer: the question is shown, and no key was pressed for a while before.

    A user in the middle of a word has not read the question.
    """
    return shown_s is not None and now_s - max(shown_s, last_key_s) >= MIN_IDLE_S
