"""The tools that the server offers: arguments, what needs consent, and what each does."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from scaffold.core.errors import UsageError
from scaffold.core.ids import RunId
from scaffold.core.states import Cancelled, Completed, Failed
from scaffold.mcp import run_control, run_queries
from scaffold.mcp.consent import Power
from scaffold.mcp.run_tasks import progress, progress_text
from scaffold.orchestrator.user_control.own_program import OwnProgram, halt_run_by_command, resume_run, start_run
from scaffold.views.run_json import Json
from scaffold.views.text_format import brief

MAX_WAIT_S, LOOK_S = 600, 1.0
ASKED_CELLS = 400  # of a text that a question to the user repeats
Progress = Callable[[float, float, str], Awaitable[None]]

RunName = Annotated[str | None, Meta(description="The run's id, or its beginning. Default: the latest run.")]
Limit = Annotated[float, Meta(gt=0, description="The most that the run may cost, in US dollars.")] | None


class NoArguments(Struct, forbid_unknown_fields=True):
    """No arguments."""


class OfRun(Struct, forbid_unknown_fields=True):
    """A run."""

    run: RunName = None


class OfGoal(OfRun):
    """A goal of a run, or all of them."""

    goal: Annotated[str | None, Meta(description="The goal's name. Default: all goals.")] = None


class ListActions(OfGoal):
    """A page of the actions of a run."""

    status: Annotated[str | None, Meta(description="Only actions of this status, e.g. `failed`.")] = None
    offset: Annotated[int, Meta(ge=0, description="How many actions to skip.")] = 0


class GetAction(Struct, forbid_unknown_fields=True, kw_only=True):
    """An action."""

    action: Annotated[str, Meta(description="The action's key.")]
    run: RunName = None


class WaitForRun(OfRun):
    """How long to wait for a run."""

    timeout_s: Annotated[int, Meta(ge=1, le=MAX_WAIT_S, description="Seconds to wait.")] = 60


class StartRun(Struct, forbid_unknown_fields=True, kw_only=True):
    """A request."""

    request: Annotated[str, Meta(min_length=1, max_length=400_000, description="What is to be done, in full.")]
    tier: Annotated[str | None, Meta(description="The effort, e.g. `quick` or `builder`. Default: by the words.")] = (
        None
    )
    agents: Annotated[int, Meta(ge=1, le=20, description="How many agents work in parallel.")] | None = None
    budget_usd: Limit = None


class ResumeRun(OfRun):
    """A run to continue, with a limit."""

    budget_usd: Limit = None


class AnswerQuestion(Struct, forbid_unknown_fields=True):
    """An answer."""

    item: Annotated[str, Meta(min_length=1, description="The id of the question in the inbox.")]
    answer: Annotated[str, Meta(min_length=1, max_length=20_000, description="The answer, in the user's words.")]


class SendMessage(Struct, forbid_unknown_fields=True, kw_only=True):
    """A message."""

    action: Annotated[str, Meta(description="The key of the action whose agent reads it.")]
    text: Annotated[str, Meta(min_length=1, description="The message.")]
    run: RunName = None


class RunAsTask(Struct, frozen=True):
    """A call's answer is a run that goes on: a task, for clients that know tasks."""

    run: RunId


class ServedPlace(Struct, frozen=True):
    """Where the tools work."""

    cwd: Path
    program: OwnProgram


class Call(Struct, frozen=True):
    """The caller of a tool."""

    report: Progress
    takes_tasks: bool


Answer = Json | RunAsTask


class ServedTool(Struct, frozen=True, kw_only=True):
    """One tool."""

    name: str
    title: str
    about: str
    arguments: type[Struct]
    run: Callable[[ServedPlace, Any, Call], Awaitable[Answer]]
    power: Power | None = None
    """The consent that its calls need; None if it only reads."""
    question: Callable[[Any], str] = lambda _: ""
    """The question to the user who has to consent."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of its arguments."""
        whole = msgspec.json.schema(self.arguments)
        own = whole["$defs"][self.arguments.__name__]
        return {key: value for key, value in own.items() if key not in {"title", "description"}}


