"""What slash commands tell, as plain text; no model is asked, and nothing is changed."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import assert_never

from msgspec import Struct

from scaffold.agent.modes import MODES
from scaffold.agent.slash import (
    COMMANDS,
    CommandSyntax,
    Help,
    ShowAgents,
    ShowCost,
    ShowMode,
    ShowModels,
    ShowTasks,
    ShowTools,
)
from scaffold.core.errors import UsageError
from scaffold.core.model import Usage
from scaffold.core.money import format_usd
from scaffold.core.todo import Todo, TodoStatus
from scaffold.core.tool import Tool
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user.subagents import StoredSubagent
from scaffold.views.text_format import clip, format_duration, pad, wrap_text

KEY_HELP = (
    ("Enter", "send; while the agent works, what you send waits for its next step"),
    ("Alt-Enter, Ctrl-J", "a new line; so does Enter after a backslash"),
    ("@path, Tab", "attach a file; complete a path or a command"),
    ("Ctrl-R, Up", "search, or go through, what you said before"),
    ("Ctrl-C", "stop the agent; once more ends everything; clears what you typed"),
    ("Ctrl-D", "leave, on an empty line"),
)
MODE_SUMMARIES: Mapping[str, str] = {
    "default": "do what is asked",
    "plan": "think it through, change nothing",
    "explore": "find out how things are",
    "debug": "find the cause, then mend it",
    "review": "judge what was done",
}
_MARKS: Mapping[TodoStatus, str] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class UsageSummary(Struct, frozen=True, kw_only=True):
    """What a conversation has used; `now` and `models` are of this sitting, empty where there is none."""

    total: Usage
    now: Usage | None = None
    models: Mapping[str, Usage] = {}
    agents: Usage | None = None
    """Of its subagents; None if there are none."""
    limit_usd: float | None = None
    left_usd: float | None = None


class ExtraCommand(Struct, frozen=True):
    """A command that only one kind of talk has; it takes the place of one of that name that all have."""

    name: str
    words: str
    """What may follow the name, for people."""
    summary: str

    @property
    def usage(self) -> str:
        """Return how it is written."""
        return f"/{self.name} {self.words}".rstrip()


SlashQuery = Help | ShowModels | ShowMode | ShowTasks | ShowAgents | ShowCost | ShowTools


class ConversationInfo(Struct, frozen=True, kw_only=True):
    """What can be told of a conversation."""

    model: str
    models: Sequence[str]
    """Which others are known."""
    mode: str
    todos: Sequence[Todo] = ()
    roster: Sequence[StoredSubagent] = ()
    spending: UsageSummary
    tools: Sequence[Tool] = ()
    rules: RuleSet
    now: datetime
    width: int
    talking: bool = False
    """Whether there is a line to type in."""
    own: Sequence[ExtraCommand] = ()
    """Commands that only this talk has."""


def answer_query(inquiry: SlashQuery, known: ConversationInfo) -> str:  # noqa: PLR0911 - one for each
    """Return what is asked; UsageProblem where something is named that is not there."""
    match inquiry:
        case Help():
            return help_text(known.width, talking=known.talking, own=known.own)
        case ShowModels():
            return model_listing(known.model, known.models)
        case ShowMode():
            return mode_listing(known.mode, known.width)
        case ShowTasks():
            return task_listing(known.todos, inquiry)
        case ShowAgents(name=name):
            return agent_listing(known.roster, name, now=known.now, width=known.width)
        case ShowCost():
            return cost_report(known.spending, known.width)
        case ShowTools():
            return tool_listing(known.tools, known.rules, known.width)
        case _:
            assert_never(inquiry)


def subagent_usage(roster: Sequence[StoredSubagent]) -> Usage | None:
    """Return what subagents used in all, None if there are none."""
    return sum((agent.usage for agent in roster), Usage()) if roster else None


def help_text(width: int, *, talking: bool, own: Sequence[ExtraCommand] = ()) -> str:
    """Return the commands, and the keys where there is a line to type them in."""
    named = {each.name for each in own}
    general = [each for each in COMMANDS if (talking or each.in_oneshot) and each.name not in named]
    listed: Sequence[ExtraCommand | CommandSyntax] = (*own, *general)
    rows = [(each.usage, each.summary) for each in listed]
    lines = ["Commands:", *_table(rows, width)]
    if talking:
        lines += ["", "Keys:", *_table(KEY_HELP, width)]
    return "\n".join([*lines, "", *_line("Begin with a space to say a line with a slash to the model.", width)])


def model_listing(current: str, known: Sequence[str]) -> str:
    """Return which model answers and which others could, a line each."""
    others = [f"  {model}" for model in known if model != current]
    return "\n".join([f"* {current}", *others, "Switch with `/model NAME`; models that are not listed work, too."])


def mode_listing(current: str, width: int) -> str:
    """Return which mode the agent works in and which there are, a line each."""
    rows = [(f"{'*' if mode == current else ' '} {mode}", MODE_SUMMARIES.get(mode, "")) for mode in MODES]
    return "\n".join([*_table(rows, width, indent=""), "Switch with `/mode NAME`."])


def task_listing(todos: Sequence[Todo], asked: ShowTasks) -> str:
    """Return the entries asked for, a line each; UsageProblem if there is no entry of that number."""
    if asked.view == "show":
        found = next((todo for todo in todos if todo.id == asked.number), None)
        if found is None:
            raise UsageError(f"there is no task {asked.number}", "`/tasks` lists them.")
        return f"{_task(found)}\nstatus {found.status}, priority {found.priority}"
    wanted = [todo for todo in todos if asked.view == "list" or todo.status == "pending"]
    if not wanted:
        return "No task waits to be begun." if todos else "The agent has no list of tasks; it makes one if it needs it."
    done = sum(todo.status == "completed" for todo in todos)
    return "\n".join([*map(_task, wanted), f"{done} of {len(todos)} completed"])


def agent_listing(roster: Sequence[StoredSubagent], name: str, *, now: datetime, width: int) -> str:
    """Return the subagents, a line each, or all about the one of this name; UsageProblem if there is none."""
    if name:
        found = next((agent for agent in roster if name in {agent.id, agent.name, str(agent.number)}), None)
        if found is None:
            raise UsageError(f"there is no subagent `{name}`", "`/agents` lists them.")
        return "\n".join(_agent(found, now))
    if not roster:
        return "There are no subagents in this conversation."
    return "\n".join(
        clip(f"{agent.name}  {pad(agent.status, 9)}  {_duration(agent, now)}  {' '.join(agent.task.split())}", width)
        for agent in roster
    )


def cost_report(spending: UsageSummary, width: int) -> str:
    """Return what was used, a line for each way to count it."""
    rows = []
    if spending.now is not None:
        rows.append(("this sitting", format_usage(spending.now)))
        if len(spending.models) > 1:
            rows += [(f"  {model}", format_usage(usage)) for model, usage in spending.models.items()]
    rows.append(("conversation", format_usage(spending.total)))
    if spending.agents is not None:
        rows.append(("subagents", format_usage(spending.agents)))
    if spending.limit_usd is not None:
        left = "" if spending.left_usd is None else f"{format_usd(max(0.0, spending.left_usd))} left of "
        rows.append(("budget", f"{left}{format_usd(spending.limit_usd)}"))
    return "\n".join(_table(rows, width, indent=""))


def format_usage(usage: Usage) -> str:
    """Return tokens and money in one line."""
    share = f" ({usage.cached_input_tokens / usage.input_tokens:.0%} cached)" if usage.cached_input_tokens else ""
    cost = "cost unknown" if usage.cost_usd is None else format_usd(usage.cost_usd)
    requests = f"{usage.requests} request{'s' * (usage.requests != 1)}"
    return f"{cost}, {usage.input_tokens:,} tokens in{share}, {usage.output_tokens:,} out, {requests}"


def conversation_listing(found: Sequence[StoredConversation], current: str, *, now: datetime, width: int) -> str:
    """Return conversations, a line each, what was gone on with last first."""
    if not found:
        return "No conversation was kept in this directory."
    lines = [
        clip(
            f"{'*' if each.id == current else ' '} {each.id}  {pad(_ago(now - each.updated_at), 10)}  "
            f"{' '.join(each.title.split()) or '(without words)'}",
            width,
        )
        for each in found
    ]
    return "\n".join([*lines, "Go on with one: `/resume ID`, or `ralph --resume ID`."])


def tool_listing(tools: Sequence[Tool], rules: RuleSet, width: int) -> str:
    """Return the tools by category, each category with what becomes of a call that no rule speaks of."""
    categories = dict.fromkeys(tool.category for tool in tools)
    fates = {"allow": "allowed", "ask": "allowed (--yolo)" if rules.yolo else "asks you", "deny": "denied"}
    rows = [
        (f"{each}: {fates[rules.of(each)]}", ", ".join(tool.name for tool in tools if tool.category == each))
        for each in categories
    ]
    given = [f"allowed by rule: {rule}" for rule in rules.allow]
    return "\n".join([*_table(rows, width, indent=""), *given, "Protected files are written by nobody."])


def _task(todo: Todo) -> str:
    weight = f" ({todo.priority})" if todo.priority != "medium" else ""
    return f"{_MARKS[todo.status]} {todo.id}. {todo.content}{weight}"


def _agent(agent: StoredSubagent, now: datetime) -> Iterator[str]:
    yield f"{agent.name}: {agent.status}, {_duration(agent, now)}, {agent.model}"
    yield f"task: {agent.task}"
    yield f"used: {format_usage(agent.usage)}"
    if agent.error:
        yield f"error: {agent.error}"
    if agent.result:
        yield f"result: {agent.result}"


def _duration(agent: StoredSubagent, now: datetime) -> str:
    return format_duration((agent.ended_at or now) - agent.started_at)


def _ago(length: timedelta) -> str:
    if length >= timedelta(days=1):
        return f"{length.days} d ago"
    return f"{format_duration(length).split(' ')[0]} {format_duration(length).split(' ')[1]} ago"


def _table(rows: Sequence[tuple[str, str]], width: int, *, indent: str = "  ") -> Iterator[str]:
    """Yield two columns; on a narrow screen, or where a name is long, the second goes below the first."""
    first = max((len(name) for name, _ in rows), default=0)
    if first + 24 > width:
        for name, text in rows:
            yield f"{indent}{name}"
            yield from _line(text, width, indent=f"{indent}    ")
        return
    for name, text in rows:
        head, *more = _line(text, width - first - len(indent) - 2) or [""]
        yield f"{indent}{name:<{first}}  {head}".rstrip()
        yield from (f"{indent}{'':<{first}}  {line}" for line in more)


def _line(text: str, width: int, *, indent: str = "") -> list[str]:
    return [indent + line for line in wrap_text(text, max(20, width - len(indent)))]
