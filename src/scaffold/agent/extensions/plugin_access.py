"""An agent's plugins, loaded only if the user has any: without one, an agent costs a listing of their folder."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from scaffold.core.ports import Model
from scaffold.core.tool import Tool
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.startup import lazy_import
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.secret.redaction import Redactor

OPEN = "scaffold.agent.extensions.opened_plugins:open_loaded_plugins"
"""Takes a PluginSetup, and starts the plugins."""
PLUGINS_FOLDER = "plugins"
"""The folder of the user's plugins, in the user's configuration directory."""


class PluginSetup(Struct, frozen=True, kw_only=True):
    """What the plugins of an agent work with."""

    cwd: Path
    session: str
    environ: Mapping[str, str]
    """Ours; plugins get no secret of it."""
    sandbox: SandboxSpec | None
    """That of commands; None for none."""
    network: tuple[str, ...]
    """The plugins that may use the network, by the names of their files."""
    only: tuple[str, ...] | None = None
    """The plugins that run, by the names of their files; None for all."""
    writes: bool = True
    """Whether they may write where the sandbox lets commands write."""
    redactor: Redactor
    tell: Callable[[str], object]
    """Takes a line for the user."""


class DroppedInput(Struct, frozen=True):
    """A message that a plugin has done itself; `text` says how."""

    text: str


class PluginSummary(Struct, frozen=True, kw_only=True):
    """One plugin for a listing; all of it is printable."""

    name: str
    version: str
    file: str
    state: str
    priority: int
    hooks: tuple[str, ...]
    tools: tuple[str, ...]
    error: str
    """The last one; empty if there was none."""


class PluginOverview(Struct, frozen=True):
    """All plugins, in the order in which they run, and a line about each file that is none."""

    plugins: tuple[PluginSummary, ...] = ()
    notices: tuple[str, ...] = ()


class AgentPlugins(Protocol):
    """The plugins of an agent."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools they offer, not gated."""
        ...

    @property
    def reads_input(self) -> bool:
        """Whether one reads what the user says before the agent does."""
        ...

    async def user_input(self, words: str, material: str) -> tuple[str, str] | DroppedInput:
        """Return the user's words and material as they made them; ScaffoldError if one refuses them."""
        ...

    def watch(self, tool: Tool) -> Tool:
        """Return the tool with their hooks before and after each call."""
        ...

    def hooked(self, model: Model) -> Model:
        """Return the model with their hooks before and after each request."""
        ...

    @property
    def overview(self) -> PluginOverview:
        """What they are, and how they fare."""
        ...

    async def close(self) -> None:
        """End them."""
        ...


class NoPlugins:
    """The plugins of an agent without any."""

    tools: tuple[Tool, ...] = ()
    reads_input = False

    async def user_input(self, words: str, material: str) -> tuple[str, str] | DroppedInput:
        """Return both."""
        return words, material

    def watch(self, tool: Tool) -> Tool:
        """Return the tool."""
        return tool

    def hooked(self, model: Model) -> Model:
        """Return the model."""
        return model

    @property
    def overview(self) -> PluginOverview:
        """Nothing."""
        return PluginOverview()

    async def close(self) -> None:
        """Do nothing."""


NO_PLUGINS = NoPlugins()


def plugins_folder() -> Path:
    """Return the folder of the user's plugins."""
    return user_dirs().config / PLUGINS_FOLDER


async def open_plugins(setup: PluginSetup) -> AgentPlugins:
    """Start the user's plugins; they live until they are closed, and end with this process."""
    if setup.only == ():
        return NO_PLUGINS
    try:
        if not os.listdir(plugins_folder()):  # noqa: PTH208 - as quick as it can be
            return NO_PLUGINS
    except OSError:
        return NO_PLUGINS
    opened: AgentPlugins = await lazy_import(OPEN)(setup, plugins_folder())
    return opened
