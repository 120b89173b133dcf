"""The hooks of an agent that has some: around its tools, its turns, and what the user says."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, assert_never

import msgspec
from msgspec import structs

from scaffold.agent.agent_spec import TurnResult
from scaffold.agent.extensions.port import (
    AgentEvent,
    AgentExtensions,
    Compacting,
    Prompt,
    SessionEnded,
    SessionStarted,
    TakesTurns,
    TaskCompleted,
    WorktreeCreated,
    WorktreeRemoved,
)
from scaffold.agent.extensions.setup import ExtensionSetup, HookSession
from scaffold.agent.toolbox import shown_result
from scaffold.core.conversation import AssistantMessage, Message, Text, Thinking, ToolCall, ToolResult
from scaffold.core.errors import HookUnusable, ScaffoldError, TurnStopped
from scaffold.core.extension_set import Extensions, HookEvent
from scaffold.core.printable_text import one_line, utf8_safe
from scaffold.core.tool import Tool, ToolOutput
from scaffold.extensions.hooks.call_translation import HookCall, hook_calls
from scaffold.extensions.hooks.event_runner import HookContext, HookRunner, encodable
from scaffold.extensions.hooks.hook_answer import HookAnswer, together
from scaffold.host.atomic_files import write_atomic
from scaffold.policy.permission.call_hooks import CheckedCall
from scaffold.tools.arguments import argument_problems, read_arguments

MOST_BLOCKED_STOPS = 8  # how often in a row hooks may keep an agent from stopping
MEND = "Fix or remove the hook; `scaffold trust --show` lists the folder's hooks."
TODO_TOOL = "TodoWrite"


class OpenedHooks:
    """The hooks of one agent. What a hook is told of results, and what it says, is free of secrets."""

    def __init__(self, setup: ExtensionSetup, extensions: Extensions, session: HookSession) -> None:
        self._tell = setup.tell
        self._redactor = setup.redactor
        self._clean = setup.redactor.clean
        self._session = session
        self._completed: set[str] = set()
        self._opening = ""  # what the hooks at the start said, for the first message
        self._began = False
        self._place = HookContext(
            cwd=setup.cwd,
            project=session.project,
            environ=session.environ,
            sandbox=setup.sandbox,
            about={"session_id": setup.session, "transcript_path": session.transcript},
        )
        self._runner = HookRunner(extensions, self._place, setup.tell)

    @property
    def port(self) -> AgentExtensions:
        """Where they take part."""
        return AgentExtensions(
            reads_input=lambda: self._runner.has("UserPromptSubmit"),
            user_input=self._judge_input,
            calls=self,
            turn=self._take_turn,
            announce=self._handle_event,
        )

    async def _judge_input(self, words: str, material: str) -> tuple[str, str]:
        # What hooks add goes with the material: the user's own words stay as they are.
        answer = await self._runner.run("UserPromptSubmit", {"prompt": words or material, **self._mode_fields()})
        self._check_stop(answer)
        _require_judged(answer)
        if answer.blocks is not None:
            raise ScaffoldError(
                f"a hook refused the message: {one_line(answer.blocks)}", "Nothing was sent. Change the message."
            )
        opening, self._opening = self._opening, ""
        return words, "\n\n".join(
            filter(None, (material, self._clean("\n\n".join(filter(None, (opening, answer.context))))))
        )

    async def _take_turn(self, agent: TakesTurns, prompt: Prompt) -> TurnResult:
        # Bounded, because a hook may always find something to do.
        result = await agent.turn(prompt)
        event: HookEvent = "SubagentStop" if self._session.subagent else "Stop"
        for blocked in range(MOST_BLOCKED_STOPS + 1):
            if result.stop != "end":
                return result
            self._write_transcript(event)
            said = {"stop_hook_active": blocked > 0, "last_assistant_message": result.text}
            answer = await self._runner.run(event, {**said, **self._mode_fields()})
            _require_judged(answer)
            if answer.blocks is None or answer.stops is not None:
                return result
            if blocked == MOST_BLOCKED_STOPS:
                self._tell(f"hooks kept the agent from stopping {blocked} times in a row; it stops now")
                return result
            more = await agent.turn((Text(self._clean(f"A hook wants you to go on: {answer.blocks}"), "note"),))
            result = structs.replace(more, usage=result.usage + more.usage, requests=result.requests + more.requests)
        return result

    async def _handle_event(self, event: AgentEvent) -> str:
        match event:
            case SessionStarted(source=source):
                self._began = True
                answer = await self._runner.run("SessionStart", {"source": source, **self._mode_fields()}, (source,))
                if answer.blocks is not None:
                    self._tell(f"a hook says: {one_line(answer.blocks)}")
                self._opening = answer.context
            case SessionEnded(reason=reason):
                if self._began:
                    self._write_transcript("SessionEnd")
                    await self._runner.run("SessionEnd", {"reason": reason}, (reason,))
            case Compacting(trigger=trigger):
                return await self._compaction_refused(trigger)
            case TaskCompleted(task=task, subject=subject):
                return await self._completion_refused(task, subject)
            case WorktreeCreated(name=name):
                answer = await self._runner.run("WorktreeCreate", self._worktree_fields(name))
                _require_judged(answer)
                if answer.blocks is not None or answer.stops is not None:
                    raise HookUnusable(f"a hook does not accept the worktree: {one_line(answer.blocks or '')}", MEND)
            case WorktreeRemoved(name=name):
                place = structs.replace(self._place, writes=False)
                await self._runner.run("WorktreeRemove", self._worktree_fields(name), place=place)
            case _:
                assert_never(event)
        return ""

    async def _compaction_refused(self, trigger: str) -> str:
        self._write_transcript("PreCompact")
        answer = await self._runner.run("PreCompact", {"trigger": trigger, "custom_instructions": ""}, (trigger,))
        if answer.blocks is not None and answer.broken is None:
            self._tell(f"a hook keeps the conversation as it is: {one_line(answer.blocks)}")
        return answer.broken or answer.blocks or ""

    async def _completion_refused(self, task: str, subject: str) -> str:
        about = {"task_id": task, "task_subject": utf8_safe(subject)}
        # The work has been checked: nothing may change it any more.
        place = structs.replace(self._place, writes=False)
        answer = await self._runner.run("TaskCompleted", {**about, **self._mode_fields()}, place=place)
        self._check_stop(answer)
        _require_judged(answer)
        return self._clean(answer.blocks or "")

    def _worktree_fields(self, name: str) -> Mapping[str, Any]:
        return {"name": name, "worktree_path": str(self._place.cwd)}

    async def before(self, tool: Tool, args: Mapping[str, Any]) -> CheckedCall:
        """Return the call as the hooks leave it; TurnStopped if the agent shall stop."""
        if tool.name == TODO_TOOL and (undone := await self._task_blocked(args)):
            return CheckedCall(args=args, denied=undone)
        if not self._runner.has("PreToolUse"):
            return CheckedCall(args=args)
        calls = hook_calls(tool.name, args, str(self._place.cwd))
        answers = [
            await self._runner.run("PreToolUse", {**_call_fields(call), **self._mode_fields()}, call.names)
            for call in calls
        ]
        answer = together(answers)
        self._check_stop(answer)
        refused = answer.broken or answer.blocks
        if answer.permission == "deny":
            refused = answer.reason or answer.blocks or "it gives no reason"
        denied = None if refused is None else self._clean(refused)
        if denied is None and answer.updated_input is not None:
            return self._with_updated_input(tool, args, calls[0], answer)
        return self._checked_call(args, answer, denied)

    async def after(self, tool: Tool, args: Mapping[str, Any], output: ToolOutput) -> ToolOutput:
        """Return the result of a call that ran, with what they add to it; TurnStopped if the agent shall stop."""
        if output.failed or not self._runner.has("PostToolUse"):
            return output
        content = shown_result(output.content, self._redactor)
        response = {"content": content, "stdout": content, "stderr": "", "success": True}
        added = []
        for call in hook_calls(tool.name, args, str(self._place.cwd)):
            about = {**_call_fields(call), "tool_response": response, **self._mode_fields()}
            answer = await self._runner.run("PostToolUse", about, call.names)
            self._check_stop(answer)
            added += [text for text in (answer.broken, answer.blocks, answer.context) if text]
        if not added:
            return output
        note = self._clean("\n\n".join(dict.fromkeys(added)))
        return ToolOutput(f"{output.content}\n\nA hook says: {note}", failed=output.failed)

    def _with_updated_input(
        self, tool: Tool, args: Mapping[str, Any], call: HookCall, answer: HookAnswer
    ) -> CheckedCall:
        # A hook may not know our tools, so its arguments are checked like those of a model.
        if not call.whole:
            return self._checked_call(
                args, answer, "a hook changes this call, and the parts of a patch cannot be changed"
            )
        changed = read_arguments(tool, call.updated({**call.input, **(answer.updated_input or {})}))
        problem = argument_problems(tool, changed)
        if problem is not None:
            return self._checked_call(args, answer, f"a hook changes this call to one that is not valid: {problem}")
        return self._checked_call(changed, answer, None)

    def _checked_call(self, args: Mapping[str, Any], answer: HookAnswer, denied: str | None) -> CheckedCall:
        asks = answer.permission in {"ask", "defer"}
        reason = f"a hook wants a human to decide{f': {one_line(answer.reason)}' if answer.reason else ''}"
        note = f"A hook says: {answer.context}" if answer.context else ""
        return CheckedCall(args=args, denied=denied, asks=self._clean(reason) if asks else "", note=self._clean(note))

    async def _task_blocked(self, args: Mapping[str, Any]) -> str:
        # Each entry is asked about once: the model writes the whole list each time.
        if not self._runner.has("TaskCompleted"):
            return ""
        for entry in args.get("todos", ()):
            key = str(entry.get("id") or entry.get("content"))
            if entry.get("status") != "completed" or key in self._completed:
                continue
            about = {"task_id": key, "task_subject": utf8_safe(str(entry.get("content", "")))}
            answer = await self._runner.run("TaskCompleted", {**about, **self._mode_fields()})
            self._check_stop(answer)
            if refused := answer.broken or answer.blocks:
                return self._clean(refused)
            self._completed.add(key)
        return ""

    def _write_transcript(self, event: HookEvent) -> None:
        # Only for hooks that run now: most sessions have none that reads it.
        if not self._runner.has(event) or self._session.messages is None:
            return
        lines = []
        for each in self._session.messages():
            role = "assistant" if isinstance(each, AssistantMessage) else "user"
            content = list(_transcript_parts(each, str(self._place.cwd)))
            lines.append(msgspec.json.encode({"type": role, "message": {"role": role, "content": content}}))
        text = self._clean(b"".join(line + b"\n" for line in lines).decode())
        # A hook that must judge the end of a turn is run without a transcript rather than not at all.
        with contextlib.suppress(OSError):
            write_atomic(Path(self._session.transcript), text.encode())

    def _check_stop(self, answer: HookAnswer) -> None:
        if answer.stops is not None:
            raise TurnStopped(f"a hook stopped the agent: {one_line(answer.stops)}", "The conversation is kept.")

    def _mode_fields(self) -> Mapping[str, Any]:
        return {"permission_mode": self._session.mode()}


def _call_fields(call: HookCall) -> Mapping[str, Any]:
    return {"tool_name": call.names[0], "tool_input": call.input}


def _require_judged(answer: HookAnswer) -> None:
    # A guard that does not run must not let anything pass silently.
    if answer.broken is not None:
        raise HookUnusable(answer.broken, MEND)


def _transcript_parts(message: Message, cwd: str) -> Iterator[dict[str, Any]]:
    for part in message.parts:
        match part:
            case Text(text=text):
                yield {"type": "text", "text": utf8_safe(text)}
            case Thinking(text=text):
                yield {"type": "thinking", "thinking": utf8_safe(text)}
            case ToolCall(id=call, name=name, args=args):
                seen = hook_calls(name, args, cwd)[0]
                yield {"type": "tool_use", "id": call, "name": seen.names[0], "input": encodable(seen.input)}
            case ToolResult(call_id=call, content=content, failed=failed):
                yield {"type": "tool_result", "tool_use_id": call, "content": utf8_safe(content), "is_error": failed}
