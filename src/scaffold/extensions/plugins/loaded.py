"""The plugins of a session: started together, and ended together."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from scaffold.core.printable_text import one_line
from scaffold.core.tool import Tool
from scaffold.extensions.plugins.executables import named, plugin_files
from scaffold.extensions.plugins.plugin import Plugin
from scaffold.extensions.plugins.tool_adapter import plugin_tools
from scaffold.extensions.plugins.turn_hooks import PluginHooks
from scaffold.host.child_environment import PROXIES, child_environment
from scaffold.host.process.piped_process import PipedCommand
from scaffold.host.sandbox.confinement import SandboxSpec

MAX_PLUGINS = 32


class PluginPlace(Struct, frozen=True, kw_only=True):
    """Where plugins are, and where they run."""

    folder: Path
    cwd: Path
    environ: Mapping[str, str]
    """Ours; a plugin gets the few variables of it that hold no secrets."""
    sandbox: SandboxSpec | None
    """That of commands."""
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
        """Lines about files that are no plugins."""
        self.hooks = PluginHooks(plugins)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of all of them."""
        return tuple(tool for plugin in self.plugins if plugin.runs for tool in plugin_tools(plugin))

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
    plugins = [Plugin(file, _command(file, place, networked=file in networked), tell) for file in files]
    loaded = LoadedPlugins(plugins, notices)
    async with AsyncExitStack() as on_failure:
        on_failure.push_async_callback(loaded.close)
        async with asyncio.TaskGroup() as group:
            for plugin in plugins:
                group.create_task(plugin.initialize(about))
        on_failure.pop_all()
    _end_duplicates(plugins)
    return LoadedPlugins(sorted(plugins, key=lambda plugin: plugin.manifest.priority), notices)


def _end_duplicates(plugins: Sequence[Plugin]) -> None:
    """End all but one of the plugins that have the same name: the one whose file is named so stays, else the first."""
    owners: dict[str, Plugin] = {}
    # Not by who answers first: it is always the same one that stays.
    for plugin in sorted(plugins, key=lambda plugin: plugin.file.stem != plugin.manifest.name):
        owner = owners.setdefault(plugin.manifest.name, plugin) if plugin.runs else plugin
        if owner is not plugin:
            plugin.reject(
                f"{one_line(owner.file.name)} has this name; {one_line(plugin.file.name)} cannot have it, too"
            )


def _command(file: Path, place: PluginPlace, *, networked: bool) -> PipedCommand:
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
