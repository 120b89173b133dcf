"""The network of set-up commands: the package indexes that the user configured, or every host but this machine."""

import base64
import re
import socket
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct, structs

from scaffold.host.leftovers import temporary_prefix
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.sandbox.landlock.sandboxed_command import has_broker
from scaffold.host.sandbox.port_forward import forward_ports
from scaffold.host.sandbox.proxy import ANY_HOST, serve_proxy
from scaffold.host.sandbox.proxy_request import HostPort, OuterProxy
from scaffold.policy.secret.sources import holds_secret

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
DISCARD_PORT = 9
FIRST_FREE_PORT = 1024
RESOLVER = Path("/etc/resolv.conf").resolve()
"""Often a link into `/run`, which a sandbox shows empty."""
PYTHON_HOSTS = (("pypi", "org"), ("files", "pythonhosted", "org"))
_URL = re.compile(r"(?P<scheme>\w[\w+.-]*)://(?:[^\s/@'\"]*@)?(?P<host>\[[\da-fA-F:.]+\]|[\w.-]+)(?::(?P<port>\d+))?")


class PackageIndex(Struct, frozen=True):
    """Where a user configures an index, and which hosts it has otherwise."""

    programs: str
    """Matches the commands of programs that use it."""
    variables: tuple[str, ...]
    """Prefixes of the variables that configure it."""
    files: tuple[str, ...]
    """Files that configure it, relative to the home."""
    chosen: str
    """Matches a setting that takes the place of the default."""
    parts: tuple[tuple[str, ...], ...]
    """The names of these hosts, in parts: no file of ours may read as if it chose an index."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Its hosts without any configuration."""
        return tuple(map(".".join, self.parts))


PACKAGE_INDEXES = (
    PackageIndex(
        r"\b(pip3?|pipenv|poetry|pdm)\b",
        ("PIP_", "PIPENV_", "POETRY_", "PDM_"),
        (
            *(".pip/pip.conf", ".config/pip/pip.conf", "Library/Application Support/pip/pip.conf"),
            *("/etc/pip.conf", "/etc/xdg/pip/pip.conf", ".config/pypoetry/config.toml", ".config/pdm/config.toml"),
        ),
        r"(?im)^(pip_|\s*)(no|index)[-_](index|url)\s*=|^\s*\[?pypi\b|^pipenv_pypi_mirror|^pdm_pypi_url",
        PYTHON_HOSTS,
    ),
    PackageIndex(
        r"\buv\b",
        ("UV_",),
        (".config/uv/uv.toml", "/etc/uv/uv.toml"),
        r"(?im)^(uv_|\s*)(no|index|default)[-_](index|url)\s*=|^\s*default\s*=\s*true",
        PYTHON_HOSTS,
    ),
    PackageIndex(
        r"\b(npm|npx|pnpm|yarn|bun|corepack)\b",
        ("npm_config_", "NPM_CONFIG_", "YARN_", "BUN_CONFIG_", "COREPACK_"),
        (".npmrc", "/etc/npmrc", "/usr/local/etc/npmrc", ".yarnrc", ".yarnrc.yml", ".bunfig.toml", ".config/pnpm/rc"),
        r"(?im)^((npm|bun)_config_|yarn_npm_|\s*)(npm)?registry(server|_server)?['\"]?\s*[=: ]",
        (("registry", "npmjs", "org"), ("registry", "yarnpkg", "com")),
    ),
    PackageIndex(r"\bgo\b", ("GOPROXY",), (".config/go/env",), r"(?m)^GOPROXY=", (("proxy", "golang", "org"),)),
    PackageIndex(r"\bgo\b", ("GOSUMDB",), (".config/go/env",), r"(?m)^GOSUMDB=", (("sum", "golang", "org"),)),
    PackageIndex(
        r"\bcargo\b",
        ("CARGO_",),
        (".cargo/config.toml", ".cargo/config"),
        r"(?m)^\s*replace-with\s*=",
        (("index", "crates", "io"), ("static", "crates", "io"), ("crates", "io")),
    ),
)


class SetupNetwork(Struct, frozen=True, kw_only=True):
    """What set-up commands may connect to."""

    hosts: tuple[str, ...]
    """Hosts of the configured indexes, with ports."""
    settings: tuple[Path, ...] = ()
    """The user's files that configure them."""
    only: bool = False
    """Whether nothing else is reached, or any host but this machine."""

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports of indexes on this machine's loopback."""
        places = (host.rpartition(":") for host in self.hosts)
        return tuple(sorted({int(port) for name, _, port in places if name in LOOPBACK_NAMES}))


