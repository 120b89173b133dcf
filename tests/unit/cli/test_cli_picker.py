"""The list of conversations to choose from."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.cells import cell_len

from scaffold.cli.repl.picker import CONVERSATIONS, MODELS, Choice, Level, Picker, choice_line, choices_of, matching
from scaffold.core.model import Usage
from scaffold.store.user.conversations import StoredConversation

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
UP, DOWN, RIGHT, ENTER, ESCAPE, CTRL_C = "\x1b[A", "\x1b[B", "\x1b[C", "\r", "\x1b", "\x03"
CHOICES = (
    Choice(value="aaa", cells=("1 m", "~/web", "Mend the login")),
    Choice(value="bbb", cells=("2 h", "~/api", "add a login limit")),
    Choice(value="ccc", cells=("9 d", "/srv/x", "what is this?")),
)


class Narrow(DummyOutput):
    def get_size(self):
        return Size(rows=6, columns=40)


def test_a_conversation_is_listed_with_age_folder_and_first_words():
    """RA-18: nothing of a title reaches the terminal as an escape sequence."""
    stored = StoredConversation(
        id="abc",
        cwd="/home/me/web",
        model="m",
        title="mend\n\x1b[31m it",
        messages=2,
        usage=Usage(),
        owner=None,
        created_at=NOW,
        updated_at=NOW - timedelta(hours=3),
    )
    (choice,) = choices_of((stored,), now=NOW, home=Path("/home/me"))
    assert choice == Choice(value="abc", cells=("3 h", "~/web", "mend \\x1b[31m it"))
    assert choice_line(choice, (5, 6), 31) == "3 h    ~/web   mend \\x1b[31m it"


def test_a_line_has_exactly_the_width():
    """RA-18: 60 to 200 columns, wide characters included."""
    folder, widths = "~/a/very/long/folder/name/of/a/project", [10, 30, 60, 200]
    for words in ("short", "日本語" * 40, "x" * 300):
        choice = Choice(value="a", cells=("12 h", folder, words))
        lines = [choice_line(choice, (4, min(24, width // 4)), width) for width in widths]
        assert list(map(cell_len, lines)) == widths


def test_all_typed_words_must_occur():
    """RA-18: in the words, the folder or the id."""
    table = {"": ["aaa", "bbb", "ccc"], "LOGIN": ["aaa", "bbb"], "limit api": ["bbb"], "ccc": ["ccc"], "no": []}
    assert {typed: [each.value for each in matching(CHOICES, typed)] for typed in table} == table


async def test_keys_filter_and_choose():
    """RA-18: typing filters, the arrows and Enter choose, Esc and Ctrl-C leave."""
    rows = [
        ([ENTER], "aaa"),
        ([DOWN, ENTER], "bbb"),
        ([DOWN, DOWN, DOWN, DOWN, UP, ENTER], "bbb"),
        (["login", DOWN, ENTER], "bbb"),
        ([DOWN, DOWN, "what", ENTER], "ccc"),
        (["nothing", ENTER, CTRL_C], None),
        ([ESCAPE], None),
        ([CTRL_C], None),
    ]

    async def choose(keys):
        with create_pipe_input() as source:
            for each in keys:
                source.send_text(each)
            return await Picker(lambda: CHOICES, CONVERSATIONS, source=source, output=Narrow()).run()

    assert [(keys, await choose(keys)) for keys, _ in rows] == rows


async def test_a_list_of_models_grows_while_servers_answer_and_bars_what_cannot_be_used():
    """RA-18: what is selected stays selected; left and right choose how much it thinks."""
    offered = [
        Choice(value="a", cells=("*", "a", "free")),
        Choice(value="b", cells=("", "b", "window 8"), has_level=True),
        Choice(value="c", cells=("", "c", "no key"), why_not="no key"),
    ]
    level = Level("effort", ("low", "high"), "low")
    with create_pipe_input() as source:
        picker = Picker(lambda: offered, MODELS, source=source, output=Narrow(), chosen="b", level=level)
        running = asyncio.ensure_future(picker.run())
        offered.insert(0, Choice(value="0", cells=("", "0", "new")))
        picker.refresh()
        source.send_text(RIGHT + RIGHT + DOWN + ENTER + UP + ENTER)
        assert await running == "b", "Enter did nothing at what cannot be used"
    assert level.value == "high"
