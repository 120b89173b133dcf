"""How a talk looks at any moment, for the terminal it is held at."""

from collections import deque
from typing import Protocol

from msgspec import Struct, field

from scaffold.cli.repl import approval_text
from scaffold.cli.repl.approval_queue import ApprovalQueue
from scaffold.cli.repl.keys import EXIT_WARNING_S
from scaffold.cli.repl.pending_input import PendingInput
from scaffold.cli.repl.running_tools import RunningTools
from scaffold.cli.repl.status_line import FRAMES_PER_S, SPINNER, StatusLineState
from scaffold.cli.repl.transcript import Transcript
from scaffold.cli.repl.ui_port import TerminalUI
from scaffold.core.model import Usage
from scaffold.core.ports import Clock
from scaffold.policy.permission.approval_gate import ApprovalAnswer, ApprovalQuestion
from scaffold.session.current_conversation import CurrentConversation

ANSWERED = {"allow": "yes", "deny": "no", "always": "always"}


class TurnState(Struct):
    """What goes on; times are seconds of the talk's clock."""

    busy: bool = False
    """Whether a turn goes on."""
    started_s: float = 0.0
    stopping: bool = False
    """Whether the turn was told to end."""
    warned_s: float | None = None
    """When it was last said that one more Ctrl-C leaves."""
    later: deque[str] = field(default_factory=deque)
    """Commands that wait for the turn's end."""
    subagent_usage: Usage = Usage()
    """What subagents used, as of a second ago at most."""


class ReplParts(Protocol):
    """What a talk is made of."""

    clock: Clock
    current: CurrentConversation
    face: TerminalUI
    narrator: Transcript
    work: RunningTools
    questions: ApprovalQueue
    queued: PendingInput
    turn_state: TurnState


class ReplViewAdapter:
    """A talk as its terminal sees it; implements `face.Scene`."""

    def __init__(self, talk: ReplParts) -> None:
        self._talk = talk

    def standing(self) -> StatusLineState:
        """Return what the status line tells."""
        talk, going, session = self._talk, self._talk.turn_state, self._talk.current.session
        used, agent = session.usage_counter.usage + going.subagent_usage, session.agent
        return StatusLineState(
            model=session.model,
            mode=session.modes.current,
            doing=self._doing(),
            busy_s=talk.clock.monotonic() - going.started_s if going.busy else 0.0,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens + (talk.narrator.streamed_tokens if going.busy else 0),
            cost_usd=used.cost_usd,
            window=agent.tokens / agent.window_tokens if agent.window_tokens else None,
            agents=session.peers.running,
        )

    def live(self) -> str:
        """Return what is not finished: the reply, the calls that run, the words that wait."""
        talk, pen = self._talk, self._talk.face.pen
        parts = [talk.narrator.live()]
        if self.question() is None:
            spin = SPINNER[int(talk.clock.monotonic() * FRAMES_PER_S) % len(SPINNER)]
            parts += [pen.call(call.name, call.args, mark=spin, style="cyan") for call in talk.work.running]
        waiting = (*talk.turn_state.later, *talk.queued.waiting)
        parts += [pen.words(f"  queued: {' '.join(words.split())}"[: pen.width], "dim") for words in waiting]
        return "\n".join(part for part in parts if part)

    def hint(self) -> str:
        """Return a short word about the next key; empty if there is none."""
        going = self._talk.turn_state
        if going.stopping:
            return "stopping; Ctrl-C again ends everything"
        warned = going.warned_s is not None and self._talk.clock.monotonic() - going.warned_s <= EXIT_WARNING_S
        return "Ctrl-C again to leave" if warned else ""

    def choices(self) -> str:
        """Return which answers there are to the question, and what they mean."""
        question, asked = self.question(), self._talk.questions
        if question is None:
            return ""
        return approval_text.answer_choices(alike=asked.identical_count, more=asked.waiting_count, armed=asked.armed)

    def question(self) -> ApprovalQuestion | None:
        """Return what the user is asked, None if nothing is."""
        return self._talk.questions.current

    def key(self) -> bool:
        """Take note that a key was pressed, and tell whether it may answer the question."""
        return self._talk.questions.key()

    def answer(self, answer: ApprovalAnswer) -> None:
        """Answer the question."""
        self._talk.narrator.tell(f"  {ANSWERED[answer]}")
        self._talk.questions.answer(answer)
        self._talk.face.refresh()

    def _doing(self) -> str:
        """Return what the agent is busy with, empty while it is idle and nobody is asked."""
        talk = self._talk
        if talk.turn_state.stopping:
            return "stopping"
        if self.question() is not None:
            return "asks you"
        if not talk.turn_state.busy:
            return ""
        running = talk.work.running
        return f"running {running[-1].name}" if running else talk.narrator.activity
