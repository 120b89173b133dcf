"""Random shell commands: all parsers agree on an accepted one."""

import asyncio
import shlex

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scaffold.policy.permission.call_decision import CallContext, decide_call
from scaffold.policy.permission.call_request import invocation_by_name, permission_request
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.policy.rule.tool_rules import Rule
from scaffold.policy.shell.command_decision import decide_command, decide_parsed
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.parse.command_parser import CommandParser, installed_parser, parse_plain, precheck_problem
from scaffold.policy.shell.parse.tree_sitter_parser import parse_with_tree_sitter
from scaffold.policy.shell.parsed_command import ParsedCommand, SimpleCommand, UnparsedCommand, Word
from scaffold.policy.shell.workspace_paths import DecisionContext, EmptyFileSystem, WorkspacePaths
from support.property_examples import up_to

PLACE = WorkspacePaths(root="/w", home="/home/u", files=EmptyFileSystem())
GROUND = DecisionContext(workspace=PLACE)
READER = CommandParser(installed_parser())

anything = st.text(st.characters(codec="utf-8"), max_size=40) | st.text(max_size=40)
shellish = st.text("ab-/.~*?[]{}()<>|&;$`'\"\\ \n\t#!=@%+1,:", max_size=30)
arguments = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cn", "Co", "Zl", "Zp", "Zs"]), max_size=8
)


@given(anything | shellish)
@example("\ud800")
@example("ls \\")
def test_no_text_breaks_the_decision(text):
    """RA-14: every text gets a decision with a reason."""
    assert asyncio.run(decide_command(text, GROUND, READER)).reason


@given(st.lists(arguments, min_size=1, max_size=5))
@settings(max_examples=up_to(60))
@example(["a", "b c", "it's", "~", "*", "$x", "a=~/b", "\\", "{a,b}"])
def test_words_quoted_by_python_are_read_back_by_both_parsers(words):
    """RA-14."""
    command = f"run {shlex.join(words)}"
    reading = asyncio.run(READER.read(command))
    assert reading == ParsedCommand((SimpleCommand((Word("run"), *map(Word, words))),))


@given(shellish.map(lambda text: f"a {text}"))
@settings(max_examples=up_to(150))
def test_both_parsers_agree_on_an_accepted_command(text):
    """RA-14: the second parser runs even if plain text could skip it."""
    if isinstance(asyncio.run(READER.read(text)), ParsedCommand):
        assert asyncio.run(READER.parse_second(text)) == parse_with_tree_sitter(text)


pieces = st.sampled_from(
    [
        *"abc |;><'\"-=/12&~^:\n",
        *("&&", "||", "2>&1", " 2>/dev/null", "> /dev/null", "'a b'", '"a b"', "ls ", "time ", "12", "A=1 "),
    ]
)


@given(st.lists(pieces, max_size=12).map("".join) | st.text("ab -=/.:'\"|;", max_size=20))
@settings(max_examples=up_to(600))
@example("time ls")
@example("a=b ls")
@example("ls 12>/dev/null")
@example("ls 2>/dev/null x")
@example("ls x2>/dev/null")
@example("ls | 'cat'")
def test_plain_text_is_read_as_the_parsers_read_it(text):
    """RA-14: if plain text skips the second parser, that parser would have agreed."""
    plain = parse_plain(text)
    if plain is not None and parse_with_tree_sitter(text) == plain:
        assert asyncio.run(READER.parse_second(text)) == plain


def test_the_most_common_commands_are_plain():
    """RA-14."""
    texts = (
        "ls -la",
        "git log --oneline -n 20 HEAD~1^ | head -5",
        "rg -n 'foo|bar' \"a b\"'c'd",
        'ls missing 2>/dev/null || echo "Not found"; pwd',
        "make >/dev/null 2>&1",
    )
    for text in texts:
        assert parse_plain(text) == parse_with_tree_sitter(text) == asyncio.run(READER.parse_second(text))


@given(shellish)
def test_a_command_that_is_not_understood_is_never_allowed(text):
    """RA-14."""
    reading = UnparsedCommand("is unfit") if precheck_problem(text) else parse_with_tree_sitter(text)
    if isinstance(reading, UnparsedCommand):
        assert (
            decide_parsed(
                reading, DecisionContext(workspace=PLACE, allow=(Rule("shell", "a"), Rule("shell", "b")))
            ).decision
            != "allow"
        )


@given(st.lists(st.sampled_from(["..", ".", "a", ".git", ".GIT", ".ssh", "", "~"]), max_size=6).map("/".join))
def test_writing_a_path_is_never_allowed_and_protected_ones_never_ask(path):
    """RA-14."""
    request = permission_request(invocation_by_name("write_file", {"path": path}), PLACE)
    judged = asyncio.run(decide_call(request, RuleSet(), CallContext(workspace=PLACE), ShellCommandPolicy()))
    assert judged.decision != "allow"
    lasting = PLACE.reached(path, frozenset({"/w"}), tilde=path == "~" or path.startswith("~/"))
    if any(".git" in each.casefold().split("/") for each in lasting if path):
        assert judged.decision == "deny"