def setup_network(
    commands: Sequence[str], environ: Mapping[str, str], home: Path, *, also: tuple[str, ...] | None
) -> SetupNetwork:
    """Return the network of these commands; a command of an unknown program may use each of the indexes.

    Only they and the hosts in `also` are reached, or all but this machine if it is None. A file with a login is hidden
    from commands, so it counts for nothing here either.
    """
    known = all(any(re.search(each.programs, command) for each in PACKAGE_INDEXES) for command in commands)
    hosts, settings = dict[str, None](), dict[Path, None]()
    for index in PACKAGE_INDEXES:
        if known and not any(re.search(index.programs, command) for command in commands):
            continue
        named = (environ.get("PIP_CONFIG_FILE", ""), environ.get("UV_CONFIG_FILE", ""))
        paths = (home / name for name in (*index.files, *filter(None, named)))
        own = [path for path in paths if path.is_file() and not holds_secret(path)]
        lines = (f"{name}={value}" for name, value in environ.items() if name.startswith(index.variables))
        text = "\n".join((*lines, *(path.read_text("utf-8", errors="replace") for path in own)))
        settings |= dict.fromkeys(own)
        hosts |= dict.fromkeys((*hosts_in(text), *(() if re.search(index.chosen, text) else index.hosts)))
    # What manifests name may not lead to this machine: `ports` are those of the user's own settings.
    elsewhere = tuple(host for host in also or () if not _is_here(host))
    return SetupNetwork(hosts=(*hosts, *elsewhere), settings=tuple(settings), only=also is not None)


def hosts_in(text: str) -> Iterable[str]:
    """Yield the host of each URL in a text, with a port unless it is the scheme's own."""
    for found in _URL.finditer(text):
        host, port = found["host"].casefold(), found["port"]
        # A proxy tells a host on loopback by its port alone.
        if host in LOOPBACK_NAMES:
            port = port or ("80" if found["scheme"].endswith("http") else "443")
        yield f"{host}:{port}" if port else host


def _is_here(host: str) -> bool:
    name = host.strip("[]") if host.endswith("]") else host.rpartition(":")[0].strip("[]") or host
    try:
        return not is_elsewhere(name)
    except ValueError:
        return name in LOOPBACK_NAMES


@asynccontextmanager
async def with_setup_network(
    sandbox: SandboxSpec | None, network: SetupNetwork, environ: Mapping[str, str]
) -> AsyncIterator[tuple[SandboxSpec | None, Path | None]]:
    """Yield the sandbox with this network, and the folder of the sockets that lead to indexes on loopback, if any."""
    if sandbox is None:
        yield None, None
        return
    confinement = structs.replace(
        sandbox.confinement,
        network="hosts",
        hosts=network.hosts,
        ports=network.ports,
        readable=(*sandbox.confinement.readable, *network.settings),
    )
    if sandbox.level == "landlock" and not network.only and not has_broker():
        # Nothing can restrict a network here, and without any the user's own packages could not be installed.
        opened = structs.replace(confinement, network="open", readable=(*confinement.readable, RESOLVER))
        yield structs.replace(sandbox, confinement=opened, proxy=None, port=None), None
        return
    folder = None
    async with AsyncExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=temporary_prefix())))
        inside = sandbox.level == "bubblewrap"
        # In a namespace as outside, an ordinary user may not listen on lower ones.
        if inside and (ports := [port for port in network.ports if port >= FIRST_FREE_PORT]):
            folder = (place / "ports").resolve()
            await stack.enter_async_context(forward_ports(folder, ports))
            shown, sockets = (*confinement.readable, folder), (*confinement.sockets, folder)
            confinement = structs.replace(confinement, readable=shown, sockets=sockets)
        proxy, port = await stack.enter_async_context(
            serve_proxy(
                place if inside else None,
                network.hosts if network.only else (*network.hosts, ANY_HOST),
                is_public=is_elsewhere,
                via=lambda destination: outer_proxy(destination, environ),
            )
        )
        yield structs.replace(sandbox, confinement=confinement, proxy=proxy, port=port), folder


def is_elsewhere(text: str) -> bool:
    """Return whether an address is not this machine's."""
    address = ip_address(text)
    address = (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address
    if address.is_loopback or address.is_unspecified or address.is_link_local or address.is_multicast:
        return False
    try:
        with socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Sends nothing. Traffic to an address of this machine would come from that very address.
            probe.connect((str(address), DISCARD_PORT))
            return bool(probe.getsockname()[0] != str(address))
    except OSError:
        return False


def outer_proxy(destination: HostPort, environ: Mapping[str, str]) -> OuterProxy | None:
    """Return the user's own proxy for a destination by the usual variables; None without one."""
    scheme = "http" if destination.port == 80 else "https"
    names = {name: f"{name}_proxy" for name in (scheme, "all", "no")}
    given = {name: environ.get(each) or environ.get(each.upper(), "") for name, each in names.items()}
    direct = [each.strip().lstrip(".").casefold() for each in given["no"].split(",")]
    if any(each and (each in {"*", destination.host} or destination.host.endswith(f".{each}")) for each in direct):
        return None
    text = given[scheme] or given["all"]
    proxy = urlsplit(text if "://" in text else f"http://{text}")
    if proxy.scheme != "http" or not proxy.hostname:
        return None
    login = unquote(proxy.netloc.rpartition("@")[0])
    return OuterProxy(HostPort(proxy.hostname, proxy.port or 80), base64.b64encode(login.encode()).decode())
