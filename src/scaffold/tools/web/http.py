"""Fetch web pages from public addresses only, never from this machine or its local network."""

import asyncio
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.helpers import is_ip_address
from msgspec import Struct
from yarl import URL

from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.process.command_runner import Containment, OutputCapture, run_command
from scaffold.policy.path.containment import Refusal
from scaffold.policy.rule.hosts import AddressFilter, LocalAddress, admitted_addresses, is_public
from scaffold.tools.web import html_text
from scaffold.tools.web.fetch import fetch_tool
from scaffold.tools.workspace import MAX_ANSWER_CHARS, failed_answer

PAGE_BYTES = 2_000_000
MAX_REDIRECTS = 5
TIME_LIMIT_S = 30.0
READ_TIME_S = 5.0
_HEADERS = {"User-Agent": "ralph-scaffold", "Accept": "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.1"}
_REDIRECTS = {301, 302, 303, 307, 308}
_HTML = {"text/html", "application/xhtml+xml"}
_READABLE = ("json", "xml", "javascript", "yaml", "toml", "x-sh", "x-www-form-urlencoded")


class FetchResponse(Struct, frozen=True):
    """A server's response after all redirects; `cut` if `data` is not all of it."""

    status: int
    url: str
    kind: str
    charset: str
    data: bytes
    cut: bool


def web_fetch(*, admits: AddressFilter = is_public, time_limit_s: float = TIME_LIMIT_S) -> Tool:
    """Return the tool that reads a page as text: `STATUS URL (TYPE, BYTES)`, title and text.

    `admits` checks the addresses that are then connected to, at every redirect.
    """

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        """Fetch the page and return its text, within the time limit."""
        try:
            async with asyncio.timeout(time_limit_s):
                answer = await _fetch_page(args["url"], admits)
        except TimeoutError:
            return failed_answer(f"{args['url']} timed out after {time_limit_s:g} s; try another source.")
        except LocalAddress as denied:
            return failed_answer(f"{denied}; web_fetch reads only the public internet (use shell for local servers).")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return failed_answer(
                f"Fetching {args['url']} failed ({str(error) or type(error).__name__}); check the URL."
            )
        if isinstance(answer, Refusal):
            return failed_answer(answer.reason)
        return await _page_output(answer, args.get("max_chars", MAX_ANSWER_CHARS), min(READ_TIME_S, time_limit_s))

    return fetch_tool(work)


class _FilteringResolver(AbstractResolver):
    """Resolves names; raises LocalAddress if any of the addresses is not admitted."""

    def __init__(self, admits: AddressFilter) -> None:
        self._admits = admits

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of `host`; LocalAddress if one is not admitted."""
        return [
            ResolveResult(
                hostname=host, host=address, port=port, family=kind, proto=protocol, flags=socket.AI_NUMERICHOST
            )
            for kind, protocol, address in await admitted_addresses(host, port, admits=self._admits, family=family)
        ]

    async def close(self) -> None:
        """Do nothing: the resolver is stateless."""


async def _fetch_page(text: str, admits: AddressFilter) -> FetchResponse | Refusal:
    url = URL(text)
    # Without a cache or kept connections each request passes the resolver, and with it the check of its address.
    connector = aiohttp.TCPConnector(resolver=_FilteringResolver(admits), use_dns_cache=False, force_close=True)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers=_HEADERS, trust_env=False
    ) as session:
        # Redirects are followed here and not by aiohttp, so that each target is checked like the first URL.
        for _ in range(MAX_REDIRECTS + 1):
            if url.scheme not in {"http", "https"} or not url.host:
                return Refusal(f"{url} is not an http:// or https:// URL; read files with read_file.")
            if url.user is not None or url.password is not None:
                return Refusal(f"The URL of {url.host} contains credentials, which are never sent; remove them.")
            # aiohttp does not ask the resolver about a host that is an address already.
            if is_ip_address(url.host) and not admits(url.host):
                raise LocalAddress(url.host, url.host)
            async with session.get(url, allow_redirects=False) as response:
                target = response.headers.get("Location")
                if response.status not in _REDIRECTS or not target:
                    return await _read_body(response)
                url = url.join(URL(target))
    return Refusal(f"{text} redirects more than {MAX_REDIRECTS} times; try another source.")


async def _read_body(response: aiohttp.ClientResponse) -> FetchResponse:
    data = bytearray()
    async for piece in response.content.iter_chunked(1 << 16):
        data += piece
        if len(data) > PAGE_BYTES:
            break
    return FetchResponse(
        status=response.status,
        url=str(response.url),
        kind=response.content_type,
        charset=response.charset or "utf-8",
        data=bytes(data[:PAGE_BYTES]),
        cut=len(data) > PAGE_BYTES,
    )


async def _page_output(answer: FetchResponse, max_chars: int, read_time_s: float) -> ToolOutput:
    size = f"{len(answer.data)} bytes" + (", the rest was not fetched" if answer.cut else "")
    head = f"{answer.status} {answer.url} ({answer.kind}, {size})"
    if not answer.kind.startswith("text/") and not answer.kind.endswith(_READABLE):
        return failed_answer(f"{head}\nThis is not text; fetch another page, or download it with shell (curl -O).")
    text = await _page_text(answer, read_time_s) if answer.kind in _HTML else _decode_body(answer)
    if isinstance(text, Refusal):
        return failed_answer(f"{head}\n{text.reason}")
    limit = min(max_chars, MAX_ANSWER_CHARS)
    more = f"\n... {len(text) - limit} more characters" if len(text) > limit else ""
    return ToolOutput(f"{head}\n{text[:limit]}{more}", failed=answer.status >= 400)


def _decode_body(answer: FetchResponse) -> str:
    try:
        return answer.data.decode(answer.charset, errors="replace")
    except (LookupError, ValueError):  # an unknown charset, or one without errors="replace"
        return answer.data.decode(errors="replace")


async def _page_text(answer: FetchResponse, read_time_s: float) -> str | Refusal:
    # In a separate process: the standard library's parser can take minutes on malicious pages.
    finished = await run_command(
        [sys.executable, "-I", "-m", html_text.__name__, answer.url],
        cwd=Path("/"),
        env={},
        timeout_s=read_time_s,
        stdin=_decode_body(answer).encode(errors="replace"),
        output=OutputCapture(limit_bytes=8 * PAGE_BYTES),
        containment=Containment(),
    )
    if finished.exit_code != 0 or finished.truncated:
        return Refusal("Its HTML could not be parsed; download it with shell (curl) and read the source.")
    page = msgspec.json.decode(finished.stdout, type=html_text.Page)
    return f"{page.title}\n\n{page.text}".strip("\n")
