"""The coding agents of others that are known by name."""

import shlex
from collections.abc import Mapping
from typing import assert_never

from scaffold.core.errors import UsageError
from scaffold.core.executor_settings import NATIVE, ProgramSpec
from scaffold.executors.acp import AcpProtocol
from scaffold.executors.claude import Claude
from scaffold.executors.codex import CodexProtocol
from scaffold.executors.pi import Pi
from scaffold.executors.port import ProgramProtocol

ACP_PREFIX = "acp:"

_GOOGLE = ("generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com")
_MODEL_PROVIDERS = ("api.anthropic.com", "api.openai.com", "openrouter.ai")
_SETTINGS = ("settings.json:tools.allowed", "settings.json:allowedTools", "settings.json:mcpServers.*.trust")
"""By which Gemini, and Qwen Code that was made from it, ask for less."""

_KNOWN = (
    ProgramSpec(
        name="claude",
        command=("claude",),
        protocol="claude",
        env=("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"),
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        credentials="~/.claude",
        home_variable="CLAUDE_CONFIG_DIR",
        login_file=".credentials.json",
        status=("auth", "status"),
        login="claude auth login",
        hosts=("api.anthropic.com", "platform.claude.com", "console.anthropic.com"),
        minimum="2.1.248",  # older ones run a prompt that begins like a command of theirs
    ),
    ProgramSpec(
        name="codex",
        command=("codex",),
        protocol="codex",
        env=("OPENAI_BASE_URL",),
        keys=("OPENAI_API_KEY", "CODEX_API_KEY"),
        credentials="~/.codex",
        home_variable="CODEX_HOME",
        login_file="auth.json",
        grants=("rules",),
        status=("login", "status"),
        login="codex login",
        hosts=("chatgpt.com", "auth.openai.com", "api.openai.com"),
        minimum="0.171",
    ),
    ProgramSpec(
        name="gemini",
        command=("gemini", "--acp"),
        protocol="acp",
        env=("GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT"),
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        credentials="~/.gemini",
        login_file="oauth_creds.json",
        grants=("policies", *_SETTINGS, "settings.json:policyPaths", "settings.json:adminPolicyPaths"),
        login="gemini",
        hosts=_GOOGLE,
        minimum="0.61",
        edit_mode="default",
        read_mode="plan",
        titles_commands=True,
    ),
    ProgramSpec(
        name="copilot",
        command=("copilot", "--acp"),
        protocol="acp",
        env=("COPILOT_PROVIDER_BASE_URL", "COPILOT_MODEL", "COPILOT_OFFLINE"),
        keys=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"),
        credentials="~/.copilot",
        home_variable="COPILOT_HOME",
        grants=("permissions-config.json",),
        login="copilot login",
        hosts=("api.github.com", "github.com", "*.githubcopilot.com"),
        minimum="1.0",
        edit_mode="https://agentclientprotocol.com/protocol/session-modes#agent",
        read_mode="https://agentclientprotocol.com/protocol/session-modes#plan",
    ),
    ProgramSpec(
        name="opencode",
        command=("opencode", "acp"),
        protocol="acp",
        variables={
            # As it starts, it allows whatever it does.
            "OPENCODE_PERMISSION": '{"edit":"ask","bash":"ask","webfetch":"ask","external_directory":"ask"}',
            # It ends at once if it cannot write there; each turn has a /tmp of its own.
            "XDG_CONFIG_HOME": "/tmp/config",  # noqa: S108
            "XDG_STATE_HOME": "/tmp/state",  # noqa: S108
        },
        keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
        credentials="~/.local/share/opencode",
        login_file="auth.json",
        login="opencode auth login",
        hosts=("opencode.ai", "models.dev", *_MODEL_PROVIDERS),
        minimum="1.18",
        edit_mode="build",
        read_mode="plan",
    ),
    ProgramSpec(
        name="qwen",
        command=("qwen", "--acp"),
        protocol="acp",
        env=("OPENAI_BASE_URL", "OPENAI_MODEL"),
        keys=("OPENAI_API_KEY", "DASHSCOPE_API_KEY"),
        credentials="~/.qwen",
        login_file="oauth_creds.json",
        grants=(*_SETTINGS, "settings.json:permissions.allow", "settings.json:tools.autoAccept"),
        login="qwen",
        hosts=("chat.qwen.ai", "portal.qwen.ai", "dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"),
        minimum="0.24",
        edit_mode="default",
        read_mode="plan",
    ),
    ProgramSpec(
        name="pi",
        command=("pi",),
        protocol="pi",
        keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
        credentials="~/.pi/agent",
        home_variable="PI_CODING_AGENT_DIR",
        login_file="auth.json",
        login="pi",
        hosts=_MODEL_PROVIDERS,
        minimum="1.6",
    ),
)
known_programs: Mapping[str, ProgramSpec] = {each.name: each for each in _KNOWN}


def find_program(name: str, configured: Mapping[str, ProgramSpec]) -> ProgramSpec:
    """Return the program of this name; `configured` ones come first.

    Raises UsageError if there is none, as for `native`, which is no program.
    """
    if (found := configured.get(name) or known_programs.get(name)) is not None:
        return found
    if name.startswith(ACP_PREFIX):
        try:
            command = tuple(shlex.split(name.removeprefix(ACP_PREFIX)))
        except ValueError:
            command = ()
        if command:
            return ProgramSpec(name=name, command=command, protocol="acp")
    names = ", ".join((*dict.fromkeys((*known_programs, *configured)), f"{ACP_PREFIX}CMD"))
    if name == NATIVE:
        raise UsageError(f"`{NATIVE}` are our own agents, and no program of others", f"Programs are: {names}.")
    raise UsageError(f"there is no executor `{name}`", f"Executors are: {NATIVE}, {names}.")


def asks_questions(spec: ProgramSpec) -> bool:
    """Return whether its protocol has questions for a permission; if not, nothing but the sandbox stops it."""
    return spec.protocol != "pi"


def takes_tools(spec: ProgramSpec) -> bool:
    """Return whether it can be given an MCP server for a turn; pi has those of its own files alone."""
    return spec.protocol != "pi"


def protocol_of(spec: ProgramSpec) -> ProgramProtocol:
    """Return a new speaker of the program's protocol, for one turn."""
    match spec.protocol:
        case "claude":
            return Claude()
        case "pi":
            return Pi()
        case "codex":
            return CodexProtocol()
        case "acp":
            return AcpProtocol(spec.edit_mode, spec.read_mode, titles_commands=spec.titles_commands)
        case never:
            assert_never(never)
