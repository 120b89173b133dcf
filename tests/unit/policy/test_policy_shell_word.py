import shlex

from scaffold.policy.shell.parse.unquoting import unquote_word
from scaffold.policy.shell.parsed_command import Word


def test_quotes_are_removed_as_bash_does():
    """RA-14."""
    rows = [
        ("a", "a"),
        ("'a b'", "a b"),
        ('"a b"', "a b"),
        ("a'b'\"c\"d", "abcd"),
        (r"a\ b", "a b"),
        (r"\(", "("),
        (r'"a\"b\\c\d"', 'a"b\\c\\d'),
        ("'a\\'", "a\\"),
        ('"foo$"', "foo$"),
        ("foo$", "foo$"),
        ('""', ""),
        ("HEAD~1", "HEAD~1"),
        ("stash@{0}", "stash@{0}"),
        ("a\\\nb", "ab"),
        ('"a\\\nb"', "ab"),
        ("'é'", "é"),
        ("a=b", "a=b"),
    ]
    assert [(source, text) for source, text in rows if unquote_word(source) != Word(text)] == []


def test_a_word_that_may_expand_is_not_literal():
    """RA-14."""
    sources = [
        *("", "$x", '"$x"', "`x`", '"`x`"', "$(x)", "$'x'", '$"x"', "${x}", "$((1))", "{a,b}", "a{b", "~u", "~+"),
        *("a=~/x", "a:~", "x>y", "a;b", "a|b", "a&b", "(x)", "'open", '"open', "open\\", "é", "a b", '"a', "@{a,b}"),
        *("a@{u}{b,c}", "{0}", "$#", "$$", "$!", "$-", "$1", '"$@"', "\\é", "@{1..3}"),
    ]  # fmt: skip
    assert [source for source in sources if unquote_word(source) is not None] == []


def test_a_tilde_and_a_glob_are_marked():
    """RA-14."""
    assert unquote_word("~/x") == Word("~/x", tilde=True)
    assert unquote_word("~") == Word("~", tilde=True)
    assert unquote_word("'~/x'") == Word("~/x")
    assert unquote_word("*.py") == Word("*.py", glob=True)
    assert unquote_word("'*.py'") == Word("*.py")
    assert unquote_word("[") == Word("[")
    assert not Word("*", glob=True).literal


def test_words_quoted_by_python_are_read_back():
    """RA-14."""
    for text in ("a", "a b", "it's", '"', "$x", "`", "\\", "*", "~", "a\nb", "", "é"):
        assert unquote_word(shlex.quote(text)) == Word(text)
