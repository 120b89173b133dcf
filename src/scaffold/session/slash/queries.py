"""The text of slash commands that only show something; no model is asked, and nothing is changed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import assert_never, get_args

from msgspec import Struct

from scaffold.agent.context.compaction import COMPACT_ABOVE
from scaffold.agent.context.window_use import WindowUse
from scaffold.agent.modes import CHOSEN_MODES
from scaffold.core.conversation import Todo, TodoStatus
from scaffold.core.errors import UsageError
from scaffold.core.model import Usage
from scaffold.core.printable_text import count_of, format_usd, one_line
from scaffold.core.run_settings import Effort
from scaffold.core.tool import Tool
from scaffold.llm.registry.cards import model_card
from scaffold.llm.registry.model_name import parse_model
from scaffold.llm.registry.thinking import ThinkingForm
from scaffold.policy.permission.call_decision import ACCEPT_EDITS, READ_ONLY_MODES
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.policy.rule.tool_rules import EDITS
from scaffold.session.model_catalog import ModelOffer
from scaffold.session.slash.syntax import (
    COMMANDS,
    CommandSyntax,
    Help,
    ShowAgents,
    ShowContext,
    ShowCost,
    ShowEffort,
    ShowGoals,
    ShowMode,
    ShowTools,
)
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user.subagents import StoredSubagent
from scaffold.views.text_format import (
    clip,
    format_duration,
    format_usage,
    pad,
    short_duration,
    two_columns,
    wrapped_lines,
)

KEY_HELP = (
    ("Enter", "send; while the agent works, your message waits for its next step"),
    ("Alt-Enter, Ctrl-J", "a new line; so does Enter after a backslash"),
    ("@path, Tab", "attach a file, as dragging an image here does; complete a path or a command"),
    ("Up, Ctrl-R", "edit what waits for the agent; go through, or search, your earlier input in this project"),
    ("!command", "run a command of your own; the agent sees it and its output with your next message"),
    ("Shift-Tab", "ask before edits, accept them, only plan: the next of these; in a menu: the previous entry"),
    ("r", "while a request waits to be sent again: send it now"),
    ("Esc", "stop the agent; deny a question; close a menu"),
    ("Ctrl-C", "stop the agent; again: end everything; without a running agent: clear the line, then exit"),
    ("Ctrl-D", "exit, on an empty line"),
)
MODE_SUMMARIES: Mapping[str, str] = {
    "default": "do what is asked, and ask before files change",
    "accept-edits": "change files in this folder without asking, for this session",
    "plan": "think it through, change nothing",
    "explore": "find out how things work",
    "debug": "find the cause, then fix it",
    "review": "judge the work",
}
MODEL_HINT = (
    "Switch with `/model NAME` or, in a chat, with its number; unlisted models work as well. Prices: input / output, "
    "for a million tokens."
)
EFFORTS: tuple[Effort, ...] = get_args(Effort)
_THINKS: Mapping[ThinkingForm, str] = {
    "none": "{model} does not think",
    "fixed": "{model} thinks as much as it likes",
    "unknown": "only the server knows whether {model} thinks; `auto` leaves it to the server",
}
_MARKS: Mapping[TodoStatus, str] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class UsageSummary(Struct, frozen=True, kw_only=True):
    """The usage of a conversation; `now` and `models` are of the current session, empty if there is none."""

    total: Usage
    now: Usage | None = None
    models: Mapping[str, Usage] = {}
    agents: Usage | None = None
    """Its subagents; None if there are none."""
    limit_usd: float | None = None
    left_usd: float | None = None


SlashQuery = Help | ShowMode | ShowEffort | ShowGoals | ShowAgents | ShowCost | ShowTools | ShowContext


class ConversationInfo(Struct, frozen=True, kw_only=True):
    """The facts about a conversation that commands show."""

    model: str
    mode: str = "default"
    effort: Effort = "auto"
    request: str = ""
    """What the user asked for first."""
    todos: Sequence[Todo] = ()
    subagents: Sequence[StoredSubagent] = ()
    spending: UsageSummary = UsageSummary(total=Usage())
    tools: Sequence[Tool] = ()
    rules: RuleSet = RuleSet()
    decided: Path | None = None
    """Where decisions about its calls are recorded; None without a session."""
    window: WindowUse = WindowUse((), None)
    """What fills the model's window in the next request."""
    now: datetime
    width: int
    interactive: bool = False
    """Whether it is the conversation of a REPL."""
    commands: Sequence[CommandSyntax] = COMMANDS
    """All commands of this REPL."""