def read_arguments(tool: ServedTool, given: Mapping[str, Any]) -> Struct:
    """Return the arguments of a call; UsageError if they do not fit."""
    try:
        return msgspec.convert(given, tool.arguments)
    except msgspec.ValidationError as error:
        raise UsageError(f"invalid arguments for {tool.name}: {error}", "See the tool's schema.") from error


async def _wait_for_run(place: ServedPlace, args: WaitForRun, call: Call) -> Answer:
    # Ends when the run ends, stops running or needs a human. A client that knows tasks polls the task instead.
    run, summary = await asyncio.to_thread(run_queries.read_run_and_summary, place.cwd, args.run)
    if call.takes_tasks and not isinstance(summary.run.state, Completed | Failed | Cancelled):
        return RunAsTask(run.id)
    told = -1
    for _ in range(int(args.timeout_s / LOOK_S)):
        done, actions = progress(summary)
        if done > told:
            await call.report(done, actions, progress_text(summary))
            told = done
        has_ended = isinstance(summary.run.state, Completed | Failed | Cancelled)
        if has_ended or not summary.is_live or summary.inbox:
            break
        await asyncio.sleep(LOOK_S)
        _, summary = await asyncio.to_thread(run_queries.read_run_and_summary, place.cwd, run.id)
    return {"progress": progress_text(summary), **run_queries.summary_json(summary)}


async def _start_run(place: ServedPlace, args: StartRun, call: Call) -> Answer:
    flags = [*_flag_words("--tier", args.tier), *_flag_words("--agents", args.agents), *_budget_flag(args.budget_usd)]
    run = await start_run(place.program, args.request, flags)
    return RunAsTask(run) if call.takes_tasks else await _status_after(place, run)


async def _resume_run(place: ServedPlace, args: ResumeRun, call: Call) -> Answer:
    run, _ = await asyncio.to_thread(run_queries.read_run_and_summary, place.cwd, args.run)
    now = await resume_run(place.program, run.id, _budget_flag(args.budget_usd))
    return RunAsTask(now) if call.takes_tasks else await _status_after(place, now)


def _halt_with(command: str) -> Callable[[ServedPlace, OfRun, Call], Awaitable[Json]]:
    async def halt(place: ServedPlace, args: OfRun, _call: Call) -> Json:
        run, _ = await asyncio.to_thread(run_queries.read_run_and_summary, place.cwd, args.run)
        said = await halt_run_by_command(place.program, command, run.id)
        return {"said": said, **await _status_after(place, run.id)}

    return halt


async def _status_after(place: ServedPlace, run: RunId) -> Json:
    return await asyncio.to_thread(run_queries.run_status_json, place.cwd, run)


async def _answer_question(place: ServedPlace, args: AnswerQuestion, _call: Call) -> Json:
    return await asyncio.to_thread(run_control.answer_question, place.cwd, args.item, args.answer)


async def _send_message(place: ServedPlace, args: SendMessage, _call: Call) -> Json:
    return await run_control.tell_agent(place.cwd, args.run, args.action, args.text)


def _flag_words(flag: str, value: object) -> list[str]:
    return [] if value is None else [f"{flag}={value}"]  # as one word: the value may begin with a dash


def _budget_flag(limit: float | None) -> list[str]:
    return _flag_words("--budget-usd", limit)


def _start_question(args: StartRun) -> str:
    limit = "the configured limit" if args.budget_usd is None else f"at most ${args.budget_usd}"
    return (
        f"Start a run of Scaffold? Its agents work by themselves and spend {limit}; nothing is pushed. "
        f"The request: {brief(args.request, ASKED_CELLS)}"
    )


def _reads(read: Callable[[Path, Any], Json]) -> Callable[[ServedPlace, Any, Call], Awaitable[Json]]:
    async def run(place: ServedPlace, args: Any, _call: Call) -> Json:
        return await asyncio.to_thread(read, place.cwd, args)  # SQLite would block the server

    return run


