"""Send notifications by a channel: a desktop, a bell, ntfy, a webhook, a command."""

import asyncio
import shutil
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from scaffold.core.errors import ModelError
from scaffold.core.printable_text import count_of, printable, truncate_text
from scaffold.host.child_environment import child_environment, path_outside
from scaffold.host.process.command_runner import Containment, OutputCapture, run_command
from scaffold.host.tcp_ports import served_address
from scaffold.host.user_dirs import user_dirs
from scaffold.llm.transport.http_client import Transport
from scaffold.llm.transport.live_context import Deadlines, HttpRequest
from scaffold.plan.notification import Channel, Notification, NotificationEvent
from scaffold.store.user.notification_outbox import QueuedNotification

TIMEOUT_S = 10.0
"""Timeout of a command, after which it is killed with its children, and of a request."""
SHELL = "/bin/sh"
TERMINAL = Path("/dev/tty")
DESKTOP_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "SCAFFOLD_HOME")
ERROR_CHARS = 300
"""Characters of a failed command's output that are kept."""
TEXT_CHARS = 500
"""Characters of one notification by a desktop or ntfy, whose messages have at most 4,096 bytes."""
MOST_SHOWN = 5
"""Notifications that one message shows; of further ones it says how many there are."""
TITLES: Mapping[NotificationEvent, str] = {
    "inbox": "something waits for you",
    "done": "a run is done",
    "failed": "a run failed",
    "budget": "a budget is low",
}
NTFY_TAGS: Mapping[NotificationEvent, str] = {
    "inbox": "raised_hand",
    "done": "white_check_mark",
    "failed": "x",
    "budget": "moneybag",
}
NTFY_PRIORITIES: Mapping[NotificationEvent, str] = {"inbox": "high", "failed": "high"}
APPLESCRIPT = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")


class Failure(Struct, frozen=True):
    """Why a channel delivered nothing, and whether it may work later."""

    why: str
    passing: bool


async def send_by(
    channel: Channel, batch: Sequence[QueuedNotification], environ: Mapping[str, str], *, timeout_s: float = TIMEOUT_S
) -> Failure | None:
    """Send notifications in one message, with a command one by one; None if they were delivered."""
    match channel.kind:
        case "bell":
            with suppress(OSError):  # a process in the background has no terminal
                await asyncio.to_thread(TERMINAL.write_bytes, b"\a")
            return None
        case "desktop":
            return await _show_on_desktop(batch, environ, timeout_s)
        case "command":
            for each in batch:
                if failed := await _run_command(channel.target, each, environ, timeout_s):
                    return failed
            return None
        case "ntfy" | "webhook":
            return await _post(channel, batch, environ, timeout_s)


def link_of(told: Notification) -> str:
    """Return the way to what a notification is about: a page of the user's running server, or else a command.

    Neither changes anything: who decides does it there, or at the terminal.
    """
    if (address := served_address(user_dirs().data)) is not None:
        return f"{address}/inbox/{told.item}" if told.item else f"{address}/runs/{told.run}"
    if told.item:
        return f"scaffold inbox {told.item}"
    return f"scaffold {'review' if told.event == 'done' else 'status'} {told.run}"


def desktop_program(environ: Mapping[str, str], root: Path) -> str | None:
    """Return the program that shows notifications on this machine's desktop; None if there is none."""
    name = "osascript" if sys.platform == "darwin" else "notify-send"
    return shutil.which(name, path=path_outside(environ, root))


async def _show_on_desktop(
    batch: Sequence[QueuedNotification], environ: Mapping[str, str], timeout_s: float
) -> Failure | None:
    root = _folder_of(batch[0].body)
    program = desktop_program(environ, root)
    if program is None:
        return Failure("there is no `notify-send` on this machine: install libnotify", passing=False)
    title, text = _message(batch)
    if sys.platform == "darwin":
        argv = [program, *(word for line in APPLESCRIPT for word in ("-e", line)), title, text]
    else:
        # Desktops read tags in the text.
        shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        argv = [program, "--app-name=scaffold", "--", title, shown]
    return await _run_program(argv, root, child_environment(environ, {}, names={*DESKTOP_VARIABLES}), b"", timeout_s)


