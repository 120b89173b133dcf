"""The options of a session of `ralph`, and what a subagent inherits of them."""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from scaffold.agent.extensions.setup import ServersFile
from scaffold.agent.modes import Mode
from scaffold.agent.skills import SkillPlace
from scaffold.agent.subagents.process_pool import SubagentLimits
from scaffold.core.extension_set import Extensions, Role
from scaffold.core.run_settings import CompactionWriter, Effort, ModelProfile, SandboxSettings
from scaffold.policy.rule.ruleset import RuleSet


class SessionOptions(Struct, frozen=True, kw_only=True):
    """How a session works, whatever its task."""

    cwd: Path
    home: Path
    rules: RuleSet
    max_turns: int
    """Requests per turn."""
    budget_usd: float | None
    stream: bool
    system_prompt: str | None
    """Replaces the built-in base prompt."""
    mode: Mode | None = None
    """None for the conversation's own."""
    accept_edits: bool = False
    """Whether changes of files in its folder are allowed without a question, from the beginning."""
    effort: Effort = "auto"
    """The effort of the settings."""
    chosen_effort: Effort | None = None
    """The effort of the command line; None for the conversation's own, or else the one of the settings."""
    size_efforts: Mapping[str, Effort] = {}
    """The effort of each size of model, for a session that switches to it."""
    compaction: CompactionWriter = "code"
    windows: Mapping[str, int] = {}
    """Configured context windows in tokens, by model string or by the model's name at its provider."""
    profiles: Mapping[str, ModelProfile] = {}
    """Configured profiles, by the same."""
    embedding: str | None = None
    """The model string of the embedding model; None for the one of the extra `memory`."""
    subagents: SubagentLimits = SubagentLimits()
    environment: tuple[str, ...] = ()
    """Names of variables passed to commands in addition to the usual ones."""
    sandbox: SandboxSettings = SandboxSettings()
    plugin_network: tuple[str, ...] = ()
    """The plugins that may use the network, by the names of their files."""
    trust_once: bool = False
    """Whether the folder is trusted for this session."""
    mcp: bool = True
    """Whether it has MCP servers."""
    given_servers: tuple[ServersFile, ...] = ()
    """Servers that an editor passed for this session, in addition to the user's files."""
    mcp_socket: Path | None = None
    """Where a subagent reaches the MCP servers of its session; None if that has none."""
    extensions: Extensions = Extensions()
    """The hooks, skills, roles and commands that apply."""
    role: Role | None = None
    """The role of a subagent; None for the session itself."""

    @property
    def skills(self) -> SkillPlace:
        """Where the skills are."""
        return SkillPlace(self.extensions, Path(self.extensions.folder))

    @property
    def hook_scripts(self) -> tuple[Path, ...]:
        """The project's files that hooks run."""
        return tuple(Path(self.extensions.folder, name) for name in self.extensions.scripts)


class SubagentOptions(Struct, frozen=True, kw_only=True):
    """What a subagent inherits from its session."""

    session: SessionOptions
    account: str
    """Pays for its requests."""

    def to_json(self) -> str:
        """Return JSON for `read_subagent_options`; plain ASCII, as folder names need not be valid Unicode."""
        # It starts no subagents and gets no commands.
        extensions = msgspec.structs.replace(self.session.extensions, roles=(), commands=())
        session = msgspec.structs.replace(self.session, extensions=extensions)
        return json.dumps(msgspec.to_builtins(msgspec.structs.replace(self, session=session), enc_hook=str))


def read_subagent_options(text: str) -> SubagentOptions:
    """Return what `SubagentOptions.to_json` wrote."""
    return msgspec.convert(json.loads(text), SubagentOptions, dec_hook=lambda kind, value: kind(value))
