"""An agent's tools, and the execution of a model's calls: each call always gets exactly one result."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from difflib import get_close_matches
from itertools import groupby
from typing import Any

import msgspec

from scaffold.agent.context.call_summary import ToolEffects
from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.context.rolling_summary import loaded_before
from scaffold.agent.deferred_tools import for_small_model, group_names, loaded_groups, offered_tools, with_load_tools
from scaffold.agent.io_port import AnswerWatch, do_nothing, unchanged_answer
from scaffold.core.conversation import KeptTurn, ToolCall, ToolResult
from scaffold.core.errors import HumanDecisionRequired, TurnStopped
from scaffold.core.printable_text import truncate_text, utf8_safe
from scaffold.core.tool import Tool, ToolCategory, ToolOutput
from scaffold.llm.wire.format import UNREADABLE_ARGUMENT
from scaffold.policy.permission.approval_gate import CALL_WAITS, REPLY_CALLS, ReplyCalls
from scaffold.policy.secret.redaction import Redactor
from scaffold.tools.arguments import argument_problems, read_arguments
from scaffold.tools.content.seen_files import CURRENT_REPLY
from scaffold.tools.read_cache import is_read_only, repeated_calls

OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "shell": (
        "bash", "sh", "cmd", "exec", "exec_command", "execute", "execute_bash", "execute_command", "run", "run_bash",
        "run_command", "run_in_terminal", "run_shell_command", "run_terminal_cmd", "terminal",
    ),
    "read_file": (
        "cat", "get_file", "get_file_contents", "open", "open_file", "read", "read_many_files", "view", "view_file",
    ),
    "write_file": ("create", "create_file", "new_file", "save_file", "write", "write_to_file"),
    "edit": (
        "edit_file", "multi_edit", "replace", "replace_in_file", "replace_string_in_file", "search_replace",
        "str_replace", "str_replace_based_edit_tool", "str_replace_editor", "text_editor",
    ),
    "apply_patch": ("apply_diff", "patch"),
    "list_dir": ("list_directory", "list_files", "ls"),
    "glob": ("file_search", "find", "find_file", "find_files", "search_file"),
    "search_files": ("code_search", "codebase_search", "grep", "grep_search", "rg", "search", "search_file_content"),
    "python": ("code_interpreter", "execute_python", "ipython", "run_code", "run_python"),
    "web_fetch": ("browse", "fetch", "fetch_url", "read_url", "url_fetch"),
    "TodoWrite": ("todo", "update_plan", "update_todo_list", "write_todos"),
    "subagent": ("agent", "dispatch_agent", "new_task", "spawn_agent", "task"),
}  # fmt: skip
"""What widespread agents call their tool for the same purpose, by the name that ours has."""
NEAR = 0.75  # names at least this similar count as near, from 0 to 1
RESULT_LIMIT = 40_000  # characters of a tool result shown to the model
MAX_PARALLEL_CALLS = 10
UNKNOWN_RESULT = (
    "The work was interrupted, so it is unknown whether this ran. It is not run again; check the current state."
)
PLACEHOLDER_NOTE = (
    "Not run: {mark} is a placeholder for a secret you cannot see, and would be written instead of it. Leave it "
    "out: you can replace or remove the whole line that contains it by its number, without `expected`. Anything "
    "that needs the secret itself must be done by the user."
)
REFUSED = "Not run: the reply that contained this call was a refusal."
NOT_STARTED = "Not run: the work was interrupted before it started."
NOT_FINISHED = "Not finished: the work was interrupted. This changes nothing: call it again if you need it."
NOT_DECIDED = "Not run yet: a human was asked, and has not answered."
CALL_BEGINS: ContextVar[Callable[[str], None]] = ContextVar("CALL_BEGINS")
"""Says that the call under way is about to run, on files with this fingerprint: until then it may have waited."""
# Categories of tools that may write their arguments to a file.
WRITING_CATEGORIES: frozenset[ToolCategory] = frozenset({"file_write", "shell", "python"})


class Toolbox:
    """The tools one agent has, by name."""

    def __init__(
        self, tools: Sequence[Tool], redactor: Redactor | None = None, watch: AnswerWatch = unchanged_answer
    ) -> None:
        """`redactor` removes secrets from results; without one nothing is removed."""
        self._watch = watch
        self._redactor = redactor or Redactor()
        self._is_small = False
        self.replace(tools)

    def replace(self, tools: Sequence[Tool]) -> None:
        """Offer these tools from the next request on; for between two turns, as it may cost the provider's cache."""
        self._given = tools
        served = with_load_tools(for_small_model(tools) if self._is_small else tools)
        self._tools = {tool.name: tool for tool in served}
        self.tools = tuple(self._tools.values())
        """All tools, also those of groups that are not loaded."""
        self._groups = group_names(self.tools)
        self._loaded: tuple[str, ...] | None = None
        self._offered = self.tools

    def fit(self, *, small: bool) -> None:
        """Offer few tools to a small model from the next request on, and the rest in groups; all to another one."""
        if small != self._is_small:
            self._is_small = small
            self.replace(self._given)

    @property
    def effects(self) -> ToolEffects:
        """The names of the tools by what they do to files."""
        return ToolEffects(
            reading=frozenset(tool.name for tool in self.tools if is_read_only(tool)),
            writing=frozenset(tool.name for tool in self.tools if tool.category == "file_write"),
            groups=self._groups,
        )

    def offered(self, conversation: Conversation) -> tuple[Tool, ...]:
        """Return the tools to offer next: the same object until another group is loaded, as models measure it once."""
        loaded = loaded_groups(conversation.kept, loaded_before(conversation.summary), self._groups)
        if loaded != self._loaded:
            self._loaded, self._offered = loaded, offered_tools(self.tools, loaded)
        return self._offered

    def batch(
        self,
        calls: Sequence[ToolCall],
        kept: KeptTurn | None = None,
        changed: Callable[[], None] = do_nothing,
        draft: Callable[[], None] = do_nothing,
    ) -> "ToolBatch":
        """Return a batch of the calls of one reply; `changed` is called after each step.

        `draft` is called whenever the results would be others if the process died now. Those that an earlier process
        of the `kept` turn has ended are not run again, nor those that it had begun.
        """
        known: dict[str, ToolResult] = {result.call_id: result for result in kept.results} if kept else {}
        for call in calls:
            if kept and call.id in kept.begun and call.id not in known:
                known[call.id] = ToolResult(call.id, call.name, UNKNOWN_RESULT, failed=True)
        return ToolBatch(self, calls, known, changed, draft)

    def read_only(self, call: ToolCall) -> bool:
        """Return whether a call changes nothing."""
        tool = self._tools.get(call.name)
        return tool is not None and is_read_only(tool)

    def cut_off_result(self, call: ToolCall) -> ToolResult:
        """Return the result of a call that was perhaps running when the work was interrupted."""
        why = NOT_FINISHED if self.read_only(call) else UNKNOWN_RESULT
        return ToolResult(call.id, call.name, why, failed=True)

    async def result(self, call: ToolCall) -> ToolResult:
        """Run one call and return its result; raises only CancelledError, TurnStopped and HumanDecisionRequired."""
        output = await self._watch(call, self._tools.get(call.name), await self._run_call(call))
        return ToolResult(call.id, call.name, shown_result(output.content, self._redactor), output.failed)

    def _unknown_tool(self, call: ToolCall) -> str:
        # A near name is not called in its place: the arguments may mean something else there.
        hint, meant = "", self._tools.get(meant_tool(call.name, self._tools))
        if meant is not None:
            problem = argument_problems(meant, read_arguments(meant, call.args))
            hint = f" Did you mean `{meant.name}`?{f' {problem}.' if problem else ''}"
        listed = [tool.name for tool in self.tools if tool.group is None or not tool.group.family]
        return f"There is no tool `{call.name}`.{hint} The tools are: {', '.join(listed) or 'none'}."

    def valid_call(self, call: ToolCall) -> tuple[Tool, Mapping[str, Any]] | ToolOutput:
        """Return the tool of a call and its arguments, or why the call cannot run."""
        tool = self._tools.get(call.name)
        if tool is None:
            return ToolOutput(self._unknown_tool(call), failed=True)
        if UNREADABLE_ARGUMENT in call.args:
            return ToolOutput(f"Not run: the arguments are {call.args[UNREADABLE_ARGUMENT]}", failed=True)
        args = read_arguments(tool, call.args)
        problem = argument_problems(tool, args)
        if problem is not None:
            return ToolOutput(f"Not run: {problem}.", failed=True)
        mark = self._redactor.mark_in(args) if tool.category in WRITING_CATEGORIES else None
        if mark is not None:
            return ToolOutput(PLACEHOLDER_NOTE.format(mark=mark), failed=True)
        return tool, args

    async def _run_call(self, call: ToolCall) -> ToolOutput:
        valid = self.valid_call(call)
        if isinstance(valid, ToolOutput):
            return valid
        tool, args = valid
        try:
            return await tool.run(args)
        except (HumanDecisionRequired, TurnStopped):
            raise
        except Exception as error:  # noqa: BLE001 - tools may be third-party: the model has to handle their errors
            return ToolOutput(f"{call.name} crashed: {type(error).__name__}: {error}", failed=True)


