"""`notify`: a real command gets the events of a run, and never delays it."""

import asyncio
import json
import sys
from contextlib import closing
from datetime import datetime, timedelta

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from scaffold.core.model import InboxItem, ProcessIdentity
from scaffold.core.states import Completed, Failed
from scaffold.host.random_ids import new_id
from scaffold.host.tcp_ports import announced_address
from scaffold.host.user_dirs import user_dirs
from scaffold.orchestrator.owner.run_end import fail_run
from scaffold.orchestrator.owner.watch.notifications import MAX_TRIES, NotificationFeed, notify_until_done, send_outbox
from scaffold.store.user_store import UserStore, user_database
from support.fake_clock import FakeClock
from support.harness import act, goal, poll_until

GONE = ProcessIdentity(2**22 + 7, "long ago", "boot")
TELL = 'cat >> "$HOME/told"; echo " $SCAFFOLD_EVENT $SCAFFOLD_RUN" >> "$HOME/told"'


def with_settings_of(run, **permissions):
    changed = structs.replace(run.settings.permissions, **permissions)
    return structs.replace(run, settings=structs.replace(run.settings, permissions=changed))


class Notified:
    """A run whose events are sent to a command until `end`."""

    @classmethod
    async def begin(cls, harness, run, *notify, timeout_s=10.0, quiet_hours=""):
        made = cls()
        made.harness, made.over, made.left = harness, False, []
        channels = notify[0] if len(notify) == 1 else notify
        made.run = with_settings_of(run, notify=channels, quiet_hours=quiet_hours)
        sending = notify_until_done(
            harness.context, made.run, lambda: made.over, send_later=lambda: made.left.append(1), timeout_s=timeout_s
        )
        made.task = asyncio.create_task(sending)
        await asyncio.sleep(0)
        return made

    async def end(self):
        self.over = True
        await asyncio.wait_for(self.task, 20)

    @property
    def lines(self):
        path = self.harness.repo.parent / "home" / "told"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def warnings(self):
        return [text for text in self.harness.notices(self.run) if "notify" in text]


def ask(harness, run, text):
    item = InboxItem(
        id=new_id(), run_id=run.id, kind="question", text=text, detail={"of": text}, created_at=harness.clock.now()
    )
    with harness.store.transaction():
        return harness.store.inbox.ask(item)


async def test_inbox_items_and_the_end_are_sent_as_json_and_environment(harness):
    run = await harness.own(goal("g", act("a")))
    old = ask(harness, run, "asked before")
    notifier = await Notified.begin(harness, run, TELL)
    item = ask(harness, run, "May I?")
    await poll_until(lambda: notifier.lines)
    with harness.store.transaction():
        harness.store.runs.move(run.id, Completed())
    await notifier.end()
    messages = [(json.loads(line.rpartition("}")[0] + "}"), line.rpartition("}")[2]) for line in notifier.lines]
    names = ("event", "run", "text", "item", "link")
    assert [({name: told[name] for name in names}, rest) for told, rest in messages] == [
        (
            {
                "event": "inbox",
                "run": run.id,
                "text": f"question {item.id}: May I?",
                "item": item.id,
                "link": f"scaffold inbox {item.id}",
            },
            f" inbox {run.id}",
        ),
        (
            {
                "event": "done",
                "run": run.id,
                "text": f"run {run.id} is completed",
                "item": "",
                "link": f"scaffold review {run.id}",
            },
            f" done {run.id}",
        ),
    ]
    assert {told["repository"] for told, _ in messages} == {str(harness.context.root)}
    assert old.id not in "".join(notifier.lines)


async def test_a_failure_is_sent_with_its_reason_and_without_secrets(harness):
    """BX-9: notifications contain no secret."""
    run = await harness.own(goal("g", act("a")))
    notifier = await Notified.begin(harness, run, TELL)
    with harness.store.transaction():
        harness.store.runs.move(run.id, Failed("the key sk-ant-api03-" + "a1B2" * 20 + " was refused"))
    await notifier.end()
    (line,) = notifier.lines
    assert '"failed"' in line
    assert "a1B2a1B2" not in line


async def test_the_command_gets_no_key_that_is_not_configured(harness):
    """BX-9: the environment of children is an allowlist, for the user's own command, too."""
    harness.context.environ.update(OPENAI_API_KEY="not-told", BELL_KEY="told", DISPLAY=":7")
    run = await harness.own(goal("g", act("a")), environment=("BELL_KEY",))
    notifier = await Notified.begin(harness, run, 'echo "[$OPENAI_API_KEY] $BELL_KEY $DISPLAY" > "$HOME/told"; exit 0')
    ask(harness, run, "one")
    await poll_until(lambda: notifier.lines)
    await notifier.end()
    assert notifier.lines == ["[] told :7"]


