"""Keys, pressed as a user does; a real program stands in for `scaffold` and repeats the command that it was given."""

import asyncio
import os
from contextlib import asynccontextmanager

from msgspec import structs

from builders import a_run
from scaffold.core.states import Completed, Paused
from scaffold.orchestrator.user_control.own_program import OwnProgram
from scaffold.tui.key_table import KEYS, TABS, Selection, help_lines, keys_of
from support.live_screen import a_shown, live_app, screen_text

REPEATS = ["sh", "-c", 'echo ran "$@" "$(cat)"', "scaffold"]
PAGE = ["sh", "-c", 'echo ran "$@"; echo +added; echo -removed', "scaffold"]
FAILS = ["sh", "-c", "echo error: the database is locked >&2; echo Try again. >&2; exit 1", "scaffold"]
RESUMES = ["sh", "-c", """echo '{"type":"result","run":{"id":"run-1"}}'""", "scaffold"]


@asynccontextmanager
async def pressing(folder, shown=None, argv=REPEATS, size=(120, 24)):
    async with OwnProgram(folder, argv) as program:
        app = live_app(shown or a_shown(), program)
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            yield app, pilot


async def settle(pilot):
    """Wait until what was pressed is shown, and no command runs any more."""
    await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    while pilot.app.shown is not pilot.app.feed.shown:
        await pilot.app.look()
        await pilot.pause()
    await pilot.pause()


async def press(pilot, *keys):
    await pilot.press(*keys)
    await settle(pilot)
    return screen_text(pilot.app)


COMMANDS = (
    ("Agents", ("space",), "pause run-1"),
    ("Agents", ("k", "y"), "stop api --run run-1"),
    ("Agents", ("a",), "approve i7"),
    ("Agents", ("S", "y"), "stop run-1"),
    ("Agents", ("s", *"hi", "enter"), "send api - --run run-1 hi"),
    ("Plan", ("g", "space"), "pause shop --run run-1"),
    ("Plan", ("G", "R"), "retry broken --run run-1"),
    ("Inbox", ("g", "y"), "approve i7"),
    ("Inbox", ("x", *"no", "enter"), "reject i7 --why no"),
    ("Inbox", ("n", "enter", *"red", "enter"), "answer i8 red"),
    ("Inbox", ("g", "enter", *"approve", "enter"), "approve i7"),
    ("Inbox", ("G", "m"), "approve i9"),
    ("Landing", ("g", "m"), "approve i9"),
    ("Stats", ("r", *"x", "enter"), "run --yes --detach --json --quiet -- x"),
    ("Stats", ("colon", *"queue", "enter"), "queue"),
)


async def test_a_key_does_what_a_command_does(tmp_path):
    """AL-25: there is no second way; what asks first does nothing until it is answered."""
    async with pressing(tmp_path) as (app, pilot):
        for tab, keys, command in COMMANDS:
            app.show_tab(tab)
            await press(pilot, *keys)
            assert app.notice.rstrip() == f"✓ ran {command}"


async def test_what_is_not_confirmed_does_nothing(tmp_path):
    """AL-25."""
    async with pressing(tmp_path) as (app, pilot):
        for keys in (("k", "n"), ("k", "escape"), ("x", "a", "escape"), ("s", "escape"), ("s", "enter")):
            assert "ran " not in await press(pilot, *keys)
            assert app.question is None


async def test_a_key_that_does_nothing_now_says_why(tmp_path):
    """AL-25: on the line, in parentheses, and in the help; the reason is never a color alone."""
    async with pressing(tmp_path, size=(200, 30)) as (app, pilot):
        assert "(k kill)" in await press(pilot, "j", "j")
        assert "k kill: not now, put the cursor on an agent of an action" in await press(pilot, "k")
        assert "kill (not now: put the cursor on an agent of an action)" in await press(pilot, "question_mark")
        await press(pilot, "escape")
        run = a_run("run-1", state=Completed())
        view = app.shown.view
        summary = structs.replace(view.summary, run=run, status="completed", is_live=False)
        app.feed.shown = structs.replace(app.shown, view=structs.replace(view, summary=summary))
        await settle(pilot)
        assert "space pause/resume: not now, the run is completed" in await press(pilot, "space")


async def test_the_work_of_a_run_that_ended_is_taken_and_reverted(tmp_path):
    """AL-25: each after a question."""
    shown = a_shown(waiting=())
    summary = structs.replace(shown.view.summary, status="completed", is_live=False)
    shown = structs.replace(shown, view=structs.replace(shown.view, summary=summary))
    async with pressing(tmp_path, shown) as (app, pilot):
        app.show_tab("Plan")
        assert "Take the work of run run-1 to main? y/n" in await press(pilot, "m")
        assert "✓ ran land run-1" in await press(pilot, "y")
        assert "✓ ran revert store --run run-1" in await press(pilot, "g", "j", "u", "y")


async def test_merging_never_approves_a_command(tmp_path):
    """AL-25: `m` is about changes; what an agent wants to run is approved by `a` alone."""
    async with pressing(tmp_path) as (_, pilot):
        assert "m merge now: not now, candidates land by themselves" in await press(pilot, "n", "m")


