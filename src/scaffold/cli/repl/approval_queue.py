"""Approval questions: one at a time, identical ones together, each drawn with all its details."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct
from rich.cells import cell_len

from scaffold.cli.approval_answers import EDITS_KEY, counts_as_answer, parse_answer
from scaffold.cli.repl.renderer import Renderer
from scaffold.cli.repl.user_input import REASON_KEY
from scaffold.core.ports import Clock
from scaffold.core.printable_text import printable
from scaffold.policy.permission.approval_gate import ApprovalAnswer, ApprovalQuestion, DenyBecause
from scaffold.policy.rule.tool_rules import EDITS
from scaffold.session.running_tools import RunningCall, RunningTools, patch_of, proposed_text
from scaffold.tools.content.line_diff import MAX_LINES, LineDiff, line_diff
from scaffold.views.lookalikes import mark_lookalikes

MAX_SCOPE = 40
"""Characters of a rule in the row of answers; the question shows longer ones in full."""
ANSWER_GAP = "   "
"""Between answers."""
MAX_CHARACTERS = 20_000
"""Characters shown of a subject."""


class _PendingQuestion(Struct, eq=False):
    question: ApprovalQuestion
    answers: list["asyncio.Future[ApprovalAnswer]"] = msgspec.field(default_factory=list)
    turn: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    """Set once it is the first question."""
    shown_s: float | None = None


class ApprovalQueue:
    """The questions that wait for the user."""

    def __init__(self, clock: Clock, show: Callable[[ApprovalQuestion], None]) -> None:
        """`show` is called with each question when its turn comes."""
        self._clock = clock
        self._show = show
        self._waiting: list[_PendingQuestion] = []
        self._last_key_s = 0.0

    @property
    def current(self) -> ApprovalQuestion | None:
        """The question that is shown; None if there is none."""
        return self._waiting[0].question if self._waiting else None

    @property
    def identical_count(self) -> int:
        """The number of calls that the next answer decides."""
        return len(self._waiting[0].answers) + len(self._waiting[0].question.together) if self._waiting else 0

    @property
    def waiting_count(self) -> int:
        """The number of other questions that wait."""
        return max(0, len(self._waiting) - 1)

    @property
    def armed(self) -> bool:
        """Whether a key pressed now counts as an answer."""
        shown_s = self._waiting[0].shown_s if self._waiting else None
        return counts_as_answer(shown_s=shown_s, last_key_s=self._last_key_s, now_s=self._clock.monotonic())

    @property
    def offered(self) -> Sequence[ApprovalAnswer]:
        """The answers to the current question, without those that have a reason."""
        if (question := self.current) is None:
            return ()
        offers: dict[ApprovalAnswer, bool] = {
            "allow": True,
            "deny": True,
            "singly": bool(question.together),
            "always": question.always is not None,
            "edits": question.edits,
        }
        return tuple(answer for answer, is_offered in offers.items() if is_offered)

    def meaning(self, words: str) -> ApprovalAnswer | None:
        """Return the answer that a key or a line gives to the current question; None if it is not an answer."""
        answer = parse_answer(words)
        return answer if isinstance(answer, DenyBecause) or answer in self.offered else None

    async def ask(self, question: ApprovalQuestion) -> ApprovalAnswer:
        """Return the user's answer; the question is withdrawn if the caller is cancelled.

        Raises what `show` raises.
        """
        answer: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        # Equal questions have equal arguments: the digest is part of the question.
        pending = next((each for each in self._waiting if each.question == question), None)
        if pending is None:
            self._waiting.append(pending := _PendingQuestion(question))
        pending.answers.append(answer)
        try:
            self._call_first()
            await pending.turn.wait()
            # Drawn by its own caller, who alone gets the error if that fails.
            if pending.shown_s is None and not answer.done():
                self._show(question)
                pending.shown_s = self._clock.monotonic()  # after drawing: keys pressed while a long diff is drawn wait
            return await answer
        finally:
            pending.answers.remove(answer)
            if not pending.answers and pending in self._waiting:
                self._waiting.remove(pending)
                self._call_first()

    def key_pressed(self) -> bool:
        """Record that a key was pressed; return whether it counts as an answer."""
        counts = self.armed
        self._last_key_s = self._clock.monotonic()
        return counts

    def answer(self, answer: ApprovalAnswer) -> None:
        """Answer the current question; the next one is shown."""
        if self._waiting:
            for waiting in self._waiting.pop(0).answers:
                if not waiting.done():
                    waiting.set_result(answer)
            self._call_first()

    def _call_first(self) -> None:
        if self._waiting:
            self._waiting[0].turn.set()


def drawn_calls(
    question: ApprovalQuestion, tools: RunningTools, renderer: Renderer
) -> Iterator[tuple[str, LineDiff | str]]:
    """Yield the drawn question about each of its calls, and the change that the call proposes."""
    calls = (question, *question.together)
    for number, each in enumerate(calls, start=1):
        change = proposed_change(each, tools.call_of(each))
        place = f"{number} of {len(calls)}: " if question.together else ""
        yield format_question(each, change, renderer, place), change


def format_question(question: ApprovalQuestion, change: LineDiff | str, renderer: Renderer, place: str = "") -> str:
    """Return the question, drawn: the agent, the tool, the exact subject, the reason, and the scope of "always".

    `change` is the change to a file, or a text about it if there is no diff; empty for calls that change no file.
    `place` is its place in a question about several calls, such as `2 of 3: `.
    """
    agent = question.agent or "the agent"
    lines = [renderer.words(f"? {place}{agent} asks to use {question.tool} ({question.category})", "bold yellow")]
    lines.append(renderer.quoted(_clip_text(question.subject)))
    if question.why:
        lines.append(renderer.words(_clip_text(question.why), "dim", indent=2))
    if question.always is not None:
        scope = _clip_text(question.always_allows)
        lines.append(renderer.words(f'"don\'t ask again" allows: {scope}', "dim", indent=2))
    if isinstance(change, LineDiff):
        lines.append(renderer.diff(change, most=MAX_LINES, whole=True))
    elif change:
        lines.append(renderer.quoted(_clip_text(change)))
    return "\n".join(lines)


def proposed_change(question: ApprovalQuestion, call: RunningCall) -> LineDiff | str:
    """Return a call's change to its file: a diff, or else a text."""
    if question.category != "file_write":
        return ""
    if patch := patch_of(call):
        return patch
    after = proposed_text(call)
    if after is None or call.before is None:
        return f"no diff can be shown; the call is {json.dumps(dict(call.args), ensure_ascii=False)}"
    return line_diff(call.before, after) or "the file would stay as it is"


