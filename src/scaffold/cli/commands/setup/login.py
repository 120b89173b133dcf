"""`ralph login`, `logout`, `whoami`: the user's login with a subscription."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.exit_codes import FAILED, INTERRUPTED, OK
from scaffold.cli.render.login_text import overview_lines, who
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.core.errors import UsageError
from scaffold.host.browser import open_in_background
from scaffold.host.process.async_runner import run_async
from scaffold.host.user_dirs import user_dirs
from scaffold.login.callback import code_of_pasted
from scaffold.login.callback_server import CallbackServer
from scaffold.login.device import DeviceCode
from scaffold.login.keys import LoginKey, LoginKeys
from scaffold.login.provider import AuthorizationRequest, codex_provider, new_request
from scaffold.login.state import NOT_LOGGED_IN, LoginOverview
from scaffold.login.subscription import SubscriptionTokens, connect_login
from scaffold.login.tokens import Tokens
from scaffold.store.user_store import user_database

MAX_PASTES = 5  # then something other than the address is wrong


@click.command()
@click.option("--headless", is_flag=True, help="Open no browser: print the address, and read what you paste.")
@click.option("--device", is_flag=True, help="Open no browser: print a code to enter on another device.")
def login(*, headless: bool, device: bool) -> int:
    """Log in with your ChatGPT subscription, for models such as `codex:gpt-5`.

    A browser opens; it comes back to port 1455 of this machine after you have agreed. The tokens are stored encrypted.
    """
    if headless and device:
        raise UsageError("--headless and --device are two ways to log in", "Give one of them.")
    request = new_request()
    url = codex_provider(os.environ).authorization_url(request)
    try:
        if device:
            return run_async(_log_in(lambda stored: stored.log_in_by_device(_show_code)))
        if headless:
            code = _pasted_code(url, request)
            return run_async(_log_in(lambda stored: stored.log_in(code, request.verifier)))
        return run_async(_log_in_by_browser(url, request))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print_text("interrupted: you are not logged in; repeat `ralph login`", err=True)
        return INTERRUPTED


@click.command()
def logout() -> int:
    """Delete the login from this machine for good, and ask the provider to revoke it."""
    return run_async(_log_out())


@click.command()
@json_option
def whoami(*, as_json: bool) -> int:
    """Show with which subscription you are logged in; exit code 1 if with none. Asks no server."""
    seen = run_async(_read_overview())
    if as_json:
        print_json({"logged_in": seen is not None and not seen.problem, "login": seen})
    elif seen is None:
        print_text(" - ".join(NOT_LOGGED_IN))
    else:
        for line in overview_lines(seen):
            print_text(line)
    return OK if seen is not None and not seen.problem else FAILED


async def _log_in_by_browser(url: str, request: AuthorizationRequest) -> int:
    async with CallbackServer(request) as server:
        if open_in_background(url, os.environ):
            print_text("Opening a browser. If none opens, open this address on this machine:", err=True)
        else:
            print_text("No browser was found. Open this address on this machine:", err=True)
        click.echo(url, err=True)
        print_text("Waiting for your approval there; Ctrl-C cancels. Elsewhere: `ralph login --headless`.", err=True)
        code = await server.code()
    return await _log_in(lambda stored: stored.log_in(code, request.verifier))


def _show_code(code: DeviceCode) -> None:
    print_text("Open this address on any device, and enter the code:", err=True)
    click.echo(f"{code.page}\n{code.user_code}", err=True)
    what = "Enter it only there; anyone who asks you for it wants your account."
    print_text(f"{what} Waiting for your approval there; Ctrl-C cancels.", err=True)


def _pasted_code(url: str, request: AuthorizationRequest) -> str:
    print_text("Open this address in any browser, and approve the login:", err=True)
    click.echo(url, err=True)
    what = "The browser then goes to an address that begins with http://localhost:1455/ and cannot be shown there."
    print_text(f"{what} Paste the whole address here:", err=True)
    for _ in range(MAX_PASTES):
        line = sys.stdin.readline()
        try:
            return code_of_pasted(line, request)
        except UsageError as error:
            # A program that pipes its answer cannot correct it, nor can a user at the end of input.
            if not line or not sys.stdin.isatty():
                raise
            print_text(error.in_full, err=True)
    raise UsageError("none of the pasted addresses answers this login", "Begin again with `ralph login --headless`.")


async def _log_in(ask: Callable[[SubscriptionTokens], Awaitable[tuple[Tokens, LoginKey]]]) -> int:
    async with connect_login() as stored:
        tokens, key = await ask(stored)
    data = user_dirs().data
    keys = LoginKeys(data, os.environ)
    print_text(f"Logged in: {who(tokens.email, tokens.plan)}, account {tokens.account}.")
    print_text(f"The tokens are encrypted in {user_database(data)}, the key: {keys.where(key.place, key.name)}.")
    if key.note:
        print_text(f"The keyring of this system is not used: {key.note}.")
    print_text(f"How safe that is: {keys.worth(key.place)}.")
    print_text("Use it: `ralph --model codex:NAME`; `ralph logout` deletes it.")
    return OK


async def _log_out() -> int:
    async with connect_login() as stored:
        done = await stored.log_out()
    if done is None:
        print_text("You were not logged in.")
        return OK
    print_text(f"Logged out: the tokens of account {done.account} and their key are deleted from this machine.")
    if done.left:
        print_text(done.left, err=True)
    if not done.revoked:
        what = "The provider did not confirm that it revoked them; copies of the tokens, if any, may still work."
        print_text(f"{what} Your account's settings list the sessions that you can end.", err=True)
    return OK


async def _read_overview() -> LoginOverview | None:
    if not user_database(user_dirs().data).exists():
        return None
    stored: SubscriptionTokens
    async with connect_login() as stored:
        return await stored.overview()
