"""Shell commands from all corners: what is accepted is read alike by everybody who reads it."""

import asyncio
import shlex

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scaffold.policy.gate import Rules
from scaffold.policy.judge import Scene, judge
from scaffold.policy.request import call_by_name, wish_for
from scaffold.policy.rules import Rule
from scaffold.policy.shell.bash_grammar import read_by_grammar
from scaffold.policy.shell.commands import Commands
from scaffold.policy.shell.decision import decide, judge_command
from scaffold.policy.shell.fitness import unfit
from scaffold.policy.shell.ground import Ground
from scaffold.policy.shell.places import NoFiles, Place
from scaffold.policy.shell.plain import read_plainly
from scaffold.policy.shell.reading import Reader, installed_parser
from scaffold.policy.shell.script import NotUnderstood, Simple, Understood, Word

PLACE = Place(root="/w", home="/home/u", files=NoFiles())
GROUND = Ground(place=PLACE)
READER = Reader(installed_parser())

anything = st.text(st.characters(codec="utf-8"), max_size=40) | st.text(max_size=40)
shellish = st.text("ab-/.~*?[]{}()<>|&;$`'\"\\ \n\t#!=@%+1,:", max_size=30)
arguments = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cn", "Co", "Zl", "Zp", "Zs"]), max_size=8
)


@given(anything | shellish)
@example("\ud800")
@example("ls \\")
def test_no_text_breaks_the_decision(text):
    """RA-14: whatever it is, there is an answer, and it has a reason."""
    assert asyncio.run(judge_command(text, GROUND, READER)).reason


@given(st.lists(arguments, min_size=1, max_size=5))
@settings(max_examples=60)
@example(["a", "b c", "it's", "~", "*", "$x", "a=~/b", "\\", "{a,b}"])
def test_what_python_quotes_is_read_back_by_both_parsers(words):
    """RA-14."""
    command = f"run {shlex.join(words)}"
    reading = asyncio.run(READER.read(command))
    assert reading == Understood((Simple((Word("run"), *map(Word, words))),))


@given(shellish.map(lambda text: f"a {text}"))
@settings(max_examples=150)
def test_what_is_accepted_is_read_alike_by_both_parsers(text):
    """RA-14: the second parser is asked even where a plain text would save it."""
    if isinstance(asyncio.run(READER.read(text)), Understood):
        assert asyncio.run(READER.opinion(text)) == read_by_grammar(text)


pieces = st.sampled_from(
    [
        *"abc |;><'\"-=/12&~^:\n",
        "&&",
        "||",
        "2>&1",
        " 2>/dev/null",
        "> /dev/null",
        "'a b'",
        '"a b"',
        "ls ",
        "time ",
        "12",
        "A=1 ",
    ]
)


@given(st.lists(pieces, max_size=12).map("".join) | st.text("ab -=/.:'\"|;", max_size=20))
@settings(max_examples=600)
@example("time ls")
@example("a=b ls")
@example("ls 12>/dev/null")
@example("ls 2>/dev/null x")
@example("ls x2>/dev/null")
@example("ls | 'cat'")
def test_plain_text_is_read_as_the_parsers_read_it(text):
    """RA-14: where a plain text saves the second parser, that parser would have said the same."""
    plain = read_plainly(text)
    if plain is not None and read_by_grammar(text) == plain:
        assert asyncio.run(READER.opinion(text)) == plain


@pytest.mark.parametrize(
    "text",
    [
        "ls -la",
        "git log --oneline -n 20 HEAD~1^ | head -5",
        "rg -n 'foo|bar' \"a b\"'c'd",
        'ls missing 2>/dev/null || echo "Not found"; pwd',
        "make >/dev/null 2>&1",
    ],
)
def test_what_people_write_most_is_plain(text):
    """RA-14."""
    assert read_plainly(text) == read_by_grammar(text) == asyncio.run(READER.opinion(text))


@given(shellish)
def test_nothing_that_is_not_understood_is_allowed(text):
    """RA-14."""
    reading = NotUnderstood("is unfit") if unfit(text) else read_by_grammar(text)
    if isinstance(reading, NotUnderstood):
        assert decide(reading, Ground(place=PLACE, allow=(Rule("shell", "a"), Rule("shell", "b")))).decision != "allow"


@given(st.lists(st.sampled_from(["..", ".", "a", ".git", ".GIT", ".ssh", "", "~"]), max_size=6).map("/".join))
def test_a_path_is_never_allowed_to_be_written_and_protected_ones_never_asked_about(path):
    """RA-14."""
    wish = wish_for(call_by_name("write_file", {"path": path}), PLACE)
    judged = asyncio.run(judge(wish, Rules(), Scene(place=PLACE), Commands()))
    assert judged.decision != "allow"
    lasting = PLACE.reached(path, frozenset({"/w"}), tilde=path == "~" or path.startswith("~/"))
    if any(".git" in each.casefold().split("/") for each in lasting if path):
        assert judged.decision == "deny"
