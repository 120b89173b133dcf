from inline_snapshot import snapshot

from scaffold.policy.shell.parse.command_parser import (
    MAX_COMMAND_BYTES,
    MAX_OPERATORS,
    agreed_result,
    parse_plain,
    precheck_problem,
)
from scaffold.policy.shell.parse.shfmt_parser import parse_shfmt_tree
from scaffold.policy.shell.parse.tree_sitter_parser import parse_with_tree_sitter
from scaffold.policy.shell.parsed_command import ParsedCommand, Redirect, SimpleCommand, UnparsedCommand, Word


def understood(*commands: str) -> ParsedCommand:
    return ParsedCommand(tuple(SimpleCommand(tuple(map(Word, command.split()))) for command in commands))


def test_a_command_two_parsers_disagree_on_is_not_understood():
    """RA-14."""
    first, others = understood("ls"), [understood("ls -a"), understood("ls", "ls"), understood("cat")]
    assert agreed_result(first, first) == first
    agreed = [agreed_result(first, second) for second in others]
    assert agreed == [UnparsedCommand(snapshot("is parsed differently by two parsers"), first.commands)] * 3
    assert agreed_result(first, UnparsedCommand("is odd")) == UnparsedCommand("is odd", first.commands)


def test_a_syntax_tree_that_omits_text_is_rejected():
    """RA-14: the grammar drops an escaped blank, bash does not."""
    found = [parse_with_tree_sitter(command) for command in (r"cat \ .env", "cat \\\t.env")]
    assert found == [UnparsedCommand(snapshot("contains text that the parser skips"))] * 2


def test_words_after_a_redirect_are_arguments():
    """RA-14: the grammar takes them for further targets."""
    redirect = Redirect(">", Word("a"), 10)
    assert parse_with_tree_sitter('cat 10>a "x" b') == ParsedCommand(
        (SimpleCommand((*map(Word, ("cat", "x", "b")),), (), (redirect,)),)
    )


def test_a_redirect_after_a_list_belongs_to_its_last_command():
    """RA-14: the grammar takes it for the whole list's."""
    null = Redirect(">", Word("/dev/null"), 2)
    assert parse_with_tree_sitter("cd a && ls 2>/dev/null") == ParsedCommand(
        (SimpleCommand((Word("cd"), Word("a"))), SimpleCommand((Word("ls"),), (), (null,), "&&"))
    )


def test_text_that_bash_expands_twice_is_not_understood():
    """RA-14: bash runs the substitution in `>&'x$(id)'` although it is quoted."""
    commands = [f"ls {sign}&{target}" for sign in "<>" for target in ("o", "'x$(id)'", '1"$"@', "$x", "1x")]
    assert [each for each in commands if not isinstance(parse_with_tree_sitter(each), UnparsedCommand)] == []
    assert isinstance(parse_with_tree_sitter("ls 2>&1 >&2 <&0"), ParsedCommand)


def test_a_command_that_is_not_understood_is_still_searched():
    """RA-14: deny rules apply to commands at any depth."""
    reading = parse_with_tree_sitter("if a; then b $(c) <(d); fi; e() { f; }; (g) | h `i` & for x in y; do j; done > k")
    assert isinstance(reading, UnparsedCommand)
    assert {simple.words[0].text for simple in reading.seen if simple.words} == set("abcdfghij")
    assert [simple.redirects[0].target.text for simple in reading.seen if simple.redirects] == ["k"]


def test_an_unexpected_syntax_tree_is_not_interpreted():
    """RA-14."""
    trees = [
        *(b"", b"\xff", b"[]", b"{}", b'{"Stmts": [{}]}', b'{"Stmts": [1]}'),
        b'{"Stmts": [{"Cmd": {"Type": "New"}}]}',
        b'{"Stmts": [], "Last": [{"Text": "x"}]}',
        b'{"Stmts": [{"Background": true, "Cmd": {"Type": "CallExpr"}}]}',
        b'{"Stmts": [{"Cmd": {"Type": "CallExpr", "Args": [{"Parts": [{"Type": "ParamExp"}]}]}}]}',
    ]
    found = [parse_shfmt_tree(tree) for tree in trees]
    assert {type(each) for each in found} == {UnparsedCommand}
    assert [each.reason for each in found] == snapshot(
        [
            "is not valid bash for the second parser",
            "is not valid bash for the second parser",
            "is not valid bash for the second parser",
            "runs nothing",
            "only redirects",
            "has an unknown form in the second parser",
            "has a part that is not a simple command (New)",
            "contains a comment",
            "is more than simple commands (background)",
            "has a word that is not literal (ParamExp)",
        ]
    )


def test_text_that_shells_and_people_read_differently_is_not_parsed():
    """RA-14."""
    rows = [
        ("", "is empty"),
        (" \n\t", "is empty"),
        ("ls\0", "contains a NUL"),
        ("ls\r", "contains a carriage return"),
        ("\vls", "contains a vertical tab"),
        ("ls \x1b[2K", "contains an escape"),
        ("ls\u00a0x", "(\\xa0, NO-BREAK SPACE)"),
        ("ls '\u202e'", "(\\u202e, RIGHT-TO-LEFT OVERRIDE)"),
        ("ls '\U000e0041'", "(\\U000e0041, TAG LATIN CAPITAL LETTER A)"),
        ("ls \udc80", "is not valid text"),
        ("l\\\ns", "in the middle of a word"),
        ("x" * (MAX_COMMAND_BYTES + 1), "is too long"),
        ("ls;" * (MAX_OPERATORS + 1), "operators that join or nest commands"),
    ]
    assert [(command, why) for command, why in rows if why not in (precheck_problem(command) or "")] == []


def test_ordinary_text_is_parsed():
    """RA-14."""
    assert [precheck_problem(text) for text in ("ls", "echo 'é 漢'", "ls \\\n -la", "a\tb\nc")] == [None] * 4


def test_an_ambiguous_command_is_not_plain():
    """RA-14."""
    commands = [
        *("ls *", "ls $x", "ls ~", "ls\\ x", "ls 'a", 'ls "$x"', 'ls "a`b`"', "ls #x", "ls & x", "ls |& x", "ls;"),
        *("ls ;; x", "ls 12>/dev/null", "ls1>/dev/null", "ls > x", "ls 2>&1x", "ls 3>&1", "time ls", "if x"),
        *(";ls", "a=b ls", "'ls'", "ls {a,b}", "ls\nx", "ls (x)", "! ls", "2>&1 ls", "ls a=~", "ls é", "", " "),
    ]  # fmt: skip
    assert [command for command in commands if parse_plain(command) is not None] == []
