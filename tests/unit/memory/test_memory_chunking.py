"""Text is split into pieces that lose nothing and are short enough."""

from pathlib import PurePath

from hypothesis import given
from hypothesis import strategies as st

from scaffold.memory.chunking.split import kind_of, split_text
from scaffold.memory.chunking.text_pieces import MAX_CHARS

LINES = st.sampled_from(
    [
        "# Title",
        "## Part",
        "```",
        "~~~~",
        "",
        " ",
        "def f(x):",
        "    return x",
        "class A:",
        "    def g(self): pass",
        "@d",
    ]
)
TEXTS = st.one_of(
    st.text(max_size=3_000),
    st.lists(LINES, max_size=40).map("\n".join),
    st.lists(st.text(max_size=400), max_size=9).map("\n\n".join),
)


@given(text=TEXTS, kind=st.sampled_from(["text", "markdown", "python"]))
def test_pieces_are_in_order_and_leave_out_only_white_space(text, kind):
    """RA-7, RA-9."""
    end = 0
    for piece in split_text(text, kind):
        assert piece.text == text[piece.start : piece.end]
        assert 0 < len(piece.text) <= MAX_CHARS
        assert not text[end : piece.start].strip()
        end = piece.end
    assert not text[end:].strip()


def test_a_section_of_markdown_has_the_headings_above_it():
    text = "intro\n\n# Guide\n\n## Set-up ##\nRun it.\n\n```sh\n# no heading\n```\n\n## Use\nCall it.\n# Other\nEnd."
    assert [(piece.title, piece.text.splitlines()[0]) for piece in split_text(text, "markdown")] == [
        ("", "intro"),
        ("Guide", "# Guide"),
        ("Guide > Set-up", "## Set-up ##"),
        ("Guide > Use", "## Use"),
        ("Other", "# Other"),
    ]
    assert "# no heading" in split_text(text, "markdown")[2].text


def test_code_is_split_by_what_it_defines():
    method = "    def {}(self):\n" + "        work = 1\n" * 50
    begin = '"""Doc."""\nimport os\n\n\n@cache\ndef one():\n    pass\n\n\nclass Big:\n    x = 1\n'
    text = f"{begin}\n{method.format('a')}\n{method.format('b')}\n"
    titles = [piece.title for piece in split_text(text, "python")]
    assert titles == ["", "one", "Big", "Big.a", "Big.b"]
    assert split_text(text, "python")[1].text.startswith("@cache")


def test_lines_end_where_python_ends_them():
    text = "x = '\x0c\u2028'\ndef one():\n    pass\n"
    assert [piece.text for piece in split_text(text, "python")] == ["x = '\x0c\u2028'", "def one():\n    pass"]


def test_what_is_no_python_is_split_as_text():
    texts = ["def broken(:", "\0", "((" * 5_000, "x = " + "-" * 20_000 + "1"]
    pieces = {text: "".join(piece.text for piece in split_text(text, "python")) for text in texts}
    assert [text for text, joined in pieces.items() if joined.replace(" ", "") != text.replace(" ", "")] == []


def test_a_long_paragraph_is_split_at_sentences_and_a_long_word_anywhere():
    sentences = "This is a sentence of some length. " * 60
    assert all(piece.text.endswith("length.") for piece in split_text(sentences))
    assert [len(piece.text) for piece in split_text("x" * 2_500)] == [1_200, 1_200, 100]
    assert all(piece.text.endswith("。") for piece in split_text("これは文です。" * 500))


def test_the_name_of_a_file_says_how_it_is_split():
    table = {"a/README.md": "markdown", "x.PY": "python", "notes": "text"}
    assert {name: kind_of(PurePath(name)) for name in table} == table