def _run_question(verb: str) -> Callable[[Any], str]:
    return lambda args: f"{verb} {f'run {args.run}' if args.run else 'the latest run'} of Scaffold?"


TOOLS: tuple[ServedTool, ...] = (
    ServedTool(
        name="list_runs",
        title="List runs",
        about="List the runs of this repository, the one touched last first.",
        arguments=NoArguments,
        run=_reads(lambda cwd, _: run_queries.runs_json(cwd)),
    ),
    ServedTool(
        name="run_status",
        title="Status of a run",
        about="Show how far a run is: status, cost, goals, agents, what waits for a human.",
        arguments=OfRun,
        run=_reads(lambda cwd, args: run_queries.run_status_json(cwd, args.run)),
    ),
    ServedTool(
        name="list_actions",
        title="Actions of a run",
        about="List the actions of a run with their status, in plan order.",
        arguments=ListActions,
        run=_reads(
            lambda cwd, args: run_queries.actions_json(
                cwd, args.run, goal=args.goal, status=args.status, offset=args.offset
            )
        ),
    ),
    ServedTool(
        name="get_action",
        title="One action",
        about="Show an action in full: its attempts, why they failed, and the facts it made.",
        arguments=GetAction,
        run=_reads(lambda cwd, args: run_queries.one_action_json(cwd, args.run, args.action)),
    ),
    ServedTool(
        name="get_evidence",
        title="Evidence",
        about="Show which facts hold, with the evidence of each, and what is missing.",
        arguments=OfGoal,
        run=_reads(lambda cwd, args: run_queries.evidence_json(cwd, args.run, args.goal)),
    ),
    ServedTool(
        name="list_inbox",
        title="Inbox",
        about="List what waits for a human, oldest first: items of the inbox, and runs that only a human gets on. "
        "Approvals are given at a terminal only, with the commands shown.",
        arguments=NoArguments,
        run=lambda place, _args, _call: run_queries.inbox_json(place.cwd),
    ),
    ServedTool(
        name="wait_for_run",
        title="Wait for a run",
        about="Wait until a run ends, needs a human, or the time is over; it goes on in any case.",
        arguments=WaitForRun,
        run=_wait_for_run,
    ),
    ServedTool(
        name="start_run",
        title="Start a run",
        about="Plan a request and execute it in the background: agents work, each result is checked.",
        arguments=StartRun,
        run=_start_run,
        power="start",
        question=_start_question,
    ),
    ServedTool(
        name="resume_run",
        title="Resume a run",
        about="Continue a paused, saved or interrupted run in the background.",
        arguments=ResumeRun,
        run=_resume_run,
        power="start",
        question=_run_question("Continue"),
    ),
    ServedTool(
        name="pause_run",
        title="Pause a run",
        about="Start nothing new in a run; running work finishes and lands.",
        arguments=OfRun,
        run=_halt_with("pause"),
        power="steer",
        question=_run_question("Pause"),
    ),
    ServedTool(
        name="stop_run",
        title="Stop a run",
        about="Stop a run now; unfinished work is pinned, and it can be resumed.",
        arguments=OfRun,
        run=_halt_with("stop"),
        power="steer",
        question=_run_question("Stop"),
    ),
    ServedTool(
        name="answer_question",
        title="Answer a question",
        about="Answer a question of the inbox with the user's own words.",
        arguments=AnswerQuestion,
        run=_answer_question,
        power="steer",
        question=lambda args: f"Answer question {args.item} with: {brief(args.answer, ASKED_CELLS)}",
    ),
    ServedTool(
        name="send_message",
        title="Message to an agent",
        about="Send a message to the agent of an action, which reads it before its next request.",
        arguments=SendMessage,
        run=_send_message,
        power="steer",
        question=lambda args: f"Send to the agent of {args.action}: {brief(args.text, ASKED_CELLS)}",
    ),
)
