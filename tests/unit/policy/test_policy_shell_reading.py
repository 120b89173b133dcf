import json

import pytest

from scaffold.policy.shell.bash_grammar import read_by_grammar
from scaffold.policy.shell.bash_syntax import read_syntax
from scaffold.policy.shell.fitness import LONGEST_BYTES, MOST_MARKS, unfit
from scaffold.policy.shell.plain import read_plainly
from scaffold.policy.shell.reading import agreed
from scaffold.policy.shell.script import NotUnderstood, Redirect, Simple, Understood, Word


def understood(*commands: str) -> Understood:
    return Understood(tuple(Simple(tuple(map(Word, command.split()))) for command in commands))


@pytest.mark.parametrize("second", [understood("ls -a"), understood("ls", "ls"), understood("cat")])
def test_two_parsers_that_differ_understand_nothing(second):
    """RA-14."""
    first = understood("ls")
    assert agreed(first, first) == first
    assert agreed(first, second) == NotUnderstood("is read in two ways by two parsers", first.commands)
    assert agreed(first, NotUnderstood("is odd")) == NotUnderstood("is odd", first.commands)


@pytest.mark.parametrize("command", [r"cat \ .env", "cat \\\t.env"])
def test_a_tree_that_leaves_text_out_is_not_believed(command):
    """RA-14: the grammar drops an escaped blank, bash does not."""
    assert read_by_grammar(command) == NotUnderstood("has something in it that its parser passes over")


def test_words_after_a_redirect_stay_arguments():
    """RA-14: the grammar takes them for further targets."""
    redirect = Redirect(">", Word("a"), 10)
    assert read_by_grammar('cat 10>a "x" b') == Understood((Simple((*map(Word, ("cat", "x", "b")),), (), (redirect,)),))


def test_a_redirect_after_a_list_is_its_last_commands():
    """RA-14: the grammar takes it for the whole list's."""
    null = Redirect(">", Word("/dev/null"), 2)
    assert read_by_grammar("cd a && ls 2>/dev/null") == Understood(
        (Simple((Word("cd"), Word("a"))), Simple((Word("ls"),), (), (null,), "&&"))
    )


@pytest.mark.parametrize("target", ["o", "'x$(id)'", '1"$"@', "$x", "1x"])
def test_what_bash_expands_twice_is_not_understood(target):
    """RA-14: bash runs the substitution in `>&'x$(id)'`, quoted as it is."""
    assert isinstance(read_by_grammar(f"ls >&{target}"), NotUnderstood)
    assert isinstance(read_by_grammar(f"ls <&{target}"), NotUnderstood)
    assert isinstance(read_by_grammar("ls 2>&1 >&2 <&0"), Understood)


def test_what_cannot_be_understood_is_still_looked_into():
    """RA-14: commands at any depth are seen for denials."""
    reading = read_by_grammar("if a; then b $(c) <(d); fi; e() { f; }; (g) | h `i` & for x in y; do j; done > k")
    assert isinstance(reading, NotUnderstood)
    assert {simple.words[0].text for simple in reading.seen if simple.words} == set("abcdfghij")
    assert [simple.redirects[0].target.text for simple in reading.seen if simple.redirects] == ["k"]


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        (b"", "is no valid bash for its second parser"),
        (b"\xff", "is no valid bash for its second parser"),
        (b"[]", "is no valid bash for its second parser"),
        (b"{}", "runs nothing"),
        (b'{"Stmts": [{}]}', "only redirects"),
        (b'{"Stmts": [1]}', "has a shape in its second parser that is not known here"),
        (b'{"Stmts": [{"Cmd": {"Type": "New"}}]}', "has a part that is not a simple command (New)"),
        (b'{"Stmts": [], "Last": [{"Text": "x"}]}', "has a comment in it"),
        (
            b'{"Stmts": [{"Background": true, "Cmd": {"Type": "CallExpr"}}]}',
            "is more than simple commands (background)",
        ),
    ],
)
def test_a_tree_of_another_shape_is_not_guessed_at(tree, reason):
    """RA-14."""
    assert read_syntax(tree) == NotUnderstood(reason)


def test_a_word_of_a_kind_not_known_is_not_literal():
    """RA-14."""
    call = {"Type": "CallExpr", "Args": [{"Parts": [{"Type": "ParamExp"}]}]}
    tree = json.dumps({"Stmts": [{"Cmd": call}]}).encode()
    assert read_syntax(tree) == NotUnderstood("has a word that is not literal (ParamExp)")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "is empty"),
        (" \n\t", "is empty"),
        ("ls\0", "has a NUL in it"),
        ("ls\r", "has a carriage return in it"),
        ("\vls", "has a vertical tab in it"),
        ("ls \x1b[2K", "has an escape in it"),
        ("ls\u00a0x", "(\\xa0, NO-BREAK SPACE)"),
        ("ls '\u202e'", "(\\u202e, RIGHT-TO-LEFT OVERRIDE)"),
        ("ls '\U000e0041'", "(\\U000e0041, TAG LATIN CAPITAL LETTER A)"),
        ("ls \udc80", "is not valid text"),
        ("l\\\ns", "in the middle of a word"),
        ("x" * (LONGEST_BYTES + 1), "is too long"),
        ("ls;" * (MOST_MARKS + 1), "signs that join or nest commands"),
    ],
)
def test_text_that_shells_and_people_read_differently_is_not_parsed(command, why):
    """RA-14."""
    assert why in (unfit(command) or "")


def test_ordinary_text_is_parsed():
    """RA-14."""
    assert [unfit(text) for text in ("ls", "echo 'é 漢'", "ls \\\n -la", "a\tb\nc")] == [None] * 4


@pytest.mark.parametrize(
    "command",
    [
        *("ls *", "ls $x", "ls ~", "ls\\ x", "ls 'a", 'ls "$x"', 'ls "a`b`"', "ls #x", "ls & x", "ls |& x", "ls;"),
        *("ls ;; x", "ls 12>/dev/null", "ls1>/dev/null", "ls > x", "ls 2>&1x", "ls 3>&1", "time ls", "if x"),
        *(";ls", "a=b ls", "'ls'", "ls {a,b}", "ls\nx", "ls (x)", "! ls", "2>&1 ls", "ls a=~", "ls é", "", " "),
    ],
)  # fmt: skip
def test_what_has_more_than_one_meaning_is_not_plain(command):
    """RA-14."""
    assert read_plainly(command) is None