async def test_a_paused_run_is_resumed_and_followed(tmp_path):
    """AL-25: the run goes on in the background, as `resume --detach` leaves it."""
    shown = a_shown()
    summary = structs.replace(shown.view.summary, run=a_run("run-1", state=Paused("paused")), is_live=False)
    shown = structs.replace(shown, view=structs.replace(shown.view, summary=summary))
    async with pressing(tmp_path, shown, RESUMES) as (app, pilot):
        assert "✓ run run-1 goes on in the background" in await press(pilot, "space")
        assert app.feed.followed == ["run-1"]


async def test_a_text_is_read_searched_and_left(tmp_path):
    """AL-25: d, /, esc; a decision is possible while its text is read."""
    async with pressing(tmp_path, argv=PAGE) as (app, pilot):
        text = await press(pilot, "d")
        assert "scaffold diff api --run run-1" in text
        assert "> ran diff api" in text
        assert "space pause/resume: not now, esc closes this text first" in await press(pilot, "space")
        assert "> -removed" in await press(pilot, "slash", *"remov", "enter")
        assert "`nowhere` is not here" in await press(pilot, "slash", *"nowhere", "enter")
        assert app.selection.entry.id == "i7"
        assert "[Agents]" in await press(pilot, "escape")


async def test_a_decided_request_is_no_longer_shown(tmp_path):
    """BX-25: whoever decides it elsewhere. What `inbox` shows of it is all that a decision needs."""
    async with pressing(tmp_path, argv=PAGE) as (app, pilot):
        text = await press(pilot, "n", "enter")
        assert "> ran inbox i7" in text
        assert "Answer i7 with one of: approve, reject" in text
        assert "> +added" in await press(pilot, "down")
        await press(pilot, "escape")
        app.feed.shown = structs.replace(app.shown, waiting=app.shown.waiting[1:])
        await settle(pilot)
        text = screen_text(app)
        assert "[Inbox(2)]" in text
        assert "+added" not in text


async def test_no_words_of_an_agent_stand_without_a_bar(tmp_path):
    """BX-25: a line of them that is wider than the screen goes on behind one, too."""
    quoted = ["sh", "-c", f"echo asked; echo '    │ {'a' * 32}scaffold approve i7'", "scaffold"]
    async with pressing(tmp_path, argv=quoted, size=(40, 15)) as (_, pilot):
        text = await press(pilot, "n", "enter")
        assert f"│ {'a' * 32}\n      ┆ scaffold approve i7" in text


async def test_a_decision_is_about_the_text_that_is_read(tmp_path):
    """BX-25: also if the cursor moved while the text was made."""
    os.mkfifo(tmp_path / "made")
    async with pressing(tmp_path, argv=["sh", "-c", 'cat made; echo "$@"', "scaffold"]) as (app, pilot):
        await press(pilot, "n")
        await pilot.press("d", "j")
        assert app.selection.entry.id == "i8"
        await asyncio.to_thread((tmp_path / "made").write_text, "the diff of api\n")
        await settle(pilot)
        assert "> the diff of api" in screen_text(app)
        assert app.selection.entry.id == "i7"


async def test_what_a_failed_command_says_is_shown(tmp_path):
    """AL-25: what, and what to do next."""
    async with pressing(tmp_path, argv=FAILS) as (_, pilot):
        assert "✗ the database is locked. Try again." in await press(pilot, "a")
        assert "needs a terminal of its own" in await press(pilot, "colon", *"logs -f", "enter")


async def test_updates_are_paused_and_go_on(tmp_path):
    """AL-25: nothing moves under the cursor of who reads."""
    async with pressing(tmp_path) as (app, pilot):
        assert "updates are paused" in await press(pilot, "p")
        app.feed.shown = structs.replace(app.shown, waiting=())
        await app.look()
        assert "Inbox(3)" in screen_text(app)
        assert "Inbox(3)" not in await press(pilot, "p")


async def test_an_agent_is_chosen_by_its_number(tmp_path):
    """AL-25: 1-9, enter, l; follow ends with the first move."""
    async with pressing(tmp_path) as (app, pilot):
        assert "[Output] Plan Landing Inbox(3) Stats  api, follows" in await press(pilot, "1")
        assert "api, f follows" in await press(pilot, "up")
        assert "there is no agent 9" in await press(pilot, "9")
        assert "all agents, follows" in await press(pilot, "0")
        assert app.list.cursor == 2


async def test_the_screen_survives_every_size(tmp_path):
    """AL-25: also ones that nobody can use."""
    async with pressing(tmp_path) as (app, pilot):
        for width, height in ((1, 1), (10, 3), (300, 80), (40, 15)):
            await pilot.resize_terminal(width, height)
            for _ in TABS:
                await press(pilot, "tab")
        assert "[Agents]" in screen_text(app)


def test_each_key_has_one_meaning_on_a_tab_and_is_in_the_help():
    """AL-25."""
    selection = Selection(a_shown(), None)
    for tab in TABS:
        keys = [row.key for row in keys_of(tab)]
        assert len({*keys}) == len(keys)
        shown = "\n".join(help_lines(selection, tab))
        assert all(f"  {row.name} " in shown for row in keys_of(tab))
    assert {tab for row in KEYS for tab in row.tabs} == {*TABS}
