"""Reading pages of the web, and nothing that only this machine or its network can reach."""

import asyncio
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec import Struct
from yarl import URL

from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.process import run
from scaffold.policy.addresses import is_public
from scaffold.policy.paths import Refusal
from scaffold.tools import page
from scaffold.tools.fetch import fetch_tool
from scaffold.tools.workspace import ANSWER_LIMIT, failed

PAGE_BYTES = 2_000_000
MOST_REDIRECTS = 5
TIME_LIMIT_S = 30.0
READ_TIME_S = 5.0
_HEADERS = {"User-Agent": "ralph-scaffold", "Accept": "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.1"}
_REDIRECTS = {301, 302, 303, 307, 308}
_HTML = {"text/html", "application/xhtml+xml"}
_READABLE = ("json", "xml", "javascript", "yaml", "toml", "x-sh", "x-www-form-urlencoded")

Admits = Callable[[str], bool]


class Answer(Struct, frozen=True):
    """What a server sent, at the end of all redirects; `cut` if there was more."""

    status: int
    url: str
    kind: str
    charset: str
    data: bytes
    cut: bool


def web_fetch(*, admits: Admits = is_public, time_limit_s: float = TIME_LIMIT_S) -> Tool:
    """Return the tool that reads a page as text: `STATUS URL (TYPE, BYTES)`, its title, and what it says.

    `admits` tells of an address, as text, whether it may be connected to: the one in the URL or those its name stands
    for, at every redirect. It is asked of just the addresses that are then used, so no second look-up can differ.
    """

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        """Fetch the page and return its words, within the time limit."""
        try:
            async with asyncio.timeout(time_limit_s):
                answer = await _fetched(args["url"], admits)
        except TimeoutError:
            return failed(f"{args['url']} did not answer in full within {time_limit_s:g} s; try another source.")
        except _Forbidden as forbidden:
            return failed(forbidden.reason)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return failed(f"{args['url']} cannot be fetched ({str(error) or type(error).__name__}); check the URL.")
        if isinstance(answer, Refusal):
            return failed(answer.reason)
        return await _told(answer, args.get("max_chars", ANSWER_LIMIT), min(READ_TIME_S, time_limit_s))

    return fetch_tool(work)


class _Forbidden(Exception):
    """An address that may not be connected to; told to the model."""

    def __init__(self, host: str, address: str) -> None:
        at = host if host == address else f"{host} ({address})"
        self.reason = (
            f"{at} is not on the open internet; only public addresses may be fetched (use shell for your own)."
        )
        super().__init__(self.reason)


class _Resolver(AbstractResolver):
    """Looks names up and lets only addresses through that are admitted, all of them or none."""

    def __init__(self, admits: Admits) -> None:
        self._admits = admits

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of `host`, all of them admitted; _Forbidden if one is not."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        addresses = [(kind, protocol, str(place[0])) for kind, _, protocol, _, place in found]
        for _, _, address in addresses:
            if not self._admits(address):
                raise _Forbidden(host, address)
        return [
            ResolveResult(
                hostname=host, host=address, port=port, family=kind, proto=protocol, flags=socket.AI_NUMERICHOST
            )
            for kind, protocol, address in addresses
        ]

    async def close(self) -> None:
        """Nothing is kept."""


async def _fetched(text: str, admits: Admits) -> Answer | Refusal:
    url = URL(text)
    connector = aiohttp.TCPConnector(resolver=_Resolver(admits), use_dns_cache=False, force_close=True)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers=_HEADERS, trust_env=False
    ) as session:
        for _ in range(MOST_REDIRECTS + 1):
            if problem := _unfit(url):
                return problem
            if url.host and _is_address(url.host) and not admits(url.host):
                raise _Forbidden(url.host, url.host)
            async with session.get(url, allow_redirects=False) as response:
                target = response.headers.get("Location")
                if response.status not in _REDIRECTS or not target:
                    return await _read(response)
                url = url.join(URL(target))
    return Refusal(f"{text} redirects more than {MOST_REDIRECTS} times; try another source.")


def _unfit(url: URL) -> Refusal | None:
    if url.scheme not in {"http", "https"} or not url.host:
        return Refusal(f"{url} is no http:// or https:// address; read files with read_file.")
    if url.user is not None or url.password is not None:
        return Refusal(f"The address of {url.host} has a login in it; none is ever sent. Leave it out.")
    return None


def _is_address(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except OSError:
        return False
    return True


async def _read(response: aiohttp.ClientResponse) -> Answer:
    data = bytearray()
    async for piece in response.content.iter_chunked(1 << 16):
        data += piece
        if len(data) > PAGE_BYTES:
            break
    return Answer(
        status=response.status,
        url=str(response.url),
        kind=response.content_type,
        charset=response.charset or "utf-8",
        data=bytes(data[:PAGE_BYTES]),
        cut=len(data) > PAGE_BYTES,
    )


async def _told(answer: Answer, max_chars: int, read_time_s: float) -> ToolOutput:
    size = f"{len(answer.data)} bytes" + (", the rest was not fetched" if answer.cut else "")
    head = f"{answer.status} {answer.url} ({answer.kind}, {size})"
    if not answer.kind.startswith("text/") and not answer.kind.endswith(_READABLE):
        return failed(f"{head}\nThat is no text; fetch another page, or load it with shell (curl -O).")
    text = await _seen(answer, read_time_s) if answer.kind in _HTML else _decoded(answer)
    if isinstance(text, Refusal):
        return failed(f"{head}\n{text.reason}")
    limit = min(max_chars, ANSWER_LIMIT)
    more = f"\n... {len(text) - limit} more characters" if len(text) > limit else ""
    return ToolOutput(f"{head}\n{text[:limit]}{more}", failed=answer.status >= 400)


def _decoded(answer: Answer) -> str:
    try:
        return answer.data.decode(answer.charset, errors="replace")
    except (LookupError, ValueError):  # no charset there is, or one that cannot be read leniently
        return answer.data.decode(errors="replace")


async def _seen(answer: Answer, read_time_s: float) -> str | Refusal:
    """Return title and text of a page, read in a process of its own."""
    finished = await run(
        [sys.executable, "-I", "-m", page.__name__, answer.url],
        cwd=Path("/"),
        env={},
        timeout_s=read_time_s,
        stdin=_decoded(answer).encode(errors="replace"),
        limit_bytes=8 * PAGE_BYTES,
        leash=True,
    )
    if finished.exit_code != 0 or finished.truncated:
        return Refusal("Its HTML cannot be read as text; load it with shell (curl) and look at the source.")
    seen = msgspec.json.decode(finished.stdout, type=page.Page)
    return f"{seen.title}\n\n{seen.text}".strip("\n")
