"""How a subagent of `ralph` becomes a process: this program again, as the hidden command `subagent`."""

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from scaffold.agent.crew import Commission
from scaffold.agent.notices import plain
from scaffold.host.child import Child, start
from scaffold.host.environment import child_environment
from scaffold.policy.consent import Refer
from scaffold.store.subagents import Subagent

PLACES = ("SCAFFOLD_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
PROVIDERS = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "LOCAL_API_KEY"),
    *("CODEX_ACCESS_TOKEN", "CODEX_ACCOUNT_ID", "CODEX_BASE_URL"),
)
TAIL_BYTES = 2_000
TAIL_LINES = 3


class Post(Struct, frozen=True, kw_only=True):
    """What makes a session a subagent's."""

    name: str
    """What its requests are known by: `sub-1`."""
    account: str | None
    """Whose money it spends, None without a limit."""
    refer: Refer
    """Has its parent decide what would be asked."""


class Office:
    """Starts the subagents of one session. Implements `agent.crew.Staff`."""

    def __init__(
        self,
        commission: Callable[[str | None], Commission],
        *,
        logs: Path,
        environ: Mapping[str, str],
        names: Iterable[str] = (),
    ) -> None:
        """`commission` is the session's; `logs` is a folder, the user's alone, which need not exist.

        `names` are variables that commands see besides the usual ones.
        """
        self.commission = commission
        self._logs = logs
        self._environ = environ
        self._names = tuple(names)

    async def start(self, subagent: Subagent) -> Child:
        """Start its process, which prints into a log of its own."""
        # -P: what lies in the directory is not to be taken for a module of ours
        return await start(
            [sys.executable, "-P", "-m", "scaffold", "subagent", subagent.id],
            cwd=Path.cwd(),
            env=agent_environment(self._environ, self._names),
            log=self._log(subagent),
        )

    def remains(self, subagent: Subagent) -> str:
        """Return the last lines of its log in one, and remove the log."""
        log = self._log(subagent)
        with suppress(OSError):
            end = log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
            log.unlink()
            lines = [line.strip() for line in plain(end).splitlines() if line.strip()]
            return " ".join(lines[-TAIL_LINES:])
        return ""

    def _log(self, subagent: Subagent) -> Path:
        return self._logs / f"{subagent.parent}-{subagent.name}.log"


def agent_environment(environ: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """Return what an agent's own process may see: what its commands may, and the way to the user's data and models."""
    return child_environment(environ, names=(*PLACES, *PROVIDERS, *names))
