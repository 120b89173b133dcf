"""Run the hooks of an event: in parallel, each with a time limit; no process outlives its hook."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from scaffold.core.extension_set import Extensions, Hook, HookEvent
from scaffold.core.printable_text import one_line, short_line
from scaffold.extensions.hooks.hook_answer import HookAnswer, answer_of, together
from scaffold.extensions.hooks.script_names import HOOK_FILES, PROJECT, with_files_elsewhere
from scaffold.host.process.command_runner import CommandResult, Containment, OutputCapture, run_command
from scaffold.host.sandbox.confinement import CommandSandbox, SandboxSpec, built

MAX_OUTPUT_BYTES = 1_000_000
MAX_COMMAND_CHARS = 60
# For hooks at an end, which must not hold it up.
CLOSING_S: Mapping[HookEvent, float] = {"SessionEnd": 3.0, "WorktreeRemove": 10.0}
NOT_RUN = {126: "is not executable", 127: "was not found"}  # what a shell says about a program by its exit code
TEXT_IS_CONTEXT: frozenset[HookEvent] = frozenset({"UserPromptSubmit", "SessionStart"})
_EXACT = re.compile(r"[\w ,|-]*")


class HookContext(Struct, frozen=True, kw_only=True):
    """Where hooks run."""

    cwd: Path
    project: Path
    """The folder of the project, for `CLAUDE_PROJECT_DIR`."""
    environ: Mapping[str, str]
    """The environment of the agent's commands."""
    sandbox: CommandSandbox | None
    """Confines hooks as it confines the agent's commands; None for no sandbox."""
    about: Mapping[str, Any]
    """Members of the input of each hook: `session_id` and the like."""
    writes: bool = True
    """Whether they may write where the sandbox lets commands write."""