def answer_query(query: SlashQuery, info: ConversationInfo) -> str:  # noqa: PLR0911 - one for each
    """Return the answer; UsageError if the query names a task or a subagent that does not exist."""
    match query:
        case Help():
            return help_text(info.width, info.commands, interactive=info.interactive)
        case ShowMode():
            return mode_listing(info.mode, info.width)
        case ShowEffort():
            return effort_text(info.effort, info.model)
        case ShowGoals():
            return goal_listing(info.request, info.todos, query)
        case ShowAgents(name=name):
            return agent_listing(info.subagents, name, now=info.now, width=info.width)
        case ShowCost():
            return cost_report(info.spending, info.width)
        case ShowTools():
            return tool_listing(info)
        case ShowContext():
            return window_report(info.window, info.width)
        case _:
            assert_never(query)


def subagent_usage(subagents: Sequence[StoredSubagent]) -> Usage | None:
    """Return the usage of all subagents; None if there are none."""
    return sum((agent.usage for agent in subagents), Usage()) if subagents else None


def help_text(width: int, commands: Sequence[CommandSyntax], *, interactive: bool) -> str:
    """Return the commands, and the keys of the REPL."""
    rows = [(each.usage, each.summary) for each in commands if interactive or each.in_oneshot]
    lines = ["Commands:", *two_columns(rows, width)]
    if interactive:
        lines += ["", "Keys:", *two_columns(KEY_HELP, width)]
    return "\n".join(
        [*lines, "", *wrapped_lines("Begin with a space to send a line with a slash to the model.", width)]
    )


def model_listing(offers: Sequence[ModelOffer], current: str, width: int) -> str:
    """Return the models with their numbers, one per line, the current one marked; below, why others cannot be used."""
    usable = [offer for offer in offers if not offer.why_not]
    rows = [
        (f"{'*' if offer.model == current else ' '} {number:>2} {offer.model}", offer.about)
        for number, offer in enumerate(usable, start=1)
    ]
    without: dict[str, list[str]] = {}
    for offer in offers:
        if offer.why_not:
            about = f" ({offer.about})" if offer.about else ""
            without.setdefault(offer.why_not, []).append(f"{offer.model}{about}")
    barred = [f"{', '.join(models)}: {why}" for why, models in without.items()]
    return "\n".join(
        [
            *two_columns(rows, width, indent=""),
            *(["Not to be used now:"] if barred else []),
            *(line for each in barred for line in wrapped_lines(each, width, indent="  ")),
            *wrapped_lines(MODEL_HINT, width),
        ]
    )


def mode_listing(current: str, width: int) -> str:
    """Return the modes, one per line, the current one marked."""
    rows = [(f"{'*' if mode == current else ' '} {mode}", MODE_SUMMARIES.get(mode, "")) for mode in CHOSEN_MODES]
    return "\n".join([*two_columns(rows, width, indent=""), "Switch with `/mode NAME`."])


def parse_effort(word: str) -> Effort:
    """Return the effort a user named; UsageError if there is none."""
    found = next((effort for effort in EFFORTS if effort == word.lower()), None)
    if found is None:
        raise UsageError(f"there is no effort `{word}`", f"The levels are {', '.join(EFFORTS)}.")
    return found


def effort_text(effort: Effort, model: str) -> str:
    """Return how much the model thinks, and whether it can."""
    form = model_card(parse_model(model)).thinking.form
    about = _THINKS.get(form, f"{model} thinks")
    return f"effort {effort}: {about.format(model=model)}\nChange it with `/effort LEVEL`: {', '.join(EFFORTS)}."


def goal_listing(request: str, todos: Sequence[Todo], query: ShowGoals) -> str:
    """Return what the conversation is about and the steps to it, or some; UsageError if none has that number."""
    if query.view == "show":
        found = next((todo for todo in todos if todo.id == query.number), None)
        if found is None:
            raise UsageError(f"there is no step {query.number}", "`/goals` lists them.")
        return f"{_task_line(found)}\nstatus {found.status}, priority {found.priority}"
    wanted = [todo for todo in todos if query.view == "list" or todo.status == "pending"]
    goal = [f"goal: {one_line(request)}"] if request else []
    if not wanted:
        none = "No step is pending." if todos else "The agent has no steps; it lists them if it needs to."
        return "\n".join([*goal, none])
    done = sum(todo.status == "completed" for todo in todos)
    return "\n".join([*goal, *map(_task_line, wanted), f"{done} of {len(todos)} completed"])


