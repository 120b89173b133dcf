"""What keys do to a run: each is a command of `scaffold`, as its user could type it, so there is no second way."""

import shlex
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Goal
from scaffold.core.printable_text import utf8_safe
from scaffold.core.states import Failed, Paused
from scaffold.orchestrator.user_control.own_program import IN_BACKGROUND, START_TIMEOUT_S, OwnProgram, started_run_id
from scaffold.tui.key_table import Selection
from scaffold.views.waiting import ANY_TEXT, WaitingEntry

STARTING = frozenset({"run", "resume"})
OWN_TERMINAL = frozenset({"live", "attach", "chat", "mcp", "serve", "ralph", "login", "demo"})
"""Commands that ask or go on, and so need a terminal."""
GOES_ON = frozenset({"-f", "--follow", "--watch"})
MAX_NOTICE_LINES = 3
OWNER = "scaffold"


class Question(Struct, frozen=True):
    """What the bottom line asks: words for `submit`, or y or n, of which y is `agree`."""

    text: str
    submit: Callable[[str], object] | None = None
    agree: Callable[[], object] | None = None


class ActingScreen(Protocol):
    """The screen on which keys are pressed."""

    @property
    def selection(self) -> Selection:
        """What keys are about."""
        ...

    def ask(self, question: Question) -> None:
        """Ask in the bottom line."""
        ...

    def tell(self, text: str) -> None:
        """Show a line."""
        ...

    def show_page(self, title: str, lines: Sequence[str], about: object) -> None:
        """Show a text about this."""
        ...

    def begin(self, what: Coroutine[Any, Any, None]) -> None:
        """Do something while the screen goes on."""
        ...

    def follow_run(self, name: str) -> None:
        """Show another run."""
        ...

    def refresh_feed(self) -> None:
        """Read everything again."""
        ...


