"""The REPL of `scaffold`: plans are refined with the user and executed in the background; the inbox is at hand."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, get_args

import click

from scaffold.cli.execution.background_start import start_in_background
from scaffold.cli.execution.chosen_executors import with_ready_executors
from scaffold.cli.execution.unconfined import agreed_settings, agreed_to_resume
from scaffold.cli.render.changes.waiting_change_text import change_lines
from scaffold.cli.render.goals_tasks_agents import agents_text, goals_text, tasks_text
from scaffold.cli.render.inbox_text import entry_text
from scaffold.cli.render.item_text import items_text
from scaffold.cli.render.run_preview import stored_preview
from scaffold.cli.render.terminal.style import print_note
from scaffold.cli.render.terminal.text_layout import UNLIMITED, layout_for
from scaffold.cli.repl.loop import Repl
from scaffold.cli.repl.repl_profile import ReplProfile
from scaffold.config.run.effective_settings import RunFlags, run_settings, setting_overrides
from scaffold.config.run.tier_choice import TierQuestion, settings_in_tier
from scaffold.core.errors import UsageError
from scaffold.core.ids import ConversationId, RunId
from scaffold.core.model import Run
from scaffold.core.printable_text import count_of, utf8_safe
from scaffold.git.repository import starting_point
from scaffold.orchestrator.chat_tools import (
    goal_tools,
    orchestrator_tools,
    plan_and_confirm,
    project_tools,
    resume_and_confirm,
)
from scaffold.orchestrator.owner.run_end import save_run
from scaffold.orchestrator.owner.run_lease import require_run
from scaffold.orchestrator.user_control.inbox_decisions import DECISION_LIFETIME, InboxDecision, decide_items
from scaffold.orchestrator.user_control.open_run import RunInput, reconfigure_run, start_run
from scaffold.policy.permission.approval_gate import ApprovalQuestion
from scaffold.run.context import RunContext
from scaffold.session.slash.syntax import CommandSyntax, ShowText, TasksView, item_command, with_own_commands
from scaffold.views.changes.taken_work import without_taken
from scaffold.views.changes.waiting_change import read_waiting_change
from scaffold.views.name_lookup import find_goal
from scaffold.views.store_reader import latest_run
from scaffold.views.text_format import brief
from scaffold.views.waiting_of_user import read_waiting_here

CLEAR = "/clear"
TASKS = "the actions of the run as a tree: status, effects, results; the items outside of it"
NO_RUN = "There is no run yet: describe what to do."
NOTHING_YET = "There is nothing to show yet."
NOTHING = "Nothing is waiting for you."
Word = Literal["approve", "reject", "answer"]


def orchestrator_profile(context: RunContext, flags: RunFlags, repl: Repl) -> ReplProfile:
    """Return the profile of a REPL that plans runs of this repository and starts them."""
    control = RunControl(context, flags, repl)
    return ReplProfile(
        name="scaffold",
        commands=with_own_commands(
            (
                _read_command("goals", "[GOAL]", "the goals of the run: what holds and what is missing", control.goals),
                item_command(control.tasks, more="GOAL | ", what=TASKS),
                _read_command("agents", "", "its processes: what each does and what it costs", control.agents),
                _read_command("inbox", "", "what waits for you: approvals, questions, runs", control.inbox),
                _read_command(
                    "approve", "ID [WHY]", "approve a request or a change; /inbox shows its ID", control.approve
                ),
                _read_command("reject", "ID [WHY]", "reject it; its agent reads why", control.reject),
                _read_command("answer", "ID TEXT", "answer a question; /inbox shows its ID", control.answer),
            )
        ),
        keeps_tool=lambda tool: tool.category == "file_read",  # the agents of a run do the work itself
        extra_tools=(*orchestrator_tools(control), *goal_tools(control), *project_tools(control)),
        exit_hint=control.follow_hint,
    )


class RunControl:
    """Opens, plans and starts the run a REPL is about; a `ChatRunControl` and a `StartDialog`."""

    def __init__(self, context: RunContext, flags: RunFlags, repl: Repl) -> None:
        self.context = context
        self._flags = flags
        self._repl = repl
        self._run_id: RunId | None = None

    def goals(self, goal: str) -> str:
        """Return the goals of the run, or one of them; ScaffoldError if there is no such goal."""
        layout = layout_for(sys.stdout)
        return self._run_text(
            lambda run: goals_text(self.context, run, layout, find_goal(self.context, run, goal) if goal else None)
        )

    def tasks(self, words: Sequence[str]) -> str:
        """Return the actions of the run, or of one goal, and the items; ScaffoldError if there is no such goal."""
        layout, store = layout_for(sys.stdout), self.context.store
        if words and words[0] in get_args(TasksView):
            return click.unstyle(items_text(words, store, layout))
        goal = words[0] if words else ""
        tree = self._run_text(
            lambda run: tasks_text(self.context, run, layout, find_goal(self.context, run, goal) if goal else None)
        )
        items = (
            [] if goal or not store.work_items.all() else ["Items outside of the plan:", items_text((), store, layout)]
        )
        return click.unstyle("\n".join([tree, *([""] if items else []), *items]))

    def agents(self, _: str) -> str:
        """Return the processes of the run."""
        return self._run_text(lambda run: agents_text(self.context, run, layout_for(sys.stdout)))

    async def inbox(self, _: str) -> str:
        """Return what waits for the user."""
        return click.unstyle(await inbox_text(self.context))

    def approve(self, words: str) -> str:
        """Approve an item of the inbox."""
        return decide(self.context, "approve", words.split())

    def reject(self, words: str) -> str:
        """Reject an item of the inbox."""
        return decide(self.context, "reject", words.split())

    def answer(self, words: str) -> str:
        """Answer a question of the inbox."""
        return decide(self.context, "answer", words.split())

    def follow_hint(self, _: ConversationId | None) -> str:
        """Return how to follow the run of this REPL; empty if it has none."""
        run = self.run() if self._run_id is not None else None
        return f"run {run.id}: `scaffold status` shows it, `scaffold attach` watches it" if run else ""

    def run(self) -> Run | None:
        """Return the run this REPL opened, or the repository's latest; None before the first."""
        store = self.context.store
        return latest_run(store) if self._run_id is None else store.runs.get(self._run_id)

    async def execute_plan(self, plan: str) -> str:
        """Plan a run from the text, and start it if the user agrees; return a text for the model."""
        return await plan_and_confirm(self.context, (await self._open_run(plan)).id, self)

    async def open_unplanned_run(self, request: str) -> Run:
        """Open and save a run without goals, which this REPL is about from now on."""
        opened = await self._open_run(request)
        # Released, because a process that starts one of its goals would otherwise wait for this one.
        save_run(self.context, opened.id)
        return require_run(self.context.store, opened.id)

    async def _open_run(self, request: str) -> Run:
        # A plan was discussed, so no tier without one will do.
        question = TierQuestion(texts=[request], needs_planner=True)
        overrides, root = setting_overrides(self._flags), self.context.repository.root
        once = self._flags.trust_once
        found = settings_in_tier(root, self.context.environ, overrides, question, trust_once=once)
        if found.notice:
            self._repl.transcript.notice(found.notice)
        settings = await run_settings(
            self.context, found.settings, self._flags, planner=True, notice=print_note, choice=found.choice
        )
        head = (await starting_point(self.context.repository)).head
        settings = await agreed_settings(self.context, settings, head, (), once=once, ask=self._ask_unconfined)
        settings = await with_ready_executors(self.context, settings, ())
        opened = await start_run(self.context, RunInput(request=request, source=request), settings)
        self._run_id = opened.id
        return opened

    async def _ask_unconfined(self, lines: Sequence[str]) -> bool:
        question = ApprovalQuestion(
            tool="run", category="shell", subject="\n".join(lines), why="they run with all your rights", always=None
        )
        return await self._repl.questions.ask(question) == "allow"

    async def resume_in_background(self, run: Run) -> str:
        """Start a run that no process owns in the background if the user agrees; return a text for the model."""
        once, ask = self._flags.trust_once, self._ask_unconfined
        reconfigure_run(self.context, run, await agreed_to_resume(self.context, run, run.settings, once=once, ask=ask))
        return await resume_and_confirm(self.context, run.id, self)

    def show_step(self, text: str) -> None:
        """Show a line about the planner's progress."""
        self._repl.transcript.notice(text)

    async def confirm_start(self, run: Run) -> bool:
        """Show the planned run and return whether the user wants it to start."""
        question = ApprovalQuestion(
            tool="start",
            category="subagent",
            subject=stored_preview(self.context.store, run).text(layout_for(sys.stdout)),
            why="agents start working on it, in the background",
            always=None,  # each start is asked for
        )
        return await self._repl.questions.ask(question) == "allow"

    def start_in_background(self, run: Run) -> None:
        """Start a process that executes the run, and clear the conversation after this turn."""
        start_in_background(self.context, run)
        self._repl.transcript.notice(
            f"run {run.id} is running in the background: /tasks shows it, `scaffold attach` follows it"
        )
        # Not now: the turn that called this tool still writes into the conversation.
        self._repl.run_after_turn(CLEAR)

    def _run_text(self, text: Callable[[Run], str]) -> str:
        run = self.run()
        return click.unstyle(text(run)) or NOTHING_YET if run else NO_RUN