class HookRunner:
    """The hooks of one agent."""

    def __init__(self, extensions: Extensions, place: HookContext, tell: Callable[[str], object]) -> None:
        """`tell` receives lines for the user."""
        self._extensions = extensions
        self._place = place
        self._tell = tell
        self._told: set[str] = set()

    def has(self, event: HookEvent) -> bool:
        """Return whether there are hooks for an event."""
        return any(hook.event == event for hook in self._extensions.hooks)

    async def run(
        self, event: HookEvent, data: Mapping[str, Any], names: Sequence[str] = (), *, place: HookContext | None = None
    ) -> HookAnswer:
        """Run the hooks of the event whose matchers match one of the names, and return what they say together.

        Lines for the user are passed on before it returns. `place` replaces the agent's own.
        """
        hooks = {
            hook.command: hook for hook in self._extensions.hooks if hook.event == event and _matches_name(hook, names)
        }
        if not hooks:
            return HookAnswer()
        place = place or self._place
        told = {**place.about, "cwd": str(place.cwd), "hook_event_name": event, **data}
        # File names may contain bytes that are not valid text.
        payload = msgspec.json.encode(encodable(told))
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._run_hook(hook, place, payload)) for hook in hooks.values()]
        answer = together([each.result() for each in running])
        for line in answer.lines:
            self._tell(line)
        return answer

    async def _run_hook(self, hook: Hook, place: HookContext, payload: bytes) -> HookAnswer:
        who = f"the {hook.event} hook `{short_line(one_line(hook.command), MAX_COMMAND_CHARS)}` of {hook.source}"
        command, problem = self._trusted_command(hook, place)
        if problem:
            return self._broken_answer(f"{who} cannot run: {problem}")
        timeout_s = min(hook.timeout_s, CLOSING_S.get(hook.event, hook.timeout_s))
        try:
            result = await self._run_process(hook, place, command, payload, timeout_s)
        except OSError as error:  # no room for its input, or no descriptor left
            return self._broken_answer(f"{who} cannot run: {error.strerror}")
        if result.timed_out:
            return self._broken_answer(f"{who} was ended after {timeout_s:g} s; give it a longer `timeout`, or fix it")
        if result.too_many_processes:
            return self._broken_answer(f"{who} was ended because it started too many processes; fix it")
        if result.exit_code in NOT_RUN:
            last = short_line(one_line(result.stderr.decode(errors="replace").strip()), 200)
            said = f" ({last})" if last else ""
            return self._broken_answer(
                f"{who} cannot run: a program {NOT_RUN[result.exit_code]}{said}; install it, `chmod +x` it, or remove "
                "the hook"
            )
        answer = answer_of(result, who, text_is_context=hook.event in TEXT_IS_CONTEXT)
        # One that fails the same way at each call is said once; what a hook says to the user is always said.
        return answer if result.exit_code == 0 else structs.replace(answer, lines=self._new_lines(answer.lines))

    def _broken_answer(self, text: str) -> HookAnswer:
        return HookAnswer(broken=text, lines=self._new_lines((text,)))

    def _new_lines(self, lines: Sequence[str]) -> tuple[str, ...]:
        new = tuple(line for line in lines if line not in self._told)
        self._told.update(new)
        return new

    async def _run_process(
        self, hook: Hook, place: HookContext, command: str, payload: bytes, timeout_s: float
    ) -> CommandResult:
        env = {**place.environ, PROJECT: str(place.project), HOOK_FILES: self._extensions.folder}
        return await run_command(
            ("/bin/sh", "-c", command),
            cwd=place.cwd,
            env=env,
            timeout_s=timeout_s,
            stdin=payload,
            output=OutputCapture(limit_bytes=MAX_OUTPUT_BYTES),
            containment=Containment(sandbox=await self._hook_sandbox(hook, place)),
        )

    def _trusted_command(self, hook: Hook, place: HookContext) -> tuple[str, str]:
        # A worktree's scripts are an agent's to change, so the trusted copies run instead.
        command, files = hook.command, Path(self._extensions.folder or place.project)
        ours = [name for name in hook.scripts if not name.startswith("/")]
        here = place.project
        if ours and files != here:
            command, unchanged = with_files_elsewhere(command, ours)
            # What could not be replaced runs where it is, if it is the same.
            if problem := next(filter(None, (self._script_problem(hook, here, name) for name in unchanged)), ""):
                return command, problem
        problems = (self._script_problem(hook, files, name) for name in hook.scripts)
        return command, next(filter(None, problems), "")

    def _script_problem(self, hook: Hook, folder: Path, name: str) -> str:
        path = folder / name
        try:
            content = path.read_bytes() if path.is_file() else None
        except OSError as error:
            return f"{path} cannot be read ({error.strerror})"
        if content is None:
            return f"{path} does not exist; create it, or remove the hook from {hook.source}"
        if name.startswith("/"):
            return ""
        if self._extensions.digests.get(name) != hashlib.sha256(content).hexdigest():
            return f"{path} is not the file that you trust; look at it, `scaffold trust` it, and start again"
        return ""

    async def _hook_sandbox(self, hook: Hook, place: HookContext) -> SandboxSpec | None:
        which = self._extensions.sandbox
        if which == "none" or (which == "project" and hook.own) or (sandbox := await built(place.sandbox)) is None:
            return None
        zone = sandbox.confinement
        # A worktree is in a folder that is hidden from commands, so what may not be written there is still read.
        unwritten = () if place.writes else zone.writable
        # The user's own hooks read only their scripts; the project's hooks read the project's folder.
        own = [Path(name) for name in hook.scripts if name.startswith("/")]
        # Files beside a script belong to it only in a folder for hooks: in others may be logins.
        shown = [each.parent if each.parent.name == "hooks" else each for each in own]
        folder = self._extensions.folder
        project = (Path(folder),) if folder and not hook.own else ()
        readable = (*zone.readable, *project, *(each.resolve() for each in shown), *unwritten)
        zone = structs.replace(zone, readable=readable, writable=zone.writable if place.writes else ())
        return structs.replace(sandbox, confinement=zone)


def _matches_name(hook: Hook, names: Sequence[str]) -> bool:
    # As Claude Code does: a list of words is compared exactly, anything else is an expression.
    matcher = hook.matcher.strip()
    if matcher in {"", "*"} or not names:
        return True
    if _EXACT.fullmatch(matcher):
        return not {word.strip() for word in re.split(r"[|,]", matcher)}.isdisjoint(names)
    pattern = _compile_matcher(matcher)
    # An invalid expression matches everything: a guard must not fall silent.
    return pattern is None or any(pattern.search(name) for name in names)


@lru_cache(maxsize=256)
def _compile_matcher(matcher: str) -> re.Pattern[str] | None:
    try:
        return re.compile(matcher)
    except (re.error, RecursionError, OverflowError):
        return None


def encodable(value: Any) -> Any:
    """Return the value with lone surrogates replaced."""
    match value:
        case str():
            return value.encode(errors="replace").decode() if not value.isascii() else value
        case Mapping():
            return {str(encodable(name)): encodable(each) for name, each in value.items()}
        case list() | tuple():
            return [encodable(each) for each in value]
        case _:
            return value
