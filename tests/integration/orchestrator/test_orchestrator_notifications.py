"""`notify`: a real command gets the events of a run, and never delays it."""

import asyncio
import json

import pytest
from inline_snapshot import snapshot

from scaffold.core.model import InboxItem
from scaffold.core.states import Completed, Failed
from scaffold.host.random_ids import new_id
from scaffold.orchestrator.owner.watch.notifications import notify_until_done
from support.harness import act, goal, poll_until

TELL = 'cat >> "$HOME/told"; echo " $SCAFFOLD_EVENT $SCAFFOLD_RUN" >> "$HOME/told"'


class Notified:
    """A run whose events are sent to a command until `end`."""

    @classmethod
    async def begin(cls, harness, run, command, *, timeout_s=10.0):
        made = cls()
        made.harness, made.run, made.over = harness, run, False
        sending = notify_until_done(harness.context, run, command, lambda: made.over, timeout_s=timeout_s)
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
    assert messages == [
        ({"event": "inbox", "run": run.id, "text": f"question {item.id}: May I?"}, f" inbox {run.id}"),
        ({"event": "done", "run": run.id, "text": f"run {run.id} is completed"}, f" done {run.id}"),
    ]
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
    await notify_until_done(harness.context, run, "", lambda: False)
    assert harness.store.events.last_seq(run.id) == 1
