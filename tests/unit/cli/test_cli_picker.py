"""The list of conversations to choose from."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.cells import cell_len

from scaffold.cli.repl.picker import Choice, ConversationPicker, choice_line, choices_of, matching
from scaffold.core.model import Usage
from scaffold.store.user.conversations import StoredConversation

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
UP, DOWN, ENTER, ESCAPE, CTRL_C = "\x1b[A", "\x1b[B", "\r", "\x1b", "\x03"
CHOICES = (
    Choice(id="aaa", age="1 m", folder="~/web", words="Mend the login"),
    Choice(id="bbb", age="2 h", folder="~/api", words="add a login limit"),
    Choice(id="ccc", age="9 d", folder="/srv/x", words="what is this?"),
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
    assert choice == Choice(id="abc", age="3 h", folder="~/web", words="mend \\x1b[31m it")
    assert choice_line(choice, folder_columns=6, width=31) == "3 h    ~/web   mend \\x1b[31m it"


def test_a_line_has_exactly_the_width():
    """RA-18: 60 to 200 columns, wide characters included."""
    folder, widths = "~/a/very/long/folder/name/of/a/project", [10, 30, 60, 200]
    for words in ("short", "日本語" * 40, "x" * 300):
        choice = Choice(id="a", age="12 h", folder=folder, words=words)
        lines = [choice_line(choice, folder_columns=min(24, width // 4), width=width) for width in widths]
        assert list(map(cell_len, lines)) == widths


def test_all_typed_words_must_occur():
    """RA-18: in the words, the folder or the id."""
    table = {"": ["aaa", "bbb", "ccc"], "LOGIN": ["aaa", "bbb"], "limit api": ["bbb"], "ccc": ["ccc"], "no": []}
    assert {typed: [each.id for each in matching(CHOICES, typed)] for typed in table} == table


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
            return await ConversationPicker(CHOICES, source=source, output=Narrow()).run()

    assert [(keys, await choose(keys)) for keys, _ in rows] == rows
