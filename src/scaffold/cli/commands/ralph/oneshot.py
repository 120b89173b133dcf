"""One task, one answer: `ralph "TASK"`, with the result of the call."""

import asyncio
from collections import Counter

from msgspec import Struct

from scaffold.cli.exit_codes import FAILED, OK, exit_code
from scaffold.cli.render.live.work_line import WorkLine
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Activity, Usage
from scaffold.core.printable_text import count_of
from scaffold.host.clock import SystemClock
from scaffold.session.agent_session import Session, open_session
from scaffold.session.open_conversation import OpenConversation
from scaffold.session.options import SessionOptions
from scaffold.session.reporter import Reporter
from scaffold.session.result import Ending, result_json, stop_reason
from scaffold.session.slash.prompt_commands import send_command
from scaffold.session.slash.syntax import AgentCommand


class OneshotTask(Struct, frozen=True):
    """A task from the command line and standard input."""

    words: str
    """The user's own words; `@path` in them attaches a file."""
    piped: str
    """The text from standard input, where `@path` has no meaning."""
    command: AgentCommand | None = None
    """The words as a command that is a turn; None if they are not one."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.words + self.piped).strip()


class _OneshotOutcome(Struct):
    stop: str = "end"
    error: str | None = None
    code: int = OK


async def run_oneshot(
    task: OneshotTask, options: SessionOptions, conversation: OpenConversation, reporter: Reporter
) -> int:
    """Let the agent do `task`, and return the exit code.

    `reporter` gets the result in any case; a ScaffoldError is raised after it if the reporter is for people.
    """
    # The result is reported in any case, so it starts as the one of a bug.
    outcome, session = _OneshotOutcome("error", "an unexpected error ended the session", FAILED), None
    try:
        async with open_session(options, conversation, reporter) as session:
            shown = WorkLine(SystemClock(), told=True, quiet=not reporter.for_people)
            async with shown.during(Activity(label=f"{conversation.model} is working")):
                outcome = await _run_turns(task, session)
    except ScaffoldError as error:
        outcome = _OneshotOutcome(stop_reason(error), error.in_full, exit_code(error))
        if reporter.for_people:
            raise
    except asyncio.CancelledError:
        outcome = _OneshotOutcome("interrupted", f"interrupted: resume with `ralph --resume {conversation.id}`")
        raise
    finally:
        if session is not None and session.decisions.denials:
            by_tool = Counter(str(denial["tool"]) for denial in session.decisions.denials)
            named = ", ".join(f"{tool} ({count})" if count > 1 else tool for tool, count in by_tool.items())
            fix = "Allow what needs approval with `--allow`, `--allow-category` or `--yolo`."
            print_text(f"denied: {count_of(len(session.decisions.denials), 'call')}: {named}. {fix}", err=True)
        reporter.result(
            result_json(
                session=conversation.id,
                model=conversation.model,
                result=session.usage_counter.text if session else "",
                usage=session.usage_counter.usage if session else Usage(),
                others=session.peers.used if session else Usage(),
                ending=Ending(
                    stop=outcome.stop, error=outcome.error, denials=session.decisions.denials if session else ()
                ),
            )
        )
    return outcome.code


async def _run_turns(task: OneshotTask, session: Session) -> _OneshotOutcome:
    taken = send_command(session, task.command, task.piped) if task.command else session.say(task.words, task.piped)
    result = await taken
    # Subagents end with this process, and their results would be lost.
    while session.peers.running or session.peers.waiting:
        await session.peers.arrival()
        result = await session.turn(())
    if result.stop == "refused":
        return _OneshotOutcome("refused", "the model declined to answer", FAILED)
    return _OneshotOutcome()
