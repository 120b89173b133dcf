"""Listen, print the link, and serve until a signal ends it."""

import logging
import re
import signal
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from msgspec import Struct

from scaffold.core.errors import UsageError
from scaffold.host.tcp_ports import announced_address
from scaffold.host.user_dirs import UserDirs
from scaffold.orchestrator.user_control.own_program import OwnProgram
from scaffold.web.browser_access import Access, read_password
from scaffold.web.deciding import Steering
from scaffold.web.page_routes import WebParts, web_app
from scaffold.web.request_guard import ServedAt
from scaffold.web.user_runs import UserRuns

LOOPBACK = "127.0.0.1"
GRACE_S = 1
"""What an answer under way has to end; streams end at once."""
DEFAULT_PORTS: Mapping[str, int] = {"http": 80, "https": 443}
ALL_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
PROXY_NAME = re.compile(r"([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?", re.IGNORECASE)


class ServeWish(Struct, frozen=True, kw_only=True):
    """How to serve."""

    port: int = 0
    """0: any that is free."""
    bind: str = LOOPBACK
    read_only: bool = False
    certificate: tuple[Path, Path] | None = None
    """The files of a TLS certificate and its key."""
    proxy: str | None = None
    """The name under which a proxy with TLS serves this server, with its port unless that is 443."""


async def serve_pages(
    wish: ServeWish,
    cwd: Path,
    program: Sequence[str],
    dirs: UserDirs,
    environ: Mapping[str, str],
    tell: Callable[[str], None],
) -> None:
    """Serve the user's runs until a signal; `tell` gets the link that opens the first session.

    Raises UsageError if the address cannot be used, or may not be: others could reach it unprotected.
    """
    access = Access(may_act=not wish.read_only, password=read_password(dirs.config))
    require_protection(wish, has_password=access.password is not None)
    _require_usable_names(wish)
    listening = _open_socket(wish.bind, wish.port)
    served_at = served_names(wish, listening.getsockname()[1])
    runs = UserRuns(cwd, environ)
    logging.getLogger("uvicorn").addHandler(logging.NullHandler())
    async with OwnProgram(cwd, program) as own:
        app = web_app(WebParts(runs, Steering(runs, own), access, served_at, lambda: server.should_exit))
        files = [str(each) for each in wish.certificate or ()]
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,  # it would have the token of the link
            lifespan="off",
            timeout_graceful_shutdown=GRACE_S,
            server_header=False,
            proxy_headers=False,  # whoever connects could claim to be somebody else
            ssl_certfile=files[0] if files else None,
            ssl_keyfile=files[1] if files else None,
        )
        server = uvicorn.Server(config)
        [host, *_] = sorted(served_at.hosts)

        def end(*_signal: object) -> None:
            server.should_exit = True

        # Else the server ends, and then dies of the signal: its address stays behind, and a command half done.
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:  # `nohup` makes a program ignore SIGHUP
                signal.signal(number, end)
        with announced_address(dirs.data, f"{served_at.scheme}://{host}"):
            tell(f"{served_at.scheme}://{host}/?token={access.new_link(may_act=True)}")
            await server.serve(sockets=[listening])


def require_protection(wish: ServeWish, *, has_password: bool) -> None:
    """Raise UsageError if others could reach the server and nothing would keep them from reading or acting."""
    try:
        is_own = ip_address(wish.bind).is_loopback
    except ValueError:
        raise UsageError(f"`{wish.bind}` is not an IP address", "Pass one of this machine, such as 0.0.0.0.") from None
    if is_own and wish.proxy is None:
        return
    if wish.certificate is None and wish.proxy is None:
        fix = "Pass --cert and --key, or with --proxy the name of the TLS proxy in front of it."
        raise UsageError(f"{wish.bind} can be reached by others, without TLS", fix)
    if not has_password:
        raise UsageError(
            "others can reach this server, and it has no password", "Set one: `scaffold serve --set-password`."
        )


def _require_usable_names(wish: ServeWish) -> None:
    """Raise UsageError, before a link is printed, for a certificate that cannot be used or a proxy that is no name."""
    if wish.proxy is not None and not PROXY_NAME.fullmatch(wish.proxy):
        raise UsageError(f"`{wish.proxy}` is not the name of a proxy", "Pass it as NAME or NAME:PORT.")
    if wish.certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*wish.certificate)
    except OSError as error:  # ssl.SSLError, too
        what = f"the certificate {wish.certificate[0]} with this key cannot be used: {error.strerror or error}"
        raise UsageError(what, "Pass two PEM files that belong together.") from error


def served_names(wish: ServeWish, port: int) -> ServedAt:
    """Return the names under which the server answers on `port`."""
    scheme = "https" if wish.certificate or wish.proxy else "http"
    own, to_all = ip_address(wish.bind), wish.bind in ALL_ADDRESSES
    if wish.proxy is not None:
        hosts = {wish.proxy.removesuffix(":443")}
    else:
        loopback = LOOPBACK if own.version == 4 else "::1"
        # Only names that lead to this socket: the first of them is in the link.
        names = {loopback if to_all else str(own)}
        names |= {"localhost"} if loopback in names else set()
        names |= set() if own.is_loopback else {socket.gethostname(), socket.getfqdn()}
        shown = [f"[{name}]" if ":" in name else name for name in names]
        hosts = {name if port == DEFAULT_PORTS[scheme] else f"{name}:{port}" for name in shown}
    answers = to_all and wish.proxy is None
    return ServedAt(frozenset(host.lower() for host in hosts), scheme, f"scaffold_{port}", by_address=answers)


def _open_socket(bind: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ip_address(bind).version == 6 else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    # A restarted server may use the port of the one before at once.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((bind, port))
        listening.listen()  # before the link is printed: early connections wait
    except OSError as error:
        listening.close()
        what = f"{bind} port {port} cannot be used: {(error.strerror or str(error)).lower()}"
        raise UsageError(what, "Pass another --port, or 0 for any that is free.") from error
    return listening