def answer_choices(queue: ApprovalQueue, *, by_line: bool = False) -> str:
    """Return the possible answers and their meaning; `…` in front while keys do not count yet.

    `by_line` says that whole lines answer, not keys.
    """
    count = f" to all {queue.identical_count}" if queue.identical_count > 1 else ""
    choices = [f"y yes{count}", "n no", "no, because ..." if by_line else f"{REASON_KEY} no, because"]
    if "singly" in queue.offered:
        choices.append("o one by one")
    if queue.current is not None and "always" in queue.offered:
        # A rule for a command allows any further words, one for a file any change of it.
        rule = (queue.current.always or "").removeprefix(f"{EDITS}:")
        scope = mark_lookalikes(f"{rule} *" if queue.current.category == "shell" else rule).removeprefix("shell:")
        # The question shows every rule; what would have to be escaped, or looks like more answers, stands only there.
        is_plain = scope.isprintable() and printable(scope) == scope and ANSWER_GAP not in scope
        named = f" for `{scope}`" if queue.current.always and is_plain and len(scope) <= MAX_SCOPE else ""
        choices.append(f"a don't ask again{named}")
    if "edits" in queue.offered:
        choices.append(f"{EDITS_KEY} accept all edits in this folder")
    if queue.waiting_count:
        choices.append(f"({queue.waiting_count} more)")
    row = ANSWER_GAP.join(choices)
    return row if queue.armed or by_line else f"… {row}"


def wrap_choices(choices: str, width: int) -> str:
    """Return the answers in lines of at most `width` columns if possible, none of them broken."""
    lines: list[str] = []
    for choice in choices.split(ANSWER_GAP):
        if lines and cell_len(lines[-1] + ANSWER_GAP + choice) <= width:
            lines[-1] += ANSWER_GAP + choice
        else:
            lines.append(choice)
    return "\n".join(lines)


def _clip_text(text: str) -> str:
    text = mark_lookalikes(text)
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}\n... {len(text) - MAX_CHARACTERS:,} more characters that are not shown"