def shown_result(content: str, redactor: Redactor) -> str:
    """Return what the model sees of a tool's answer."""
    # Secrets first: the cut could leave a part of one that is no longer recognised.
    return truncate_text(redactor.clean(utf8_safe(content)), RESULT_LIMIT)


class ToolBatch:
    """The calls of one reply and their results so far."""

    def __init__(
        self,
        toolbox: Toolbox,
        calls: Sequence[ToolCall],
        ended: dict[str, ToolResult],
        changed: Callable[[], None],
        draft: Callable[[], None],
    ) -> None:
        self._toolbox = toolbox
        self._calls = calls
        self._begun: set[str] = set()
        self._running: dict[str, str] = {}
        self._undecided: set[str] = set()
        self._ended = ended
        self._changed = changed
        self._draft = draft

    @property
    def begun(self) -> Mapping[str, str]:
        """The ids of the calls that may have done something, with a fingerprint of the files before."""
        return dict(self._running)

    @property
    def ended(self) -> tuple[ToolResult, ...]:
        """The results of the calls that have ended."""
        return tuple(self._ended.values())

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """One result for each call, in order; calls that have not ended get a result that says so."""
        results = []
        for call in self._calls:
            why = NOT_DECIDED if call.id in self._undecided else NOT_STARTED
            open_result = ToolResult(call.id, call.name, why, failed=True)
            if call.id in self._begun - self._undecided:
                open_result = self._toolbox.cut_off_result(call)
            results.append(self._ended.get(call.id) or open_result)
        return tuple(results)

    async def run(self) -> None:
        """Run the calls in order; consecutive read-only calls run in parallel, equal ones among them once.

        Cancellation, TurnStopped and HumanDecisionRequired stop running calls; results that exist by then are kept.
        """
        CURRENT_REPLY.set(self)
        # Ends with it: what is called later in this context is no call of this reply.
        reply = REPLY_CALLS.set(ReplyCalls(self.open_calls))
        try:
            await self._run_calls()
        finally:
            REPLY_CALLS.reset(reply)

    async def _run_calls(self) -> None:
        # Only neighbours run in parallel: a call that writes separates the reads before it from those after it.
        for reads, group in groupby(self._calls, key=self._toolbox.read_only):
            together = tuple(group)
            if reads and len(together) > 1:
                await self._run_parallel(together)
            else:
                for call in together:
                    await self._answer_call(call)

    def open_calls(self) -> Sequence[tuple[Tool, Mapping[str, Any]]]:
        """Return the tools and arguments of the calls that have no result and can run."""
        waiting = [call for call in self._calls if call.id not in self._ended]
        return [valid for call in waiting if not isinstance(valid := self._toolbox.valid_call(call), ToolOutput)]

    async def _run_parallel(self, calls: Sequence[ToolCall]) -> None:
        same = repeated_calls(calls)
        slots = asyncio.Semaphore(MAX_PARALLEL_CALLS)

        async def answer(call: ToolCall) -> None:
            async with slots:
                await self._answer_call(call)

        try:
            async with asyncio.TaskGroup() as group:
                for index, call in enumerate(calls):
                    if index not in same:
                        group.create_task(answer(call))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None  # a call raises nothing else than the two
        finally:
            # Also after an interruption, so that the duplicates of a finished call have its result.
            for index, first in same.items():
                if done := self._ended.get(calls[first].id):
                    self._ended[calls[index].id] = msgspec.structs.replace(done, call_id=calls[index].id)

    async def _answer_call(self, call: ToolCall) -> None:
        if call.id in self._ended:
            return
        tell = do_nothing if self._toolbox.read_only(call) else self._draft

        def waits(waiting: bool, /) -> None:
            # Recorded before the call runs: if it is interrupted, its result says that its effects are unknown.
            (self._begun.discard if waiting else self._begun.add)(call.id)
            tell()

        waits(False)
        CALL_WAITS.set(waits)

        def begins(files: str) -> None:
            self._running[call.id] = files
            self._changed()

        CALL_BEGINS.set(begins)
        try:
            self._ended[call.id] = await self._toolbox.result(call)
        except HumanDecisionRequired:
            # It runs again, with the answer: a call that asks has not done what it asks about.
            self._undecided.add(call.id)
            self._running.pop(call.id, None)
            self._changed()
            raise
        self._changed()
        if len(self._ended) < len(self._calls):  # else the results themselves follow
            tell()


def repeated_on(tool: Tool, files: Callable[[], Awaitable[str]] | None) -> Tool:
    """Return the tool, of which a call that has begun runs once more in another process only if it changed nothing.

    `files` returns a fingerprint of what it may change; without it no such call runs again.
    """

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        CALL_BEGINS.get()(await files() if files else "")
        return await tool.run(args)

    return msgspec.structs.replace(tool, run=work)


def not_run_results(calls: Sequence[ToolCall], why: str) -> tuple[ToolResult, ...]:
    """Return a result for each call that has none and does not run."""
    # Providers reject a conversation with calls that have no results.
    return tuple(ToolResult(call.id, call.name, why, failed=True) for call in calls)


def meant_tool(name: str, tools: Collection[str]) -> str:
    """Return the tool that `name` may stand for, whatever its case and separators; empty if none."""
    plain = {_plain_name(tool): tool for tool in tools}
    others = {_plain_name(other): tool for tool, names in OTHER_NAMES.items() if tool in tools for other in names}
    near = get_close_matches(_plain_name(name), {**others, **plain}, n=1, cutoff=NEAR)
    return {**others, **plain}[near[0]] if near else ""


def _plain_name(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()
