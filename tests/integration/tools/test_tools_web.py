import asyncio
import contextlib
import gzip

import pytest
from aiohttp import web

from scaffold.policy.rule.hosts import is_public
from scaffold.tools.web.http import MAX_REDIRECTS, PAGE_BYTES, web_fetch


@pytest.fixture
async def site():
    """A server on the loopback: its port, and the requests it got."""
    asked = []

    async def handle(request):
        asked.append(request.path)
        return await PAGES[request.match_info["page"]](request)

    application = web.Application()
    application.router.add_get("/{page}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    yield runner.addresses[0][1], asked
    await runner.cleanup()


async def html(request):
    return web.Response(text="<title>T</title><p>Hellö <a href='/x'>x</a>", content_type="text/html", charset="latin-1")


async def json(request):
    return web.json_response({"a": 1})


async def picture(request):
    return web.Response(body=b"\x89PNG", content_type="image/png")


async def missing(request):
    raise web.HTTPNotFound(text="not here")


async def around(request):
    raise web.HTTPFound("/around")


async def moved(request):
    raise web.HTTPMovedPermanently("json")


async def inside(request):
    raise web.HTTPFound("http://127.0.0.2:1/secret")


async def to_a_file(request):
    raise web.HTTPFound("file:///etc/passwd")


async def huge(request):
    return web.Response(text="x" * (PAGE_BYTES + 10))


async def bomb(request):
    return web.Response(
        body=gzip.compress(b"0" * 50_000_000), headers={"Content-Encoding": "gzip"}, content_type="text/plain"
    )


async def slow(request):
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.05)
    return response


async def nasty(request):
    return web.Response(text="<a " * 600_000, content_type="text/html")


async def endless(request):
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await response.write(b"x" * 65_536)
    return response


async def odd(request):
    return web.Response(body=b"ok", headers={"Content-Type": "text/plain; charset=no-such"})


PAGES = {
    page.__name__: page
    for page in (html, json, picture, missing, around, moved, inside, to_a_file, huge, bomb, slow, odd, nasty, endless)
}


def only_this(address):
    return address == "127.0.0.1"


@pytest.fixture
def fetch(site):
    """Fetch a page of the site, which is allowed; its name needs a lookup."""

    async def fetch(page, time_limit_s=30, **args):
        return await web_fetch(admits=only_this, time_limit_s=time_limit_s).run(
            {"url": f"http://localhost:{site[0]}/{page}", **args}
        )

    return fetch


async def test_a_page_is_returned_as_text(fetch, site):
    """RA-4."""
    output = await fetch("html")
    at = f"http://localhost:{site[0]}"
    assert output.content.splitlines() == [f"200 {at}/html (text/html, 43 bytes)", "T", "", f"Hellö x ({at}/x)"]
    assert not output.failed


async def test_redirects_are_followed_and_the_final_address_is_reported(fetch, site):
    output = await fetch("moved")
    assert output.content.splitlines() == [
        f"200 http://localhost:{site[0]}/json (application/json, 8 bytes)",
        '{"a": 1}',
    ]


async def test_an_error_or_unsupported_page_is_a_failed_result(fetch):
    """RA-4."""
    pages = {"missing": "not here", "picture": "not text", "inside": "127.0.0.2", "to_a_file": "file:///etc/passwd"}
    outputs = {page: await fetch(page) for page in pages}
    assert {page: (each.failed, pages[page] in each.content) for page, each in outputs.items()} == dict.fromkeys(
        pages, (True, True)
    )
    late = await fetch("slow", time_limit_s=0.3)
    assert (late.failed, "0.3 s" in late.content) == (True, True)


async def test_a_loop_of_redirects_ends(fetch, site):
    output = await fetch("around")
    assert (output.failed, f"{MAX_REDIRECTS} times" in output.content) == (True, True)
    assert len(site[1]) == MAX_REDIRECTS + 1


@pytest.mark.slow
async def test_a_page_that_never_ends_does_not_block(fetch):
    """RA-4: a tool that would never end."""
    alive = 0
    running = asyncio.create_task(fetch("nasty"))
    while not running.done():
        await asyncio.sleep(0.1)
        alive += 1
    output = await running
    assert output.failed
    assert alive > 1, "who blocks is over the first time that this task goes on"


@pytest.mark.parametrize("page", ["huge", "bomb", "endless"])
async def test_a_page_is_read_up_to_the_limit(fetch, page):
    """RA-4."""
    output = await fetch(page, max_chars=10)
    head, text, more = output.content.splitlines()
    assert f"{PAGE_BYTES} bytes, the rest" in head
    assert len(text) == 10
    assert more == f"... {PAGE_BYTES - 10} more characters"


async def test_an_unknown_charset_is_read_as_utf_8(fetch):
    assert (await fetch("odd")).content.endswith("\nok")


async def test_no_local_address_is_contacted_under_any_name(site):
    """RA-4."""
    names = ["localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "2130706433"]
    for host in (*names, "127.1"):
        output = await web_fetch(admits=is_public).run({"url": f"http://{host}:{site[0]}/html"})
        assert (host, output.failed, site[1]) == (host, True, [])


async def test_an_unfetchable_address_is_refused_with_the_reason():
    for url, said in {
        "file:///etc/passwd": "not an http",
        "ftp://example.org": "not an http",
        "example.org": "not an http",
        "http://": "http",
        "http://[::1": "Fetching http",
        "http://user:secret@127.0.0.1/": "credentials",
        "http://nowhere.invalid/": "Fetching http",
        "http://a\0b/": "Fetching http",
        "http://127.0.0.1:99999/": "Fetching http",
    }.items():
        output = await web_fetch(admits=only_this, time_limit_s=5).run({"url": url})
        assert output.failed
        assert said in output.content
        assert "secret" not in output.content
