"""Start the subagents of a session, as processes with the hidden command `subagent`; their prompts and models."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from scaffold.agent.instruction_files import find_instructions
from scaffold.agent.messages.envelope_text import escape_controls
from scaffold.agent.prompts import session_prompt
from scaffold.agent.skills import skills_section
from scaffold.agent.subagents.process_pool import SubagentSpec
from scaffold.config.settings import resolve_model_name
from scaffold.core.errors import UsageError
from scaffold.core.extension_set import Role
from scaffold.host.process.child import ChildProcess, start_child
from scaffold.policy.permission.approval_gate import ApprovalDelegate
from scaffold.policy.secret.command_environment import command_environment, kept_for_commands
from scaffold.session.options import SessionOptions
from scaffold.store.user.subagents import StoredSubagent

DIRECTORY_VARIABLES = ("SCAFFOLD_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
PROVIDER_VARIABLES = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "LOCAL_API_KEY"),
    *("CODEX_ACCESS_TOKEN", "CODEX_ACCOUNT_ID", "CODEX_BASE_URL", "CODEX_AUTH_URL", "SCAFFOLD_LOGIN_PASSPHRASE"),
)
TAIL_BYTES = 2_000
TAIL_LINES = 3


class ParentLink(Struct, frozen=True, kw_only=True):
    """Connects a subagent's session to its parent."""

    name: str
    """The name of the subagent in its requests: `sub-1`."""
    account: str
    """Pays for its requests."""
    ask_parent: ApprovalDelegate
    """Lets the parent decide what would be asked."""


class SubagentLauncher:
    """Starts the subagents of one session; a `SubagentStarter`."""

    def __init__(
        self,
        spec: Callable[[str | None, Role | None], SubagentSpec],
        *,
        logs: Path,
        environ: Mapping[str, str],
        names: Iterable[str] = (),
    ) -> None:
        """Start them with `spec`, logging to the private folder `logs`; commands also get the variables `names`."""
        self.spec = spec
        self._logs = logs
        self._environ = environ
        self._names = tuple(names)

    async def start(self, subagent: StoredSubagent) -> ChildProcess:
        """Start its process; its output goes to a log file."""
        # -P: modules in the working directory must not shadow ours
        return await start_child(
            [sys.executable, "-P", "-m", "scaffold", "subagent", subagent.id],
            cwd=Path.cwd(),
            env=subagent_environment(self._environ, self._names),
            log=self._log_path(subagent),
        )

    def take_log_tail(self, subagent: StoredSubagent) -> str:
        """Return the last lines of its log as one line, and delete the log."""
        log = self._log_path(subagent)
        with suppress(OSError):
            end = log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
            log.unlink()
            lines = [line.strip() for line in escape_controls(end).splitlines() if line.strip()]
            return " ".join(lines[-TAIL_LINES:])
        return ""

    def _log_path(self, subagent: StoredSubagent) -> Path:
        return self._logs / f"{subagent.parent}-{subagent.name}.log"


def subagent_environment(environ: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment of a subagent's process: what commands get, plus the variables for data and models."""
    own = {name: environ[name] for name in (*DIRECTORY_VARIABLES, *PROVIDER_VARIABLES) if name in environ}
    return kept_for_commands(command_environment(environ, own, names=names))


def system_prompts(options: SessionOptions, tell: Callable[[str], object]) -> tuple[str, str]:
    """Return the system prompt of a session: its base, its skills, its role, and the instructions of the project.

    The second one is for a small model.
    """
    role = options.role
    own = f"# Your role: {role.name}\n\n{role.prompt}" if role else ""
    more = "\n\n".join(filter(None, (skills_section(options.extensions.skills), own)))
    instructions = find_instructions(options.cwd, home=options.home)
    for each in instructions:
        if each.notice:
            tell(each.notice)
    long, short = (
        session_prompt(instructions, own=options.system_prompt, more=more, short=short) for short in (False, True)
    )
    return long, short


def model_of_role(role: Role | None, cwd: Path, tell: Callable[[str], object]) -> str | None:
    """Return the model string of a role; None for the session's own, also if the role's size has no model."""
    if role is None or not role.model:
        return None
    try:
        return resolve_model_name(role.model, os.environ, cwd)
    except UsageError as error:
        tell(f"the role {role.name} works with this session's model: {error.what}")
        return None