async def test_an_exhausted_budget_is_sent_once(harness):
    run = await harness.own(goal("g", act("a")), budget_usd=1.0)
    notifier = await Notified.begin(harness, run, TELL)
    await harness.work(run, "a", "echo x > a", "true", usd=0.45)
    await poll_until(lambda: notifier.lines)
    await notifier.end()
    assert [line.rpartition("}")[2].split()[0] for line in notifier.lines] == ["budget"]


async def test_a_failing_command_raises_one_notice(harness):
    run = await harness.own(goal("g", act("a")))
    notifier = await Notified.begin(harness, run, "echo no bell >&2; exit 3")
    ask(harness, run, "one")
    await poll_until(lambda: notifier.warnings)
    ask(harness, run, "two")
    await notifier.end()
    assert notifier.warnings == ["The `notify` command failed: exit code 3: no bell"]


@pytest.mark.slow
async def test_a_hanging_command_is_ended_and_delays_nothing(harness):
    run = await harness.own(goal("g", act("a")))
    notifier = await Notified.begin(harness, run, 'echo began > "$HOME/told"; sleep 60', timeout_s=1.5)
    ask(harness, run, "one")
    await poll_until(lambda: notifier.lines)
    assert (await harness.work(run, "a", "echo x > a")).head, "work goes on meanwhile"
    await notifier.end()
    assert notifier.warnings == snapshot(["The `notify` command failed: it timed out after 1.5 s"])


async def test_without_a_command_no_events_are_read(harness):
    run = await harness.open_run(goal("g", act("a")))
    await notify_until_done(harness.context, run, lambda: False)
    assert harness.store.events.last_seq(run.id) == 1


