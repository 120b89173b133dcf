"""The tool that runs shell commands in a workspace."""

import asyncio
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, assert_never

from msgspec import structs

from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.sandbox.confinement import CommandSandbox, SandboxSpec
from scaffold.host.startup import importing
from scaffold.tools.arguments import object_schema
from scaffold.tools.command.background_commands import BackgroundCommands
from scaffold.tools.command.sandbox_notice import sandbox_notice
from scaffold.tools.command.spooled_output import CommandReport, CommandSpec, describe_exit, run_spooled
from scaffold.tools.workspace import MAX_ANSWER_CHARS, Workspace, failed_answer

_LAUNCH_SCRIPT = """
import linecache, sys, traceback
sys.path += sys.argv[1:]
del sys.argv[1:]
code = sys.stdin.buffer.read().decode()
linecache.cache["<python>"] = (len(code), None, code.splitlines(True), "<python>")
sys.excepthook = lambda kind, error, frames: traceback.print_exception(kind, error, frames.tb_next)
exec(compile(code, "<python>", "exec"), {"__name__": "__main__"})
"""
"""Reads the code from stdin, so it may have any length, and shows its lines in tracebacks."""
DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 600
TIMEOUT_SCHEMA = {
    "type": "number",
    "minimum": 1,
    "description": f"Seconds; default {DEFAULT_TIMEOUT_S}, at most {MAX_TIMEOUT_S}.",
}
BACKGROUND_SCHEMA = {"type": "boolean", "description": "Do not wait for its end: for servers, watchers, long work."}
CUT_NOTE = f"Output beyond {MAX_ANSWER_CHARS:,} characters is cut in the middle and saved whole in a file."
LONGER_HINT = "give timeout_s for longer work"
PATCH_TOOL = "apply_patch"
"""Some models run it as a command."""
_SHELL_STATE = frozenset({"cd", "export", "pushd", "source", ".", "unset", "alias", "set"})
"""Commands that change nothing but the shell that runs them."""
_PART_ENDS = re.compile(r"&&|;|\n")
MAX_HINTED_CHARS = 200
MAX_COMMAND_BYTES = 131_071
"""Linux's limit for one argument."""


def shell(workspace: Workspace, outputs: Path | None = None, in_background: BackgroundCommands | None = None) -> Tool:
    """Return the tool that runs a command; it answers with how it ended, then stdout and stderr in one.

    Everything a command starts ends with it; too many processes at once end it. Output too long to show is saved in
    the folder `outputs`, if given; add that folder to the workspace's `readable` so that agents can read it. Commands
    that are not to be waited for go to `in_background`, if given.
    """
    interpreter = shutil.which("bash", path=workspace.env.get("PATH")) or "/bin/sh"

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        """Run the command, or return why the system cannot take it."""
        text = args["command"]
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            return failed_answer("`command` contains a NUL or a lone surrogate; write such characters as escapes.")
        if len(text.encode()) > MAX_COMMAND_BYTES:
            return failed_answer(
                f"`command` has more than {MAX_COMMAND_BYTES} bytes; write it to a file with write_file and run that."
            )
        argv, nested = [interpreter, "-c", text], workspace.nested
        if in_background is not None and args.get("background"):
            before = () if nested is None else await asyncio.to_thread(nested.find)
            spec = await _command_spec(workspace, argv, args, None, b"", before)
            return in_background.start(spec, lambda: () if nested is None else nested.move_new(before))
        answer = await run_call(workspace, argv, args, outputs)
        hints = _lost_state_hint(text, answer)
        # Models that know a patch command from elsewhere run it here, too.
        if answer.failed and f"{PATCH_TOOL}: " in answer.content and PATCH_TOOL in text:
            hints = (
                f"\n{PATCH_TOOL} is not a command here; call the tool {PATCH_TOOL} with the patch as `input`.{hints}"
            )
        return structs.replace(answer, content=answer.content + hints)

    more = {"background": BACKGROUND_SCHEMA} if in_background is not None else {}
    return Tool(
        name="shell",
        description=(
            f"Run a command with {Path(interpreter).name} in the working directory. Each call is a new shell: `cd`, "
            f"variables and exports do not last, files do. It gets no input. {CUT_NOTE} All processes that it starts "
            f"end with it, also those after `&`.{describe_sandbox(workspace.sandbox)}"
        ),
        schema=object_schema(
            {"command": {"type": "string", "description": "One or more lines of shell code."}},
            timeout_s=TIMEOUT_SCHEMA,
            **more,
        ),
        category="shell",
        run=work,
        sandboxed=workspace.sandbox is not None,
    )


async def run_call(
    workspace: Workspace, argv: Sequence[str], args: Mapping[str, Any], outputs: Path | None, *, stdin: bytes = b""
) -> ToolOutput:
    """Run the command of a tool call in the workspace's sandbox, ended after the call's `timeout_s`.

    Repositories that it made in the workspace are moved aside, also if the call is cancelled.
    """
    nested = workspace.nested
    if nested is None:
        spec = await _command_spec(workspace, argv, args, outputs, stdin, ())
        return _with_notice(await run_spooled(spec), spec)
    before, moved = await asyncio.to_thread(nested.find), tuple[str, ...]()
    try:
        spec = await _command_spec(workspace, argv, args, outputs, stdin, before)
        report = await run_spooled(spec)
    finally:
        moved = nested.move_new(before)
    answer = _with_notice(report, spec)
    return structs.replace(answer, content="\n".join([answer.content, *(f"--- {line}" for line in moved)]))


