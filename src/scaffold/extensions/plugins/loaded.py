"""The plugins of a session: started together, and ended together."""

import asyncio
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from scaffold.core.printable_text import one_line, printable, truncate_text
from scaffold.core.tool import Tool, ToolOutput
from scaffold.extensions.plugins.manifest import PluginTool
from scaffold.extensions.plugins.plugin import CallFailed, Plugin
from scaffold.extensions.plugins.turn_hooks import MAX_TEXT_CHARS, PluginHooks
from scaffold.host.child_environment import PROXIES, child_environment
from scaffold.host.process.piped_process import PipedCommand
from scaffold.host.sandbox.confinement import SandboxSpec


class PluginFiles(Struct, frozen=True):
    """The plugins in a folder, by name, and a line about each file that looks like a plugin but cannot run."""

    files: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()


class _ToolAnswer(Struct):
    """The answer to `tool/execute`."""

    success: bool
    result: str = ""


MAX_PLUGINS = 32


class PluginPlace(Struct, frozen=True, kw_only=True):
    """Where plugins are, and where they run."""

    folder: Path
    cwd: Path
    environ: Mapping[str, str]
    """Ours; a plugin gets the few variables of it that hold no secrets."""
    sandbox: SandboxSpec | None
    """Confines plugins as it confines commands."""
    network: Sequence[str] = ()
    """The plugins that may use the network, by the names of their files."""
    only: Sequence[str] | None = None
    """The plugins that run, by the names of their files; None for all."""
    writes: bool = True
    """Whether they may write where the sandbox lets commands write."""


class LoadedPlugins:
    """The plugins of one session."""

    def __init__(self, plugins: Sequence[Plugin], notices: Sequence[str] = ()) -> None:
        self.plugins = plugins
        """In the order in which they run; also those that do not run, for a listing."""
        self.notices = notices
        """Lines about files that cannot run as plugins."""
        self.hooks = PluginHooks(plugins)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of all of them."""
        return tuple(
            _plugin_tool(plugin, offered) for plugin in self.plugins if plugin.runs for offered in plugin.manifest.tools
        )

    async def close(self) -> None:
        """End them all."""
        async with asyncio.TaskGroup() as group:
            for plugin in self.plugins:
                group.create_task(plugin.close())


async def load_plugins(place: PluginPlace, about: Mapping[str, Any], tell: Callable[[str], object]) -> LoadedPlugins:
    """Start the plugins of a folder, and return them; `tell` receives a line about each that does not run."""
    found = plugin_files(place.folder, me=os.getuid())
    files, networked = found.files, named(found.files, place.network)
    notices = [*found.notices]
    if place.only is not None:
        files = named(files, place.only)
    if len(files) > MAX_PLUGINS:
        notices.append(
            f"{len(files)} plugins are too many: those after {one_line(files[MAX_PLUGINS - 1].name)} do not run"
        )
        files = files[:MAX_PLUGINS]
    for notice in notices:
        tell(notice)
    plugins = [Plugin(file, _plugin_command(file, place, networked=file in networked), tell) for file in files]
    loaded = LoadedPlugins(plugins, notices)
    async with AsyncExitStack() as on_failure:
        on_failure.push_async_callback(loaded.close)
        async with asyncio.TaskGroup() as group:
            for plugin in plugins:
                group.create_task(plugin.initialize(about))
        on_failure.pop_all()
    owners: dict[str, Plugin] = {}
    # The plugin whose file has the name stays, else the first: not the one that answers first.
    for plugin in sorted(plugins, key=lambda plugin: plugin.file.stem != plugin.manifest.name):
        owner = owners.setdefault(plugin.manifest.name, plugin) if plugin.runs else plugin
        if owner is not plugin:
            names = one_line(owner.file.name), one_line(plugin.file.name)
            plugin.reject(f"{names[0]} has this name; {names[1]} cannot have the same")
    return LoadedPlugins(sorted(plugins, key=lambda plugin: plugin.manifest.priority), notices)


def _plugin_command(file: Path, place: PluginPlace, *, networked: bool) -> PipedCommand:
    environ = child_environment(place.environ)
    if not networked:
        # The address of a proxy may contain a password.
        environ = {name: value for name, value in environ.items() if name.lower() not in PROXIES}
    sandbox = place.sandbox
    if sandbox is not None:
        # A worktree is in a folder that is hidden from commands, so what they may not write there they still read.
        writable = sandbox.confinement.writable
        zone = structs.replace(
            sandbox.confinement,
            writable=writable if place.writes else (),
            network="open" if networked else "none",
            readable=(*sandbox.confinement.readable, place.folder.resolve(), *(() if place.writes else writable)),
        )
        sandbox = structs.replace(sandbox, confinement=zone, proxy=None)
    return PipedCommand(argv=(str(file),), cwd=place.cwd, env=environ, sandbox=sandbox)


def _plugin_tool(plugin: Plugin, offered: PluginTool) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        result = await plugin.call("tool/execute", {"name": offered.name, "arguments": args})
        if isinstance(result, CallFailed):
            return ToolOutput(f"Plugin {plugin.manifest.name} gave no result: {result.reason}.", failed=True)
        try:
            answer = msgspec.json.decode(result, type=_ToolAnswer)
        except (msgspec.DecodeError, RecursionError) as error:
            plugin.complain(offered.name, f"tool {offered.name}: its answer is invalid: {error}")
            return ToolOutput(f"Plugin {plugin.manifest.name} gave an invalid answer.", failed=True)
        return ToolOutput(truncate_text(printable(answer.result), MAX_TEXT_CHARS), failed=not answer.success)

    return Tool(
        name=plugin.manifest.tool_name(offered),
        description=f"{offered.description or offered.name} (from the user's plugin {plugin.manifest.name})",
        schema=offered.schema,
        category="plugin",
        run=run,
    )


def plugin_files(folder: Path, *, me: int) -> PluginFiles:
    """Return the plugins of the user `me` in `folder`, which may be missing; hidden files and folders do not count.

    Other users must not be able to change one: it runs with the user's files.
    """
    try:
        with os.scandir(folder) as listing:
            entries = sorted((entry for entry in listing if not entry.name.startswith(".")), key=lambda each: each.name)
        changed_by = _changed_by_others(folder.stat(), me)
    except OSError:
        return PluginFiles()
    if entries and changed_by:
        return PluginFiles(notices=(f"plugins in {folder} do not run: the folder {changed_by}",))
    files, notices = [], []
    for entry in entries:
        problem = _file_problem(entry, me)
        if problem is None:
            files.append(folder / entry.name)
        elif problem:
            notices.append(f"plugin {one_line(entry.name)} does not run: it {problem}")
    return PluginFiles(tuple(files), tuple(notices))


def _file_problem(entry: os.DirEntry[str], me: int) -> str | None:
    # None for a valid plugin, empty for a file that does not look like one, else the reason.
    try:
        if entry.is_symlink():
            return "is a symbolic link; copy the program itself there"
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return ""
    if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o111:
        return ""
    if problem := _changed_by_others(status, me):
        return problem
    return None if os.access(entry.path, os.X_OK) else "is not executable for you"


def _changed_by_others(status: os.stat_result, me: int) -> str:
    if status.st_uid != me:
        return "is not yours; change its owner (`chown`)"
    if status.st_mode & 0o022:
        return "can be changed by others; forbid that (`chmod go-w`)"
    return ""


def named(files: Sequence[Path], names: Sequence[str]) -> tuple[Path, ...]:
    """Return the files that have one of the names, with or without their extension."""
    return tuple(file for file in files if {file.name, file.stem} & set(names))
