"""The REPL's output as functions of values: blocks of Markdown, diffs, the status line, drawing."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from rich.cells import set_cell_size
from rich.text import Text

from scaffold.cli.repl.approval_queue import format_question
from scaffold.cli.repl.renderer import MarkdownBlocks, Renderer, call_summary, clipped_line, result_summary
from scaffold.cli.repl.view import StatusLineState, format_tokens, status_line, status_sentence
from scaffold.core.printable_text import printable
from scaffold.policy.permission.approval_gate import ApprovalQuestion
from scaffold.tools.content.line_diff import MAX_LINES, line_diff

RENDERER = Renderer(width=60)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")

WRITTEN = "# Title\nwords\nmore\n\n- a\n\n- b\n  c\n\n```py\nx\n\ny\n```\nlast"


def plain(text):
    return COLOUR.sub("", text)


def status_text(width, **changes):
    state = StatusLineState(**{"model": "anthropic:claude-sonnet-4-5", "mode": "plan", "activity": "", **changes})
    return "".join(text for _, text in status_line(state, width))


def test_text_is_split_where_a_block_is_complete():
    """RA-18: complete blocks are drawn once, the rest is redrawn."""
    blocks = MarkdownBlocks()
    done = blocks.feed(WRITTEN)
    assert done == ["# Title", "words\nmore", "- a\n\n- b\n  c", "```py\nx\n\ny\n```"]
    assert blocks.rest == "last"
    assert blocks.end() == ["last"]
    assert blocks.end() == []
    blocks = MarkdownBlocks()
    assert blocks.feed("~~~~\n```\n\n~~~\n") == []
    assert blocks.feed("~~~~\n") == ["~~~~\n```\n\n~~~\n~~~~"]


@given(st.lists(st.text("ab#-`~ \n1.", max_size=9), max_size=12))
def test_blocks_are_the_same_however_the_reply_is_chunked(pieces):
    """RA-18: a reply looks the same whatever its chunks."""
    split, whole = MarkdownBlocks(), MarkdownBlocks()
    by_pieces = [block for piece in pieces for block in split.feed(piece)] + split.end()
    at_once = whole.feed("".join(pieces)) + whole.end()
    assert by_pieces == at_once
    assert "".join("".join(by_pieces).split()) == "".join("".join(pieces).split())


def test_a_diff_shows_the_change_and_a_little_context():
    before = "".join(f"{n}\n" for n in range(1, 31))
    after = before.replace("10\n", "ten\n").replace("20\n", "")
    found = line_diff(before, after)
    assert (found.added, found.removed) == (1, 2)
    assert [(line.kind, line.number, line.text) for line in found.lines] == [
        ("same", 8, "8"),
        ("same", 9, "9"),
        ("removed", 10, "10"),
        ("added", 10, "ten"),
        ("same", 11, "11"),
        ("same", 12, "12"),
        ("gap", 0, ""),
        ("same", 18, "18"),
        ("same", 19, "19"),
        ("removed", 20, "20"),
        ("same", 20, "21"),
        ("same", 21, "22"),
    ]


def test_a_diff_of_equal_texts_is_empty_and_a_long_one_is_bounded():
    assert line_diff("a\n", "a\n") is None
    long = line_diff("", "x\n" * 1_000)
    assert len(long.lines) == MAX_LINES + 1
    assert (long.added, long.removed) == (1_000, 0)
    assert [line.kind for line in line_diff("a", "a\n").lines] == ["removed", "added"]
    assert long.lines[-1].text == "600 more lines"
    assert line_diff("x\n" * 9_000, "y\n" * 9_000).lines[0].text == snapshot(
        "9,000 lines became 9,000: too many to compare"
    )


@given(st.text("ab\n", max_size=30), st.text("ab\n", max_size=30))
def test_a_diff_counts_the_lines_by_which_the_texts_differ(before, after):
    found = line_diff(before, after)
    grown = len(after.splitlines()) - len(before.splitlines())
    assert (0 if found is None else found.added - found.removed) == grown


def test_a_wide_status_line_shows_everything():
    """RA-18: tokens, agents, mode, busy."""
    shown = status_text(
        120, activity="thinking", busy_s=61.0, input_tokens=12_340, output_tokens=950, window=0.42, agents=2
    )
    for part in ("thinking 1m01s", "↑12.3k ↓950", "42% of window", "2 agents", "plan", "$0.00", "claude-sonnet-4-5"):
        assert part in shown


def test_a_status_line_fits_and_keeps_what_matters_most():
    """RA-18: narrow terminals lose the least important."""
    for width in (0, 1, 5, 20, 40, 80):
        shown = status_text(width, activity="running shell", busy_s=3.0, agents=1, cost_usd=0.5)
        assert len(shown) <= width
        assert width < 20 or "running shell" in shown
        assert width < 40 or ("1 agent" in shown and "$0.50" in shown)


def test_an_idle_status_line_is_not_busy_and_shows_an_unknown_cost():
    assert status_text(80, cost_usd=None, mode="default") == (
        "↑0 ↓0  cost unknown  anthropic:claude-sonnet-4-5  default  /help"
    )


def test_a_status_sentence_has_words_for_everything():
    """RA-18: a screen reader spells symbols."""
    state = StatusLineState(model="m:x", mode="plan", activity="running shell", busy_s=61.0, input_tokens=12_340)
    assert status_sentence(state) == snapshot("running shell for 1m01s, 12.3k tokens in, 0 out, $0.00, m:x, mode plan")
    idle = StatusLineState(model="m:x", mode="default", activity="", cost_usd=None, window=0.4, agents=2)
    assert status_sentence(idle).startswith("0 tokens in, 0 out, 40% of window, 2 agents, cost unknown")


def test_a_plain_terminal_gets_words_instead_of_symbols():
    """RA-18."""
    drawn = Renderer(width=60, colours=False, plain=True)
    args = {"command": "make test"}
    assert drawn.result("shell", args, "exit code 0", failed=False) == snapshot("ran shell make test\n  exit code 0")
    assert drawn.result("shell", args, "exit code 2", failed=True) == snapshot("failed: shell make test\n  exit code 2")
    assert drawn.error("no", "do") == "error: no\n  do"


def test_token_counts_are_abbreviated():
    table = {0: "0", 999: "999", 1_000: "1.0k", 99_960: "100k", 1_250_000: "1.2M"}
    assert {count: format_tokens(count) for count in table} == table


def test_no_escape_sequence_of_a_model_reaches_the_terminal():
    """RA-18: every control character is shown instead."""
    texts = [
        "\x1b]0;owned\x07",
        "\x1b[2J\x1b[H",
        "&#27;[31m &#x202e; &amp;",
        "\u202egnp.exe",
        "[x](http://a/\x1b[31m)",
        "```\x1b[31m\n\x9b31m\n```",
        "| \x1b[5m |\n|---|\n| \x9b5m |",
    ]
    drawn = {
        (draw, text): plain(getattr(RENDERER, draw)(text))
        for draw in ("markdown", "thinking", "user_message", "words")
        for text in texts
    }
    assert {
        each for each, text in drawn.items() if re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    } == set()


def test_the_only_escapes_in_drawn_output_are_colours():
    assert plain(RENDERER.draw(Text("a\x1b]0;owned\x1b[2Jb", "bold"))) == "a\\x1b]0;owned\\x1b[2Jb"


def test_model_output_is_neither_taken_for_markup_nor_lost():
    drawn = plain(
        RENDERER.markdown("[red]x[/red] <b>bold</b> :smile: &lt; ![pic](u.png)\n<!-- note -->\n\n[a]: http://b")
    )
    for part in ("[red]x[/red]", "<b>bold</b>", ":smile:", "&lt;", "u.png", "<!-- note -->", "[a]: http://b"):
        assert part in drawn
    assert plain(RENDERER.markdown("one\ntwo")) == "one\ntwo"


def test_without_colours_a_plain_terminal_gets_no_escape_sequence():
    text = "**b** `c`\n\n```py\ndef f(): pass\n```"
    drawn = Renderer(width=60, colours=False).markdown(text)
    assert not re.search(r"\x1b\[(?:\d+;)*[349]\d", drawn)
    assert "\x1b" not in Renderer(width=60, plain=True).markdown(text)


def test_every_line_of_a_call_fits():
    for width in (20, 40, 200):
        renderer, args = Renderer(width=width, plain=True), {"command": "x" * 300, "timeout_s": 5}
        lines = renderer.result("shell", args, "exit code 0\n" + "漢" * 300, failed=False).split("\n")
        assert all(len(line) <= width for line in lines)
        assert len(lines) == 2


def test_a_very_long_line_of_the_user_is_shown_by_its_beginning():
    """RA-18: a pasted line of a megabyte does not push everything else away."""
    drawn = plain(RENDERER.user_message("see " + "x" * 100_000 + "\nand this"))
    assert "… 98,004 more characters" in drawn.replace("\n", " ")
    assert drawn.endswith("and this")
    assert len(drawn.split("\n")) < 40


def test_a_call_is_shown_by_its_subject():
    assert call_summary({"path": "a.py", "content": "long", "start_line": 3}) == "a.py  start_line=3"
    assert call_summary({"operations": [1, 2]}) == "operations[2]"
    assert result_summary("read_file", "a\nb\nc") == "a · 3 lines"
    assert (
        result_summary("shell", "exit code 1 after 0.1 s\n--- output\nboom")
        == "exit code 1 after 0.1 s: boom · 3 lines"
    )
    assert result_summary("shell", "") == "(nothing)"
    assert clipped_line("a\nb", 10) == "a ⏎ b"


def test_a_question_shows_exactly_what_is_asked():
    """RA-13: the agent, the subject with control characters escaped, the whole command however long."""
    question = ApprovalQuestion(tool="shell", category="shell", subject="echo \x1b[8mhidden\nrm -rf x", agent="sub-1")
    assert plain(format_question(question, "", RENDERER)).splitlines() == snapshot(
        [
            "? sub-1 asks to use shell (shell)",
            "  │ echo \\x1b[8mhidden",
            "  │ rm -rf x",
            '  "don\'t ask again" allows: exactly this call',
        ]
    )


@pytest.mark.parametrize("is_plain", [True, False])
def test_no_line_of_a_command_passes_for_one_of_the_question(is_plain):
    """RA-13: neither after a line break nor where a long line is wrapped, and no space of it is lost."""
    answers = "y yes   n no   a don't ask again"
    renderer = Renderer(width=40, plain=is_plain)
    bar = "    " if is_plain else "  │ "
    for subject in (f"ls\n{answers}", f"ls{' ' * 34}{answers}", "漢" * 36, f"ls{' ' * 50}x"):
        question = ApprovalQuestion(tool="shell", category="shell", subject=subject, always=None)
        quoted = plain(format_question(question, "", renderer)).split("\n")[1:]
        assert all(line.startswith(bar.rstrip()) for line in quoted)
        whole = "".join(set_cell_size(line.removeprefix(bar), 36) for line in quoted).rstrip()
        assert whole == subject.replace("\n", " " * 34)


def test_a_question_shows_the_whole_of_a_long_line():
    """RA-13: what is written far to the right is seen as well, up to a length that is said."""
    question = ApprovalQuestion(tool="write_file", category="file_write", subject="a.py")
    drawn = plain(format_question(question, line_diff("", f"ok = 1{' ' * 300}; import evil\n"), RENDERER))
    assert "import evil" in drawn.replace("\n", "").replace(" " * 6, "")
    drawn = plain(format_question(question, line_diff("", "x" * 5_000), RENDERER))
    assert "… 3,000 more characters" in drawn.replace("\n", " ")


def test_a_question_promises_of_always_only_what_it_does():
    """RA-13: a rule, exactly this call, or nothing."""
    question = ApprovalQuestion(tool="start", category="subagent", subject="the plan", why="agents start working on it")
    assert '  "don\'t ask again" allows: exactly this call' in plain(format_question(question, "", RENDERER))
    each_time = msgspec.structs.replace(question, always=None)
    assert "always" not in plain(format_question(each_time, "", RENDERER))


def test_letters_that_look_like_others_and_joiners_of_scripts_are_marked_in_a_question():
    """RA-13: in the command, the reason and the rule; two names may differ in a joiner alone."""
    question = ApprovalQuestion(
        tool="shell", category="shell", subject="curl p\u0430ypal.com", why="x\u0430", always="shell:g\u0456t"
    )
    drawn = plain(format_question(question, "", RENDERER))
    assert "p\u0430[U+0430]ypal.com" in drawn
    assert "x\u0430[U+0430]" in drawn
    assert "shell:g\u0456[U+0456]t" in drawn
    question = ApprovalQuestion(tool="shell", category="shell", subject="rm می\u200cخواهم")
    assert "\\x200c[U+200C]" in plain(format_question(question, "", RENDERER))


def test_a_question_about_a_file_shows_the_change():
    question = ApprovalQuestion(
        tool="write_file", category="file_write", subject="a.py", why="so", always="file_write:a.py"
    )
    drawn = plain(format_question(question, line_diff("old\n", "new\n"), RENDERER))
    assert "- old" in drawn
    assert "+ new" in drawn
    assert '  so\n  "don\'t ask again" allows: any change of a.py\n' in drawn


def test_invisible_characters_are_spelled_out_in_a_question():
    """RA-13: zero-width characters, tag characters, marks that reverse the text direction."""
    characters = "\u200b\u200d\u2060\ufeff\u202e\u2066\u061c\u00ad\u3164\U000e0041\U000e0101"

    def drawn(char):
        question = ApprovalQuestion(
            tool="shell", category="shell", subject=f"ls{char} x", why=f"so{char}", always=f"shell:ls{char}"
        )
        return plain(format_question(question, f"the call{char}", RENDERER))

    spelled = {char: (drawn(char).count(char), drawn(char).count(f"\\x{ord(char):02x}")) for char in characters}
    assert spelled == dict.fromkeys(characters, (0, 4))


def test_letters_of_every_script_and_emoji_are_kept():
    """RA-18."""
    text = "Zoë, 日本語, עברית, हिन्दी, می\u200cشود, 👩\u200d💻, ⚠️ ✅\n\ttab"
    assert printable(text) == text


def test_the_status_line_shows_an_effort_that_was_chosen():
    """RA-18: with the model it belongs to."""
    assert "sonnet-4-5 (high)" in status_text(100, effort="high")
    state = StatusLineState(model="m:x", mode="plan", activity="", effort="high")
    assert status_sentence(state).endswith("m:x, effort high, mode plan")
    assert "(" not in status_text(100)
