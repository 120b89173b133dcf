"""The servers that a file names, in the form that `.mcp.json` has everywhere; variables are expanded at each start."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from scaffold.core.printable_text import one_line, short_line
from scaffold.core.run_settings import NetworkMode
from scaffold.plan.text.bounded import read_json

Transport = Literal["stdio", "http", "sse"]
MAX_SERVERS = 64
MAX_NAME_CHARS = 32
CALL_TIMEOUT_S = 120.0
START_TIMEOUT_S = 30.0
MAX_TIMEOUT_S = 3_600.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-((?:[^{}]|\{[^{}]*\})*))?\}")
_TRANSPORTS: Mapping[str, Transport] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}


class ClientConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """Us as the authorization server of a server knows us, where it does not let us register ourselves."""

    client_id: str = ""
    client_secret: str = ""
    callback_port: int = 0
    """Where the browser comes back to; 0 for any port."""
    origins: tuple[str, ...] = ()
    """Of the login, where it is on this machine or its network and not at the server's own origin."""

    def __repr__(self) -> str:
        return "ClientConfig()"


class ServerConfig(Struct, frozen=True, kw_only=True):
    """One server as the file has it, before its variables are expanded."""

    name: str
    scope: str
    """Whose file names it: `user`, or the identity of a repository. Servers of two scopes are never the same."""
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    """Variables for the program, in addition to the few that hold no secrets."""
    url: str = ""
    headers: Mapping[str, str] = {}
    oauth: ClientConfig = ClientConfig()
    network: NetworkMode = "none"
    """What a program can reach."""
    hosts: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    """Files and folders that a program may read although commands may not."""
    writes: tuple[str, ...] = ()
    """Folders that a program may write."""
    timeout_s: float = CALL_TIMEOUT_S
    start_timeout_s: float = START_TIMEOUT_S

    @property
    def digest(self) -> str:
        """Return a hash of what the server is: with another program or address, it is another server."""
        parts = (self.transport, self.command, self.args, sorted(self.env.items()), self.url)
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()

    @property
    def takes_login(self) -> bool:
        """Return whether a user may log in at it: at an address, and without a token in its headers."""
        return bool(self.url) and "authorization" not in map(str.lower, self.headers)

    @property
    def shown(self) -> str:
        """Return what is started or called, in one line, with the names of variables instead of their values."""
        return short_line(self.url or " ".join((self.command, *self.args)), 100)


class ServerFile(Struct, frozen=True):
    """The servers of a file, and a line about each entry that cannot be used."""

    servers: tuple[ServerConfig, ...] = ()
    notices: tuple[str, ...] = ()


class MissingVariable(ValueError):
    """A variable is not set, and the file has no default for it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the variable {name} is not set")


class _Entry(Struct):
    type: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    oauth: ClientConfig = ClientConfig()
    disabled: bool = False
    network: NetworkMode = "none"
    hosts: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    timeout_s: float = CALL_TIMEOUT_S
    start_timeout_s: float = START_TIMEOUT_S


def read_servers(content: bytes, *, file: str, scope: str) -> ServerFile:
    """Return the servers in the content of `file`; entries of other programs that we do not know are ignored."""
    try:
        table = read_json(content.decode("utf-8-sig"))
    except ValueError as error:
        return ServerFile(notices=(f"{file} has no servers: it is not JSON ({one_line(str(error))})",))
    named = table.get("mcpServers") if isinstance(table, dict) else None
    if not isinstance(named, dict):
        return ServerFile(notices=(f"{file} has no servers: it has no object `mcpServers`",))
    servers, notices = [], []
    for name, entry in list(named.items())[:MAX_SERVERS]:
        try:
            server = _parse_server(name, entry, scope)
        except ValueError as error:
            notices.append(f"{file}: the server `{short_line(name, MAX_NAME_CHARS)}` cannot be used: {error}")
        else:
            servers += [server] if server is not None else []
    if len(named) > MAX_SERVERS:
        notices.append(f"{file}: {len(named)} servers are too many; those after the {MAX_SERVERS}th are left out")
    return ServerFile(tuple(servers), tuple(notices))


def _parse_server(name: str, given: Any, scope: str) -> ServerConfig | None:
    if len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name):
        raise ValueError(f"its name is not 1 to {MAX_NAME_CHARS} letters, digits and `-`")
    try:
        entry = msgspec.convert(given, _Entry)
    except msgspec.ValidationError as error:
        raise ValueError(one_line(str(error))) from error
    if entry.disabled:
        return None
    kind = _TRANSPORTS.get(entry.type or ("http" if entry.url else "stdio"))
    if kind is None:
        raise ValueError(f"there is no transport `{short_line(entry.type, MAX_NAME_CHARS)}`: stdio, http or sse")
    if kind == "stdio" and not entry.command:
        raise ValueError("it has no `command`")
    if kind != "stdio" and not entry.url:
        raise ValueError("it has no `url`")
    if kind != "stdio" and not entry.url.lower().startswith(("http://", "https://", "${")):
        raise ValueError("its `url` does not begin with http:// or https://")
    if entry.hosts and entry.network != "hosts":
        raise ValueError("`hosts` needs `network` to be `hosts`")
    if not 0 <= entry.oauth.callback_port < 2**16:
        raise ValueError("`callbackPort` is not a valid port")
    return ServerConfig(
        name=name,
        scope=scope,
        transport=kind,
        command=entry.command,
        args=entry.args,
        env=entry.env,
        url=entry.url,
        headers=entry.headers,
        oauth=entry.oauth,
        network=entry.network,
        hosts=entry.hosts,
        reads=entry.reads,
        writes=entry.writes,
        timeout_s=min(max(entry.timeout_s, 1.0), MAX_TIMEOUT_S),
        start_timeout_s=min(max(entry.start_timeout_s, 1.0), MAX_TIMEOUT_S),
    )


def expanded(config: ServerConfig, environ: Mapping[str, str]) -> ServerConfig:
    """Return the server with its variables expanded, once; MissingVariable if one has neither value nor default."""

    def text(given: str) -> str:
        return expand(given, environ)

    def table(given: Mapping[str, str]) -> dict[str, str]:
        return {name: text(value) for name, value in given.items()}

    return msgspec.structs.replace(
        config,
        command=text(config.command),
        args=tuple(map(text, config.args)),
        env=table(config.env),
        url=text(config.url),
        headers=table(config.headers),
        oauth=msgspec.structs.replace(
            config.oauth,
            client_id=text(config.oauth.client_id),
            client_secret=text(config.oauth.client_secret),
            origins=tuple(map(text, config.oauth.origins)),
        ),
        reads=tuple(map(text, config.reads)),
        writes=tuple(map(text, config.writes)),
    )


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Return the text with `${NAME}` and `${NAME:-default}` replaced; an empty variable counts as missing."""

    def value(found: re.Match[str]) -> str:
        if given := environ.get(found[1]):
            return given
        if found[2] is None:
            raise MissingVariable(found[1])
        return found[3]

    return _VARIABLE.sub(value, text)


def merged(files: Mapping[str, ServerFile]) -> ServerFile:
    """Return the servers of all files, by the name of the file; of two with the same name the first one counts."""
    servers: dict[str, ServerConfig] = {}
    notices = [notice for each in files.values() for notice in each.notices]
    for file, server in ((file, server) for file, each in files.items() for server in each.servers):
        if server.name in servers:
            notices.append(f"{file}: the server {server.name} is left out, as another file has one of this name")
        else:
            servers[server.name] = server
    return ServerFile(tuple(servers.values()), tuple(notices))
