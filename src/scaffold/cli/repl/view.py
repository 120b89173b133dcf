"""The text around the input line: the status line, the unfinished reply, hints, the open question."""

from collections import deque
from collections.abc import Sequence

from msgspec import Struct, field
from rich.cells import cell_len

from scaffold.agent.model_access import has_known_price
from scaffold.cli.repl.approval_queue import ANSWER_GAP, ApprovalQueue, answer_choices
from scaffold.cli.repl.renderer import Renderer, clipped_line
from scaffold.cli.repl.transcript import Transcript
from scaffold.cli.repl.user_input import EXIT_WARNING_S, RETRY_KEY, InputQueue
from scaffold.core.model import Usage
from scaffold.core.ports import Clock
from scaffold.core.printable_text import count_of, format_usd
from scaffold.core.run_settings import Effort
from scaffold.llm.transport.live_context import Hurry
from scaffold.policy.permission.approval_gate import ApprovalAnswer, DenyBecause
from scaffold.session.current_conversation import CurrentConversation
from scaffold.session.running_tools import RunningTools
from scaffold.views.lookalikes import mark_lookalikes

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_S = 8
GAP = "  "
SHORT_MODEL = 28
MAX_SUBJECT = 34
"""Columns of a question's subject beside its answers."""
_SHOWN_ANSWERS = {
    "allow": "yes",
    "deny": "no",
    "always": "yes, don't ask again",
    "singly": "one by one",
    "edits": "yes, and all edits in this folder; Shift-Tab or `/mode default` has you asked again",
}


class StatusLineState(Struct, frozen=True, kw_only=True):
    """The content of the status line."""

    model: str
    mode: str
    activity: str
    """The agent's activity; empty when idle."""
    busy_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    window: float | None = None
    """The used part of the model's context window; None if its size is unknown."""
    agents: int = 0
    """Running subagents."""
    effort: Effort = "auto"


class StatusSegment(Struct, frozen=True):
    """One part of the status line; those of the lowest rank are dropped first."""

    rank: int
    text: str
    style: str = ""


def status_line(state: StatusLineState, width: int) -> tuple[tuple[str, str], ...]:
    """Return the line as styles and texts, at most `width` columns in all."""
    segments = list(_status_segments(state))
    # Each segment but the first has a gap before it.
    while len(segments) > 1 and sum(cell_len(each.text) + len(GAP) for each in segments) - len(GAP) > width:
        segments.remove(min(segments, key=lambda segment: segment.rank))
    first, *rest = segments
    return (first.style, clipped_line(first.text, width)), *((each.style, GAP + each.text) for each in rest)


def status_sentence(state: StatusLineState) -> str:
    """Return the same in words and without symbols, for screen readers."""
    parts = [f"{state.activity} for {_short_duration(state.busy_s)}"] if state.activity else []
    parts += [f"{format_tokens(state.input_tokens)} tokens in, {format_tokens(state.output_tokens)} out"]
    parts += [f"{state.window:.0%} of window"] if state.window is not None else []
    parts += [count_of(state.agents, "agent")] if state.agents else []
    parts += ["cost unknown" if state.cost_usd is None else format_usd(state.cost_usd)]
    parts += [short_model(state.model)] + [f"effort {state.effort}"] * (state.effort != "auto")
    return ", ".join([*parts, f"mode {state.mode}"])


def format_tokens(count: int) -> str:
    """Return a number of tokens in few characters: `950`, `12.3k`, `1.2M`."""
    if count < 1_000:
        return str(count)
    if count < 99_950:
        return f"{count / 1_000:.1f}k"
    return f"{count / 1_000:.0f}k" if count < 999_500 else f"{count / 1_000_000:.1f}M"


def short_model(model: str) -> str:
    """Return a short form of a model string: the file name of a path, the model's name without its server."""
    provider, _, name = model.partition(":")
    if provider == "local":
        name = name.partition("@http")[0]
    elif provider == "cassette":
        name = name.rpartition("/")[2]
    return clipped_line(f"{provider}:{name}", SHORT_MODEL)


class TurnState(Struct):
    """The state of the current turn; times are seconds of the REPL's clock."""

    busy: bool = False
    """Whether a turn runs."""
    started_s: float = 0.0
    stopping: bool = False
    """Whether the turn is being stopped."""
    warned_s: float | None = None
    """The time of the latest warning that another Ctrl-C leaves."""
    later: deque[str] = field(default_factory=deque)
    """Commands that wait for the end of the turn, and what was typed after the first of them."""
    command: str = ""
    """The line of the user's own command that runs instead of a turn."""
    subagent_usage: Usage = Usage()
    """The usage of subagents, at most a second old."""