def _with_notice(report: CommandReport, spec: CommandSpec) -> ToolOutput:
    answer = command_answer(report, LONGER_HINT)
    command = f"{' '.join(spec.argv)}\n{spec.stdin.decode(errors='replace')}"
    notice = sandbox_notice(report.finished, report.stdout, spec.sandbox, command=command)
    return structs.replace(answer, content=f"{answer.content}\n--- {notice}") if notice else answer


async def _command_spec(
    workspace: Workspace,
    argv: Sequence[str],
    args: Mapping[str, Any],
    outputs: Path | None,
    stdin: bytes,
    nested: Sequence[Path],
) -> CommandSpec:
    return CommandSpec(
        argv=argv,
        cwd=workspace.root,
        env=workspace.env,
        timeout_s=min(args.get("timeout_s", DEFAULT_TIMEOUT_S), MAX_TIMEOUT_S),
        outputs=outputs,
        stdin=stdin,
        sandbox=await workspace.current_sandbox(nested),
        clean=workspace.redactor.clean,
        on_output=workspace.on_output,
        together=True,
    )


def describe_sandbox(sandbox: CommandSandbox | None, *, has_broker: bool | None = None) -> str:
    """Return sentences that describe the sandbox to a model; empty without a sandbox.

    `has_broker` says whether Landlock has one on this machine; None: the kernel is asked.
    """
    if sandbox is None:
        return ""
    allowed = sandbox.confinement if isinstance(sandbox, SandboxSpec) else sandbox
    match allowed.network:
        case "none" | "loopback":
            network = "there is no network"
        case "hosts":
            network = f"only {', '.join(allowed.hosts) or 'nothing'} can be reached on the network, through the proxy"
        case "open":
            network = "the whole network can be reached"
        case _:
            assert_never(allowed.network)
    return (
        f" It runs in a sandbox: only the workspace and $TMPDIR are writable, the .git data is not, and {network}."
        f"{_landlock_limits(sandbox, has_broker)}"
    )


def _landlock_limits(sandbox: CommandSandbox, has_broker: bool | None) -> str:
    if sandbox.level != "landlock":
        return ""
    with importing():
        from scaffold.host.sandbox.landlock import sandboxed_command as landlock
    if landlock.has_broker() if has_broker is None else has_broker:
        return " Programs cannot use Unix sockets or open a terminal."
    listening = " Programs cannot listen on any port, not even on 127.0.0.1."
    entries = (
        " It cannot create, rename or remove entries at the top of the workspace: create files there with write_file."
    )
    is_open = isinstance(sandbox, SandboxSpec) and not sandbox.confinement.protected
    return listening + ("" if is_open else entries)


def _lost_state_hint(command: str, answer: ToolOutput) -> str:
    # Each call has a shell of its own, which models that know others do not expect.
    parts = [part.split() for part in _PART_ENDS.split(command.strip()) if part.strip()]
    lost = not answer.failed and parts and all(words[0] in _SHELL_STATE for words in parts)
    if not lost or len(command) > MAX_HINTED_CHARS:
        return ""
    again = " && ".join(map(" ".join, parts))
    return f"\n--- This lasted for this call only. Put it before the command that needs it: `{again} && COMMAND`"


def command_answer(report: CommandReport, if_late: str = "") -> ToolOutput:
    """Return the answer: how the command ended, then its output; failed unless the exit code is 0.

    `if_late` is the advice shown after a timeout.
    """
    names = ("stdout", "stderr") if report.stderr else ("output",)
    streams = [f"--- {name}\n{text}" for name, text in zip(names, (report.stdout, report.stderr), strict=False) if text]
    text = "\n".join([describe_exit(report.finished, if_late), *streams, *report.kept])
    return ToolOutput(text, failed=report.finished.exit_code != 0)


def python(workspace: Workspace, *, packages: Path | None = None, outputs: Path | None = None) -> Tool:
    """Return the tool that runs code in the workspace with our interpreter; it answers like `shell`.

    The interpreter is isolated (-I): it imports neither user settings nor workspace modules by default.
    Code can import from the folder `packages`.
    """

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        """Run the code in a new process."""
        try:
            code = args["code"].encode()
        except UnicodeEncodeError:
            return failed_answer("`code` contains a lone surrogate; write such characters as escapes.")
        argv = [sys.executable, "-I", "-u", "-X", "utf8", "-c", _LAUNCH_SCRIPT, *([str(packages)] if packages else ())]
        return await run_call(workspace, argv, args, outputs, stdin=code)

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Tool(
        name="python",
        description=(
            f"Run Python {version} code as shell runs a command, in a new process; print what you want to see. "
            "To import the workspace's own modules, put '.' on sys.path first."
        ),
        schema=object_schema(
            {"code": {"type": "string", "description": "A complete program."}}, timeout_s=TIMEOUT_SCHEMA
        ),
        category="python",
        run=work,
        sandboxed=workspace.sandbox is not None,
    )