async def _run_command(
    line: str, queued: QueuedNotification, environ: Mapping[str, str], timeout_s: float
) -> Failure | None:
    told, root = queued.body, _folder_of(queued.body)
    link = link_of(told)
    # Desktop and Scaffold variables; API keys only if configured.
    given = {"SCAFFOLD_EVENT": told.event, "SCAFFOLD_RUN": told.run, "SCAFFOLD_LINK": link}
    given["PATH"] = path_outside(environ, root)
    env = child_environment(environ, given, names={*DESKTOP_VARIABLES, *queued.variables})
    document = msgspec.json.encode({**msgspec.to_builtins(told), "link": link})
    return await _run_program([SHELL, "-c", line], root, env, document, timeout_s)


async def _run_program(
    argv: Sequence[str], folder: Path, env: Mapping[str, str], stdin: bytes, timeout_s: float
) -> Failure | None:
    output = OutputCapture(limit_bytes=10_000)
    try:
        ended = await run_command(
            argv, cwd=folder, env=env, timeout_s=timeout_s, stdin=stdin, output=output, containment=Containment()
        )
    except OSError as error:
        return Failure(str(error), passing=False)
    if ended.timed_out:
        return Failure(f"it timed out after {timeout_s:g} s", passing=False)
    if ended.exit_code == 0:
        return None
    how = f"exit code {ended.exit_code}" if ended.signal is None else f"signal {ended.signal}"
    said = (ended.stderr or ended.stdout).decode(errors="replace").strip()[:ERROR_CHARS]
    return Failure(f"{how}{': ' if said else ''}{said}", passing=False)


async def _post(
    channel: Channel, batch: Sequence[QueuedNotification], environ: Mapping[str, str], timeout_s: float
) -> Failure | None:
    parts = urlsplit(channel.target)
    headers, body = _ntfy_request(batch) if channel.kind == "ntfy" else _webhook_request(batch)
    login, found, _ = parts.netloc.rpartition("@")
    if found:
        headers["Authorization"] = f"Basic {b64encode(unquote(login).encode()).decode()}"
    url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    limits = Deadlines(connect_s=timeout_s, idle_s=timeout_s, total_s=timeout_s)
    request = HttpRequest(url=url, headers=headers, body=body, deadlines=limits)
    try:
        async with Transport(environ) as client, client.post(request) as answer:
            status = answer.status
    except ModelError as error:
        # Who reads the address of a topic can read what is sent there.
        without_query = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
        return Failure(error.what.replace(without_query, str(parts.hostname)), passing=error.transient)
    if status < 300:
        return None
    return Failure(f"{parts.hostname} answered with HTTP {status}", passing=status == 429 or status >= 500)


def _ntfy_request(batch: Sequence[QueuedNotification]) -> tuple[dict[str, str], bytes]:
    # https://docs.ntfy.sh/publish/: the text is the body, all else are headers, which are ASCII.
    title, text = _message(batch)
    event = batch[0].body.event
    headers = {"Title": title, "Tags": NTFY_TAGS[event], "Priority": NTFY_PRIORITIES.get(event, "default")}
    link = link_of(batch[0].body)
    if len(batch) == 1 and link.startswith("http"):
        headers["Click"] = link
    return headers, text.encode(errors="replace")


def _webhook_request(batch: Sequence[QueuedNotification]) -> tuple[dict[str, str], bytes]:
    title, text = _message(batch)
    told = [{**msgspec.to_builtins(each.body), "link": link_of(each.body)} for each in batch]
    body = msgspec.json.encode({"text": f"{title}\n{text}", "notifications": told})
    return {"Content-Type": "application/json"}, body


def _message(batch: Sequence[QueuedNotification]) -> tuple[str, str]:
    what = TITLES[batch[0].body.event] if len(batch) == 1 else count_of(len(batch), "notification")
    lines = list[str]()
    for each in batch[:MOST_SHOWN]:
        told = each.body
        place = f"{Path(told.repository).name}: " if told.repository else ""
        lines += [printable(f"{place}{truncate_text(told.text, TEXT_CHARS)}"), link_of(told)]
    more = [f"and {len(batch) - MOST_SHOWN} more: scaffold inbox --everywhere"] if len(batch) > MOST_SHOWN else []
    return f"scaffold: {what}", "\n".join([*lines, *more])


def _folder_of(told: Notification) -> Path:
    folder = Path(told.repository) if told.repository else Path.home()
    return folder if folder.is_dir() else Path.home()