def _read_command(name: str, words: str, summary: str, answer: Callable[[str], str | Awaitable[str]]) -> CommandSyntax:
    def read(arguments: Sequence[str]) -> ShowText | None:
        lacks, exceeds = not arguments and words[:1] not in {"", "["}, bool(arguments) and not words
        return None if lacks or exceeds else ShowText(lambda: answer(" ".join(arguments)))

    return CommandSyntax(name=name, words=words, summary=summary, read=read)


async def inbox_text(context: RunContext) -> str:
    """Return what waits for a human in this repository, in full, with the REPL's commands."""
    entries = await without_taken(read_waiting_here(context, context.clock))
    now, layout = context.clock.now(), layout_for(sys.stdout)
    if not entries:
        return NOTHING
    changes = [change_lines(read_waiting_change(context.store, entry.item), layout) for entry in entries]
    texts = [entry_text(entry, now, layout, lines) for entry, lines in zip(entries, changes, strict=True)]
    return "\n\n".join([*texts, "Here: /approve ID [WHY]   /reject ID [WHY]   /answer ID TEXT"])


def decide(context: RunContext, word: Word, arguments: Sequence[str]) -> str:
    """Decide an item as the command of the same name does; return the outcome."""
    name, words = arguments[0], utf8_safe(" ".join(arguments[1:]).strip())
    if word == "answer":
        if not words:
            raise UsageError("the answer is empty", "Write what the agent should know: /answer ID TEXT.")
        decision = InboxDecision(to="answered", words=words)
    else:
        until = context.clock.now() + DECISION_LIFETIME
        is_yes = word == "approve"
        decision = InboxDecision(
            to="approved" if is_yes else "rejected",
            words=words or None,
            scope="call" if is_yes else "run",
            valid_until=until,
        )
    (decided,) = decide_items(context.store, [name], decision)
    left = len(context.store.inbox.open())
    more = f"; {count_of(left, 'more item')}: /inbox" if left else ""
    if decided.repeated:
        return f"{decided.item.kind} {decided.item.id} was already {decided.item.state}{more}"
    return f"{decided.item.state} {decided.item.id}: {brief(decided.item.text, UNLIMITED)}{more}"
