"""Code in languages whose grammar is installed is split by what it defines; without it, by its lines."""

from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaffold.memory.chunking.languages import LANGUAGES
from scaffold.memory.chunking.split import kind_of, pieces_of
from scaffold.memory.chunking.text_pieces import PieceSize
from scaffold.memory.documents.parts import Outline
from scaffold.memory.documents.pdf_reader import PdfHeading

pytest.importorskip("tree_sitter_go", reason="the extra `documents` is not installed")

LONG = "x" * 500
SCRIPT = f"""const one = 1;
// Adds.
export function add(a) {{
  return a;
}}
const mul = (a) => {{
  return a;
}};
class Big {{
  first() {{
    return 'ü{LONG}';
  }}
  second() {{
    return '{LONG}';
  }}
  third() {{
    return '{LONG}';
  }}
}}
"""
RUST = f"""struct P {{
    x: u8,
}}
impl P {{
    fn a() {{
        // {LONG}
    }}
    fn b() {{
        // {LONG}
    }}
    fn c() {{
        // {LONG}
    }}
}}
"""
CODE = {
    "javascript": (SCRIPT, ["add", "mul", "Big.first", "Big.second", "Big.third"]),
    "typescript": ("interface A {\n  x: number;\n}\nexport enum E {\n  B,\n}\n", ["A", "E"]),
    "tsx": ("export const App = () => {\n  return <div>hi</div>;\n};\n", ["App"]),
    "go": (
        "package main\n\ntype Server struct {\n\tport int\n}\n\nfunc (s *Server) Run() error {\n\treturn nil\n}\n",
        ["", "Server", "Run"],
    ),
    "rust": (RUST, ["P", "P.a", "P.b", "P.c"]),
    "java": ("class A {\n  int x;\n}\n/** Doc. */\ninterface B {\n  int f();\n}\n", ["A", "B"]),
    "c": ("#include <stdio.h>\n\n/* Says. */\nstatic char *say(int x)\n{\n  return 0;\n}\n", ["", "say"]),
}
SIZES = st.integers(min_value=1, max_value=200).map(PieceSize)


@pytest.mark.parametrize("kind", sorted(LANGUAGES))
def test_code_is_split_by_what_it_defines(kind):
    """RA-9."""
    text, titles = CODE[kind]
    pieces = [each for each in pieces_of(text, kind) if any(map(str.isalnum, each.text))]
    assert [each.title for each in pieces] == titles
    assert all(kind_of(PurePath(f"x{suffix}")) == kind for suffix in LANGUAGES[kind].suffixes)


@given(
    kind=st.sampled_from(["text", "markdown", "python", *sorted(LANGUAGES)]),
    parts=st.lists(st.sampled_from([line for text, _ in CODE.values() for line in text.split("\n")]), max_size=30),
    other=st.text(max_size=200),
    size=SIZES,
)
def test_pieces_of_any_size_are_in_order_and_leave_out_only_white_space(kind, parts, other, size):
    """RA-7, RA-9: also of code with errors, and of characters that are several bytes."""
    text, end = "\n".join([*parts, other, *parts]), 0
    for piece in pieces_of(text, kind, size):
        assert piece.text == text[piece.start : piece.end]
        assert 0 < len(piece.text) <= size.most
        assert not text[end : piece.start].strip()
        end = piece.end
    assert not text[end:].strip()


def test_a_piece_of_a_page_is_named_by_the_headings_above_it():
    headings = [
        PdfHeading(3, 1, "Ports"),
        PdfHeading(1, 0, "Guide"),
        PdfHeading(3, 0, "Use"),
        PdfHeading(2, 1, "Set-up"),
    ]
    outline = Outline(headings)
    pages = {1: "Guide\nA.", 2: "Set-up\nB.", 3: "more\nports\nC.\nuse\nD.", 4: "E."}
    titles = {
        number: outline.titles(number, text, list(pieces_of(text, "text", PieceSize(8))))
        for number, text in pages.items()
    }
    assert titles[1] == ["Guide", "Guide"] or titles[1] == ["Guide"]
    assert set(titles[2]) == {"Guide > Set-up"}
    assert titles[3][0] == "Guide > Set-up"
    assert "Guide > Ports" in titles[3]
    assert titles[3][-1] == "Use"
    assert titles[4] == ["Use"]