class RunActs:
    """The commands behind the keys. A method that needs a selection is called only if its key is not refused."""

    def __init__(self, screen: ActingScreen, program: OwnProgram) -> None:
        self._screen = screen
        self._program = program

    @property
    def by_name(self) -> Mapping[str, Callable[[], object]]:
        """The methods by the names in the table of keys."""
        return {
            act.__name__: act
            for act in (
                *(self.pause, self.stop, self.kill, self.approve, self.reject, self.merge, self.send),
                *(self.diff, self.evidence, self.revert, self.retry, self.run, self.command),
            )
        }

    def pause(self) -> None:
        """Pause or resume the goal under the cursor, else the run."""
        view, about = self._screen.selection.shown.view, self._screen.selection.about
        if view is None:
            return
        if isinstance(about, Goal):
            word = "resume" if isinstance(about.state, Paused) else "pause"
            self._do_command(word, about.name, *(self._of_run if word == "pause" else ()))
        else:
            goes_on = view.summary.is_live and view.run.request_to_owner != "pause"
            self._do_command("pause" if goes_on else "resume", view.run.id)

    def stop(self) -> None:
        """Stop the run, after a question."""
        run_id = self._of_run[1]
        self._confirm_command(
            f"Stop run {run_id}? Work that is under way is pinned, and `resume` continues.", "stop", run_id
        )

    def kill(self) -> None:
        """End the work on an action for good, after a question."""
        key = self._action_key
        what = f"Kill the agent of {key}? The action is cancelled for good; its unfinished work is pinned."
        self._confirm_command(what, "stop", key, *self._of_run)

    def approve(self) -> None:
        """Approve what is under the cursor."""
        if (entry := self._screen.selection.entry) is not None:
            self._do_line(entry.choices["approve"])

    def reject(self) -> None:
        """Reject it, with a reason."""
        if (entry := self._screen.selection.entry) is not None:
            command = entry.choices["reject"]

            def decide(why: str) -> None:
                self._do_line(command, *(("--why", why) if why.strip() else ()))

            self._screen.ask(Question(f"Reject {entry.id}: why? (the agent reads it; esc: do not)", decide))

    def show_request(self, entry: WaitingEntry) -> None:
        """Show all that a decision is about: of a change its diff by intent, and its checks."""
        self._do_command("inbox", entry.id, page=True)

    def answer(self, entry: WaitingEntry) -> None:
        """Decide something that waits: by one of its words, or in any words."""
        words = [word for word in entry.choices if word != ANY_TEXT]
        hint = f"one of: {', '.join(words)}" if words else "any words"

        def decide(said: str) -> None:
            first = said.strip().split(maxsplit=1)
            if first and first[0] in entry.choices:
                self._do_line(entry.choices[first[0]], *self._further_words(entry, first[1:]))
            elif ANY_TEXT in entry.choices and first:
                self._do_command("answer", entry.id, said)
            else:
                self._screen.tell(f"nothing was decided; answer with {hint}")

        self._screen.ask(Question(f"Answer {entry.id} with {hint} (esc: not now)", decide))

    def merge(self) -> None:
        """Approve the change under the cursor that waits to land; else take the work of the run."""
        view, change = self._screen.selection.shown.view, self._screen.selection.change
        if change is not None:
            self._do_line(change.choices["approve"])
        elif view is not None:
            branch = view.run.base_branch or "your branch"
            self._confirm_command(f"Take the work of run {view.run.id} to {branch}?", "land", view.run.id)

    def send(self) -> None:
        """Send a message to the agent of an action."""
        key, of_run = self._action_key, self._of_run
        self._screen.ask(Question(f"Message to {key} (esc: none)", lambda text: self._send_text(key, of_run, text)))

    def diff(self) -> None:
        """Show what an action, or else the run, has changed."""
        key = self._screen.selection.action_key
        self._do_command("diff", *((key, *self._of_run) if key else (self._of_run[1],)), page=True)

    def evidence(self) -> None:
        """Show the checks of an action and their results."""
        self._do_command("contract", self._action_key, *self._of_run, page=True)

    def revert(self) -> None:
        """Undo what an action has landed, after a question."""
        what = f"Revert {self._action_key}? A new commit undoes its own, and the action is open again."
        self._confirm_command(what, "revert", self._action_key, *self._of_run)

    def retry(self) -> None:
        """Give what has failed new attempts: the action under the cursor, else the run."""
        action = self._screen.selection.action
        if action is not None and isinstance(action.state, Failed):
            self._do_command("retry", action.key, *self._of_run)
        else:
            self._do_command("retry", self._of_run[1])

    def run(self) -> None:
        """Ask for a task and start a run of it."""
        what = "Task (its agents work and spend up to the configured limit; esc: none)"
        self._screen.ask(Question(what, lambda task: self._do_command("run", "--", task) if task.strip() else None))

    def command(self) -> None:
        """Ask for a command and run it."""
        self._screen.ask(Question("scaffold", self._type_command))

    # Commands

    @property
    def _of_run(self) -> tuple[str, ...]:
        view = self._screen.selection.shown.view
        return ("--run", view.run.id) if view else ()

    @property
    def _action_key(self) -> str:
        return self._screen.selection.action_key or ""

    def _type_command(self, line: str) -> None:
        try:
            words = shlex.split(line)
        except ValueError as error:
            self._screen.tell(f"`{line}` cannot be read as a command: {error}")
            return
        words = words[1:] if words[:1] == [OWNER] else words
        if not words:
            return
        if words[0] in {"q", "quit"}:
            self._screen.tell("press q to quit")
        elif words[0] == "open" and len(words) == 2:
            self._screen.follow_run(words[1])
        elif words[0] in OWN_TERMINAL or GOES_ON & {*words}:
            self._screen.tell(f"`{line}` needs a terminal of its own: quit with q, or use another window")
        else:
            self._do_command(*words, page=words[0] not in STARTING)

    def _confirm_command(self, text: str, *words: str) -> None:
        self._screen.ask(Question(text, agree=lambda: self._do_command(*words)))

    def _send_text(self, key: str, of_run: Sequence[str], text: str) -> None:
        if text.strip():
            self._do_command("send", key, "-", *of_run, stdin=text)
        else:
            self._screen.tell("nothing was sent")

    def _further_words(self, entry: WaitingEntry, words: Sequence[str]) -> Sequence[str]:
        # After the word of a decision its reason follows; an answer is one text.
        if not words:
            return ()
        return ("--why", *words) if "approve" in entry.choices else words

    def _do_line(self, command: str, *more: str) -> None:
        words = shlex.split(command)
        self._do_command(*words[words[0] == OWNER :], *more)

    def _do_command(self, *words: str, page: bool = False, stdin: str = "") -> None:
        """Run a command; show what it says as a page if it is long, or if that is what it is for."""
        self._screen.tell(f"… {shlex.join(words)}")
        # What the page is about is settled now: the cursor may have moved when the command has ended.
        self._screen.begin(self._run_command(words, self._screen.selection.about, page=page, stdin=stdin))

    async def _run_command(self, words: Sequence[str], about: object, *, page: bool, stdin: str) -> None:
        starts = words[0] in STARTING
        flags = [flag for flag in IN_BACKGROUND if flag not in words] if starts else []
        argv = [words[0], *flags, *words[1:]]
        try:
            said = await self._program.output(argv, utf8_safe(stdin).encode(), START_TIMEOUT_S)
        except ScaffoldError as problem:
            self._screen.tell(f"✗ {problem.what}. {problem.fix}")
            return
        if starts and (run_id := started_run_id(said)) is not None:
            self._screen.follow_run(run_id)
            said = f"run {run_id} goes on in the background"
        self._screen.refresh_feed()
        lines = said.rstrip().splitlines() or ["done"]
        if page and len(lines) > 1:
            self._screen.tell("")
            self._screen.show_page(f"scaffold {shlex.join(words)}", lines, about)
        else:
            # What came of it is said last.
            told = lines if len(lines) <= MAX_NOTICE_LINES else lines[1 - MAX_NOTICE_LINES :]
            self._screen.tell(f"✓ {' '.join(line.strip().removeprefix('✓ ') for line in told)}")
