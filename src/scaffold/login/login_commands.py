"""What `/mcp login` and `/mcp logout` do: with one server of a pool, which is started again afterwards."""

import asyncio
from collections.abc import Callable, Mapping

from scaffold.core.errors import ScaffoldError, UsageError
from scaffold.extensions.mcp.pool import LocalPool
from scaffold.extensions.mcp.server_config import MissingVariable, ServerConfig, expanded
from scaffold.login.names import no_login_here
from scaffold.login.server_logins import ServerLogins, require_login, show_page

Tell = Callable[[str], object]


class LoginCommands:
    """The logins that the user begins and ends in this process."""

    def __init__(self, pool: LocalPool, logins: ServerLogins, environ: Mapping[str, str], tell: Tell) -> None:
        """`tell` receives the result of a login in the background."""
        self._tell = tell
        self._pool = pool
        self._logins = logins
        self._environ = environ
        self._open: dict[str, asyncio.Task[str]] = {}

    async def log_in(self, server: str, tell: Tell | None = None) -> str:
        """Let the user log in, and return how that went, or, without `tell`, what to do on the page."""
        config = self._config(server)
        if (earlier := self._open.pop(server, None)) is not None:
            earlier.cancel()
            await asyncio.wait([earlier])  # it may have the port
        if tell is not None:
            return await self._log_in(config, tell)
        lines: list[str] = []
        shown = asyncio.Event()

        def show(line: str) -> None:
            lines.append(line)
            shown.set()

        task = self._open[server] = asyncio.create_task(self._log_in(config, show))
        seen = asyncio.create_task(shown.wait())
        await asyncio.wait((task, seen), return_when=asyncio.FIRST_COMPLETED)
        seen.cancel()
        if not shown.is_set():
            return await task
        task.add_done_callback(lambda done: self._tell_end(server, done))
        return "\n".join((*lines, "A line says when you are logged in."))

    async def log_out(self, server: str) -> str:
        """Delete the login for good, after asking the server to revoke it."""
        done = await self._logins.log_out(self._config(server))
        if done is None:
            return f"You were not logged in at {server}."
        await self._pool.restart(server)
        revoked = "" if done.revoked else " The server did not confirm that it revoked them."
        left = f" {done.left}" if done.left else ""
        return f"Logged out at {server}: the tokens and their key are deleted from this machine.{revoked}{left}"

    async def close(self) -> None:
        """End the logins that wait."""
        waiting = list(self._open.values())
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)

    async def _log_in(self, config: ServerConfig, tell: Tell) -> str:
        key = await self._logins.log_in(config, lambda url: show_page(url, tell))
        await self._pool.restart(config.name)
        place = {"keyring": "in the keyring of this system", "passphrase": "derived from your passphrase"}
        where = place.get(key.place, "in a private file of yours (docs/login.md says what that is worth)")
        return f"Logged in at {config.name}. The tokens are stored encrypted; their key is {where}."

    def _tell_end(self, server: str, done: asyncio.Task[str]) -> None:
        self._open.pop(server, None) if self._open.get(server) is done else None
        if done.cancelled():
            return
        match done.exception():
            case None:
                self._tell(done.result())
            case ScaffoldError() as error:
                self._tell(error.in_full)
            case error:
                self._tell(f"The login at {server} failed: {type(error).__name__}")

    def _config(self, server: str) -> ServerConfig:
        found = self._pool.servers.get(server)
        if found is None:
            raise no_login_here(server)
        try:
            config = expanded(found.config, self._environ)
        except MissingVariable as missing:
            raise UsageError(f"MCP server {server}: {missing}", "Set it, and repeat the command.") from missing
        require_login(config)
        return config