def agent_listing(subagents: Sequence[StoredSubagent], name: str, *, now: datetime, width: int) -> str:
    """Return the subagents, one per line, or all details of the named one; UsageError if it does not exist."""
    if name:
        found = next((agent for agent in subagents if name in {agent.id, agent.name, str(agent.number)}), None)
        if found is None:
            raise UsageError(f"there is no subagent `{name}`", "`/agents` lists them.")
        lines = [
            f"{found.name}: {found.status}, {_agent_duration(found, now)}, {found.model}",
            f"task: {found.task}",
            f"used: {format_usage(found.usage)}",
            *([f"error: {found.error}"] if found.error else []),
            *([f"result: {found.result}"] if found.result else []),
        ]
        return "\n".join(lines)
    if not subagents:
        return "There are no subagents in this conversation."
    return "\n".join(
        clip(
            f"{agent.name}  {pad(agent.status, 9)}  {_agent_duration(agent, now)}  {' '.join(agent.task.split())}",
            width,
        )
        for agent in subagents
    )


def cost_report(spending: UsageSummary, width: int) -> str:
    """Return the usage of the session, the conversation, its subagents, and the budget, one per line."""
    rows = []
    if spending.now is not None:
        rows.append(("this session", format_usage(spending.now)))
        if len(spending.models) > 1:
            rows += [(f"  {model}", format_usage(usage)) for model, usage in spending.models.items()]
    rows.append(("conversation", format_usage(spending.total)))
    if spending.agents is not None:
        rows.append(("subagents", format_usage(spending.agents)))
    if spending.limit_usd is not None:
        left = "" if spending.left_usd is None else f"{format_usd(max(0.0, spending.left_usd))} left of "
        rows.append(("budget", f"{left}{format_usd(spending.limit_usd)}"))
    return "\n".join(two_columns(rows, width, indent=""))


def conversation_listing(found: Sequence[StoredConversation], current: str, *, now: datetime, width: int) -> str:
    """Return conversations, one per line, the most recently used first."""
    if not found:
        return "This directory has no conversations."
    lines = []
    for each in found:
        mark, age = "*" if each.id == current else " ", f"{short_duration(now - each.updated_at)} ago"
        title = " ".join(each.title.split()) or "(no title)"
        lines.append(f"{mark} {clip(f'{each.id}  {pad(age, 10)}  {title}', width - 2)}")
    return "\n".join([*lines, "Resume one: `/resume ID`, or `ralph --resume ID`."])


def tool_listing(info: ConversationInfo) -> str:
    """Return the tools by category, each with the default decision: what no rule matches is decided so."""
    decided: dict[str, list[Tool]] = {}
    for tool in info.tools:
        decided.setdefault(f"{tool.category}: {_default_decision(tool, info)}", []).append(tool)
    rows = []
    for decision, tools in decided.items():
        # MCP servers may offer hundreds of tools: their families are counted instead of listed.
        families = Counter(tool.group.family for tool in tools if tool.group and tool.group.family)
        names = [tool.name for tool in tools if not (tool.group and tool.group.family)]
        names += (f"{count_of(count, 'tool')} of the {family}" for family, count in families.items())
        rows.append((decision, ", ".join(names)))
    more = [f"allowed by rule: {rule}" for rule in info.rules.allow]
    if info.mode in READ_ONLY_MODES:
        more.append(f"In mode {info.mode} nothing runs that changes something.")
    more.append("Protected files are never written.")
    if info.decided is not None and info.decided.exists():
        more += wrapped_lines(f"What was decided so far is recorded in {info.decided}", info.width)
    return "\n".join([*two_columns(rows, info.width, indent=""), *more])


def _default_decision(tool: Tool, info: ConversationInfo) -> str:
    decision = info.rules.decision_for(tool.category, confined=tool.sandboxed)
    if decision == "ask" and info.rules.yolo:
        return "allowed (--yolo)"
    if decision == "ask" and info.mode == ACCEPT_EDITS and tool.category == EDITS:
        return "allowed in this folder"
    return {"allow": "allowed", "ask": "asks you", "deny": "denied"}[decision]


def window_report(use: WindowUse, width: int) -> str:
    """Return what fills the window: a line for each part with its tokens and, if known, its share of the window."""
    window, total = use.window_tokens, use.tokens
    rows = [(part.name, f"{part.size:,}{_window_share(part.size, window)}") for part in use.parts]
    if window:
        used = f"about {total:,} of {window:,} tokens are used{_window_share(total, window)}"
        head = f"{used}; from {COMPACT_ABOVE:.0%} on, the conversation is shortened"
    else:
        head = f"about {total:,} tokens are used; the size of the model's window is unknown"
    return "\n".join([*wrapped_lines(head, width), *two_columns(rows, width)])


def _window_share(tokens: int, window: int | None) -> str:
    return f" ({tokens / window:.1%})" if window else ""


def _task_line(todo: Todo) -> str:
    priority = f" ({todo.priority})" if todo.priority != "medium" else ""
    return f"{_MARKS[todo.status]} {todo.id}. {todo.content}{priority}"


def _agent_duration(agent: StoredSubagent, now: datetime) -> str:
    return format_duration((agent.ended_at or now) - agent.started_at)