class ReplView(Struct, kw_only=True):
    """The terminal's view of a REPL; read again for each redraw."""

    clock: Clock
    current: CurrentConversation
    transcript: Transcript
    tools: RunningTools
    questions: ApprovalQueue
    queue: InputQueue
    turn: TurnState
    hurry: Hurry

    def status(self) -> StatusLineState:
        """Return the content of the status line."""
        turn, session = self.turn, self.current.session
        usage, agent = session.usage_counter.usage + turn.subagent_usage, session.agent
        spends = turn.busy and not turn.command
        return StatusLineState(
            model=session.model,
            mode=session.modes.chosen,
            activity=self._activity_text(),
            busy_s=self.clock.monotonic() - turn.started_s if turn.busy else 0.0,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens + (self.transcript.streamed_tokens if turn.busy else 0),
            cost_usd=None if spends and not has_known_price(session.model) else usage.cost_usd,
            window=agent.tokens / agent.window_tokens if agent.window_tokens else None,
            agents=session.peers.running,
            effort=agent.effort,
        )

    def live(self, renderer: Renderer) -> str:
        """Return the unfinished parts, drawn: the reply, running calls, waiting messages; empty without any."""
        parts = [self.transcript.live()]
        if self.questions.current is None:
            frame = SPINNER[int(self.clock.monotonic() * FRAMES_PER_S) % len(SPINNER)]
            parts += [renderer.call(call.name, call.args, mark=frame, style="cyan") for call in self.tools.running]
        if waiting := [f"queued: {words}" for words in self.queue.waiting]:
            lines = [clipped_line(line, renderer.width - 2) for line in (*waiting, "Up edits the last one")]
            parts.append(renderer.words("\n".join(lines), "dim", indent=2))
        return "\n".join(part for part in parts if part)

    def hint(self) -> str:
        """Return a hint about the next key; empty if there is none."""
        if self.turn.stopping:
            return "stopping; Ctrl-C again ends everything"
        if self.waits_for_retry:
            return f"{self.transcript.activity} · {RETRY_KEY} retries now · Esc gives up"
        warned_s = self.turn.warned_s
        warned = warned_s is not None and self.clock.monotonic() - warned_s <= EXIT_WARNING_S
        return "Ctrl-C again to exit" if warned else ""

    @property
    def waits_for_retry(self) -> bool:
        """Whether a request waits to be sent again, and nothing else asks for the user's keys."""
        return self.turn.busy and self.questions.current is None and self.transcript.waits_s > 0

    def retry_now(self) -> None:
        """Send the waiting request at once."""
        self.transcript.end_wait()
        self.hurry.now()

    def choices(self, *, by_line: bool = False) -> str:
        """Return the answers to the open question, as keys or as whole lines; empty if there is none.

        A question that has moved up, since something was shown below it, is named.
        """
        if (question := self.questions.current) is None:
            return ""
        moved = not by_line and not self.transcript.ends_with_question
        about = mark_lookalikes(f"{question.agent} {question.tool} {question.subject}".strip())
        named = f"? {clipped_line(about, MAX_SUBJECT)}{ANSWER_GAP}" if moved else ""
        return named + answer_choices(self.questions, by_line=by_line)

    def answer(self, answer: ApprovalAnswer) -> None:
        """Answer the open question."""
        shown = f"no, because {answer.reason}" if isinstance(answer, DenyBecause) else _SHOWN_ANSWERS[answer]
        self.transcript.notice(f"  {shown}")
        self.questions.answer(answer)

    def _activity_text(self) -> str:
        if self.turn.stopping:
            return "stopping"
        if self.questions.current is not None:
            return "asks you"
        if not self.turn.busy:
            return ""
        if self.turn.command:
            return "running your command"
        running = self.tools.running
        return f"running {running[-1].name}" if running else self.transcript.activity


def _status_segments(state: StatusLineState) -> Sequence[StatusSegment]:
    segments = []
    if state.activity:
        frame = SPINNER[int(state.busy_s * FRAMES_PER_S) % len(SPINNER)]
        segments.append(
            StatusSegment(9, f"{frame} {state.activity} {_short_duration(state.busy_s)}", "class:status.busy")
        )
    if state.mode != "default":
        segments.append(StatusSegment(8, state.mode, "class:status.mode"))
    if state.agents:
        segments.append(StatusSegment(7, count_of(state.agents, "agent"), "class:status.agents"))
    segments.append(StatusSegment(5, f"↑{format_tokens(state.input_tokens)} ↓{format_tokens(state.output_tokens)}"))
    if state.window is not None:
        style = "class:status.full" if state.window >= 0.7 else ""
        segments.append(StatusSegment(4, f"{state.window:.0%} of window", style))
    segments.append(StatusSegment(6, "cost unknown" if state.cost_usd is None else format_usd(state.cost_usd)))
    thinks = "" if state.effort == "auto" else f" ({state.effort})"
    segments.append(StatusSegment(3, short_model(state.model) + thinks))
    if state.mode == "default":
        segments.append(StatusSegment(2, "default"))
    if not state.activity:
        segments.append(StatusSegment(1, "/help"))
    return segments


def _short_duration(seconds: float) -> str:
    # Without spaces: the status line is short, and this part of it is drawn every second.
    whole = int(seconds)
    return f"{whole}s" if whole < 60 else f"{whole // 60}m{whole % 60:02}s"
