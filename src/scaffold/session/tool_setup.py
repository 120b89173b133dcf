"""The tools of a session: built-in ones, those for subagents and messages, and the user's own, each gated."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.agent.modes import CurrentMode, switch_mode_tool
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.sandbox.confinement import CommandSandbox
from scaffold.host.startup import importing
from scaffold.host.user_dirs import user_dirs
from scaffold.host.wall_clock import WallClock
from scaffold.policy.permission.approval_gate import ApprovalGate
from scaffold.policy.permission.call_decision import ShellPolicy
from scaffold.policy.secret.redaction import Redactor
from scaffold.session.file_history import FILE_HISTORY_FOLDER, FileHistory
from scaffold.session.shell_sandbox import temporary_folder
from scaffold.tools.catalog import all_tools
from scaffold.tools.command.background_commands import BackgroundCommands
from scaffold.tools.command.spooled_output import remove_expired
from scaffold.tools.command.user_tools import UserToolEnv, load_user_tools
from scaffold.tools.content.seen_files import SeenFiles
from scaffold.tools.nested_repositories import NestedRepositories
from scaffold.tools.read_cache import with_read_cache
from scaffold.tools.todos import Todos
from scaffold.tools.vector_db import DocumentActions, pdf_document_tool, pdf_extract_text
from scaffold.tools.workspace import Workspace

USER_TOOLS_FOLDER = "tools"  # the folder of the user's own tool files, in the user's configuration directory


class ToolSetup(Struct, frozen=True, kw_only=True):
    """What the tools of a session work with."""

    cwd: Path
    gate: ApprovalGate
    conversation: str
    """Its long command outputs are kept for it and its subagents alone."""
    environ: Mapping[str, str]
    """The environment of commands."""
    sandbox: CommandSandbox | None
    """Confines commands; None for no sandbox."""
    modes: CurrentMode
    todos: Todos
    history: FileHistory
    more: Sequence[Tool] = ()
    """Tools to add behind the built-in ones."""
    documents: Callable[[Workspace], DocumentActions] | None = None
    """Makes what stores documents of the workspace; None for no such tool."""
    redactor: Redactor = Redactor()
    commands: BackgroundCommands | None = None
    """The commands in the background, which the caller ends; None for none."""
    shown: Sequence[Path] = ()
    """Folders outside of the workspace that may be read, e.g. of skills."""
    seen: SeenFiles = msgspec.field(default_factory=SeenFiles)
    """The files that the conversation has read or written."""


class SessionTools(Struct, frozen=True):
    """The tools an agent may call, and one-line notices about the user's own tools that cannot be used."""

    tools: tuple[Tool, ...]
    notices: tuple[str, ...]


async def load_session_tools(setup: ToolSetup) -> SessionTools:
    """Return the gated tools of a session; expired command outputs of earlier ones are removed meanwhile."""
    cwd, dirs = setup.cwd, user_dirs()
    packages, outputs = dirs.data / "packages", dirs.cache / "outputs" / setup.conversation
    workspace = Workspace(
        cwd,
        setup.environ,
        readable=(outputs, *setup.shown),
        sandbox=setup.sandbox,
        redactor=setup.redactor,
        seen=setup.seen,
        nested=NestedRepositories(cwd, besides=temporary_folder(setup.conversation)) if setup.sandbox else None,
    )
    built_in = all_tools(
        workspace, fetch=_fetch_page, todos=setup.todos, packages=packages, outputs=outputs, commands=setup.commands
    )
    pdf_tools = [pdf_extract_text(partial(_read_pdf, workspace))]
    if setup.documents is not None:
        pdf_tools.append(pdf_document_tool(setup.documents(workspace)))
    tools = (*built_in, *pdf_tools, switch_mode_tool(setup.modes), *setup.more)
    user_env = UserToolEnv(workspace, packages=packages, outputs=outputs)
    now = WallClock().now()
    async with asyncio.TaskGroup() as group:
        for kept in (dirs.cache / "outputs", dirs.data / FILE_HISTORY_FOLDER):
            group.create_task(asyncio.to_thread(remove_expired, kept, conversation=setup.conversation, now=now))
        loading = group.create_task(
            load_user_tools(user_env, dirs.config / USER_TOOLS_FOLDER, taken={tool.name for tool in tools})
        )
    own = loading.result()
    setup.gate.steers = steers_programs
    watched = tuple(map(setup.history.watch, (*tools, *own.tools)))
    return SessionTools(tuple(map(setup.gate.guard, with_read_cache(watched, cwd, setup.seen))), own.notices)


def load_shell_policy() -> ShellPolicy:
    """Import and return the policy for shell commands, for the first one: its parser takes long to load."""
    with importing():
        from scaffold.policy.shell.command_policy import ShellCommandPolicy
    return ShellCommandPolicy()


def steers_programs(path: str) -> bool:
    """Return whether other programs obey or run a file of the workspace: their settings, build files, hooks."""
    with importing():  # few sessions accept edits
        from scaffold.policy.path.protected_files import normalized_segments
        from scaffold.policy.sandbox_profile import READ_ONLY_PATHS
        from scaffold.verify.paths.check_inputs import TASK_RUNNER_FILES, autorun_reason, is_config_file
        from scaffold.verify.paths.manifest import is_manifest
    names = normalized_segments(path)
    tasks = {"conftest.py", *(name for files in TASK_RUNNER_FILES.values() for name in files)}
    obeyed = any(f"{'/'.join(names)}/".startswith(f"{each.casefold()}/") for each in READ_ONLY_PATHS)
    named = is_config_file(path) or is_manifest(path) or autorun_reason(path) is not None
    return obeyed or named or not tasks.isdisjoint(names[-1:])


async def _read_pdf(workspace: Workspace, args: Mapping[str, Any]) -> ToolOutput:
    with importing():
        from scaffold.session.memory.pdf_text import pdf_text
    return await pdf_text(workspace, args)


async def _fetch_page(args: Mapping[str, Any]) -> ToolOutput:
    with importing():  # few sessions need its HTTP client
        from scaffold.tools.web.http import web_fetch
    return await web_fetch().run(args)