class Receiver:
    """A server on loopback that keeps the requests it gets, and answers with `status`."""

    @classmethod
    async def listen(cls, status=200):
        made = cls()
        made.requests, made.status = [], status
        made.server = await asyncio.start_server(made._answer, "127.0.0.1", 0)
        port = made.server.sockets[0].getsockname()[1]
        made.url = f"http://127.0.0.1:{port}"
        return made

    async def _answer(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, *fields = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append((line.split()[1], headers, body))
        writer.write(f"HTTP/1.1 {self.status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()

    async def close(self):
        self.server.close()
        await self.server.wait_closed()


@pytest.fixture
async def receiver():
    made = await Receiver.listen()
    yield made
    await made.close()


def outbox_of(harness, clock=None):
    return UserStore.open(user_database(user_dirs().data), clock=clock or harness.clock)


async def test_ntfy_and_webhooks_get_what_they_take_with_a_link_to_the_request(harness, receiver):
    """BX-25: the link is the page of the running server, which asks who decides; only the kinds that are wanted."""
    run = await harness.own(goal("g", act("a")))
    host = receiver.url.removeprefix("http://")
    channels = (f"ntfy:http://ada:pw@{host}/topic for waits", f"webhook:{receiver.url}/hook?key=1 for done")
    with announced_address(user_dirs().data, "http://127.0.0.1:1234"):
        notifier = await Notified.begin(harness, run, *channels)
        item = ask(harness, run, "May I? Überall \x1b[2K")
        await poll_until(lambda: receiver.requests)
        with harness.store.transaction():
            harness.store.runs.move(run.id, Completed())
        await notifier.end()
    (topic, ntfy, text), (hook, webhook, body) = receiver.requests
    assert (topic, ntfy["title"], ntfy["priority"], ntfy["tags"]) == (
        *("/topic", "scaffold: something waits for you", "high", "raised_hand"),
    )
    assert ntfy["click"] == f"http://127.0.0.1:1234/inbox/{item.id}"
    assert ntfy["authorization"] == "Basic YWRhOnB3"
    assert f"question {item.id}: May I? Überall" in text.decode()
    assert "\x1b" not in text.decode()
    assert (hook, webhook["content-type"]) == ("/hook?key=1", "application/json")
    (told,) = json.loads(body)["notifications"]
    assert (told["event"], told["link"]) == ("done", f"http://127.0.0.1:1234/runs/{run.id}")
    assert (notifier.left, notifier.warnings) == ([], [])


async def test_what_comes_in_quiet_hours_comes_together_at_their_end(harness, receiver):
    """BX-25: after the run, too: it is kept in the user's database, and a later process delivers it."""
    now = datetime.now().astimezone()  # noqa: TID251 - quiet hours are about the real time of the day
    hours = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M}"
    run = await harness.own(goal("g", act("a")))
    notifier = await Notified.begin(harness, run, f"webhook:{receiver.url}", quiet_hours=hours)
    await asyncio.sleep(0)
    ask(harness, run, "one")
    ask(harness, run, "two")
    await notifier.end()
    assert (receiver.requests, notifier.left) == ([], [1])
    later = FakeClock(harness.clock.now() + timedelta(hours=2))
    with closing(outbox_of(harness, later)) as user:
        assert await send_outbox(user, later, {}, fail_test, wait=True) == 2
        assert user.outbox.next_due() is None
    ((_, _, body),) = receiver.requests
    assert [told["text"].partition(": ")[2] for told in json.loads(body)["notifications"]] == ["one", "two"]


def fail_test(queued, failure):
    raise AssertionError(failure.why)


async def test_a_kill_before_a_delivery_neither_loses_nor_doubles_it(harness, receiver):
    """BX-25: who died with a notification in hand, or before it saw the end of its run, leaves it to the next one."""
    run = with_settings_of(await harness.own(goal("g", act("a"))), notify=(f"webhook:{receiver.url}",))
    with harness.store.transaction():
        harness.store.runs.configure(run.id, run.settings)
    with closing(outbox_of(harness)) as user:
        feed = NotificationFeed(harness.context, run, user, lambda: harness.context.redactor)
        item = ask(harness, run, "May I?")
        assert (feed.collect(), feed.collect()) == (True, False)
        with user.transaction():
            assert len(user.outbox.claim_due(GONE)) == 1
            assert len(user.outbox.claim_due(GONE)) == 1, "who had it is gone"
        fail_run(harness.store, run, "no plan")  # and nobody saw it
        assert await send_outbox(user, harness.clock, {}, fail_test, wait=False) == 2
        assert await send_outbox(user, harness.clock, {}, fail_test, wait=False) == 0
        assert user.outbox.feeds() == ()
    told = [each["text"] for _, _, body in receiver.requests for each in json.loads(body)["notifications"]]
    assert told == [f"question {item.id}: May I?", f"run {run.id} failed: no plan"]


async def test_a_server_that_is_away_is_asked_again_but_not_for_ever(harness, receiver):
    """BX-25: and one that refuses is not asked again; the first failure is a notice, without the path of the topic."""
    receiver.status = 503
    run = await harness.own(goal("g", act("a")))
    notifier = await Notified.begin(harness, run, f"ntfy:{receiver.url}/secret")
    ask(harness, run, "one")
    await poll_until(lambda: receiver.requests)
    await notifier.end()
    failed = [text for text in harness.notices(run) if "ntfy" in text]
    assert failed == ["The notification by ntfy (127.0.0.1) failed: 127.0.0.1 answered with HTTP 503"]
    assert notifier.left == [1]
    clock, failures = FakeClock(harness.clock.now()), []
    with closing(outbox_of(harness, clock)) as user:
        while user.outbox.next_due() is not None:
            clock.advance(3600 * 24)
            await send_outbox(user, clock, {}, lambda _, why: failures.append(why), wait=False)
        assert len(failures) == MAX_TRIES - 1
        receiver.status = 403
        ask_again = NotificationFeed(harness.context, notifier.run, user, lambda: harness.context.redactor)
        ask(harness, run, "two")
        ask_again.collect()
        await send_outbox(user, harness.clock, {}, lambda _, why: failures.append(why), wait=False)
        assert (failures[-1].passing, user.outbox.next_due()) == (False, None)


@pytest.mark.skipif(sys.platform == "darwin", reason="it has `osascript`")
async def test_the_desktop_shows_the_text_as_it_is(harness, tmp_path):
    """BX-25: a program of the user's desktop gets it, and no tag of an agent's acts there; without one it is said."""
    shown = tmp_path / "shown"
    programs = tmp_path / "programs"
    programs.mkdir()
    harness.context.environ["PATH"] = str(programs)
    run = await harness.own(goal("g", act("a")))
    notifier = await Notified.begin(harness, run, "desktop")
    ask(harness, run, "one")
    failed = "The notification by desktop failed: there is no `notify-send` on this machine: install libnotify"
    await poll_until(lambda: failed in harness.notices(run))
    program = programs / "notify-send"
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > '{shown}'\n")
    program.chmod(0o755)
    item = ask(harness, run, "<b>Really</b> & now?")
    await poll_until(shown.exists)
    await notifier.end()
    assert shown.read_text().splitlines() == [
        *("--app-name=scaffold", "--", "scaffold: something waits for you"),
        f"{harness.context.root.name}: question {item.id}: &lt;b&gt;Really&lt;/b&gt; &amp; now?",
        f"scaffold inbox {item.id}",
    ]


async def test_without_the_users_database_the_run_goes_on_and_says_so(harness):
    """BX-25: notifications never decide about a run."""
    path = user_database(user_dirs().data)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("not a database\n" * 100)
    run = await harness.own(goal("g", act("a")))
    await (await Notified.begin(harness, run, "bell")).end()
    (notice,) = (text for text in harness.notices(run) if "notify" in text)
    assert notice.startswith("Nothing is sent by `notify`: ")
