import json

from scaffold.core.errors import UsageError
from scaffold.policy.rule.tool_rules import (
    PermissionRequest,
    PrefixPattern,
    RegexPattern,
    Rule,
    format_pattern,
    parse_pattern,
    parse_rule,
)
from support.errors import error_of


def writing(*paths):
    return PermissionRequest(tool="write_file", category="file_write", kind="path", subject=paths[0], paths=paths)


def other(tool, text):
    return PermissionRequest(tool=tool, category="mcp", kind="text", subject=text)


def page(url):
    return PermissionRequest(tool="web_fetch", category="network", kind="url", subject=url)


def test_a_rule_matches_a_tool_by_name_and_its_subject_by_pattern():
    """RA-13: `--allow "tool:pattern"`; an allow rule must match every path, a deny rule one."""
    rows = [
        ("write_file:docs/**", writing("docs/a/b.md"), True, True),
        ("write_file:docs/**", writing("docs/a.md", "src/a.py"), False, True),
        ("write_file:docs/**", writing("src/docs/a.md"), False, False),
        ("write_file:*", writing("a/b/c"), True, True),
        ("write_file:*", writing("/etc/passwd"), False, True),
        ("write_file:**/passwd", writing("/etc/passwd"), False, True),
        ("write_file:/etc/*", writing("/etc/passwd"), True, True),
        ("write_file:a?", writing("a1"), True, True),
        ("read_file:docs/**", writing("docs/a.md"), False, False),
        ("*:docs/**", writing("docs/a.md"), True, True),
        ("mcp_x_*:*", other("mcp_x_get", "{}"), True, True),
        ("mcp_x_get:*", other("mcp_y_get", "{}"), False, False),
        ('mcp_x_get:*"q":"a*', other("mcp_x_get", '{"q":"about"}'), True, True),
        ("shell:ls", PermissionRequest(tool="shell", category="shell", kind="command", subject="ls"), False, False),
        ("web_fetch:docs.example.org", page("https://docs.example.org/a"), True, True),
        ("web_fetch:docs.example.org", page("https://DOCS.example.org./a"), True, True),
        ("web_fetch:docs.example.org", page("https://docs.example.org.evil/a"), False, False),
        ("web_fetch:docs.example.org", page("https://docs.example.org@evil.example/"), False, False),
        ("web_fetch:docs.example.org", page("https://evil.example/docs.example.org"), False, False),
        ("web_fetch:docs.example.org", page("https://user@docs.example.org/"), False, True),
        ("web_fetch:d*cs.example.org", page("https://d\u03bfcs.example.org/"), False, True),
        ("web_fetch:*.example.org", page("https://a.b.example.org/"), True, True),
        ("web_fetch:*.example.org", page("https://example.org/"), False, False),
        ("web_fetch:https://docs.example.org/*", page("https://docs.example.org/a"), True, True),
        ("web_fetch:https://docs.example.org/*", page("http://docs.example.org/a"), False, False),
        ("web_fetch:https://docs.example.org/*", page("https://docs.example.org.evil/a"), False, False),
        ("web_fetch:docs.example.org/3/*", page("https://docs.example.org/3/x?y=1"), True, True),
        ("web_fetch:docs.example.org/3/*", page("https://docs.example.org/2/x"), False, False),
        ("web_fetch:docs.example.org", page("http://[bad/"), False, False),
    ]
    assert [
        (rule, call, allows, denies)
        for rule, call, allows, denies in rows
        if (parse_rule(rule).allows(call), parse_rule(rule).denies(call)) != (allows, denies)
    ] == []


def test_a_command_pattern_is_a_prefix_of_words_or_an_expression():
    """RA-14: an allowlist by parsed command and by regular expression."""
    expected = {
        "git status": PrefixPattern(("git", "status")),
        "git *": PrefixPattern(("git",)),
        "npm run *:dev": PrefixPattern(("npm", "run", "*:dev")),
        "git 'a b'": PrefixPattern(("git", "a b")),
        "echo 'a;b'": PrefixPattern(("echo", "a;b")),
        "*": PrefixPattern(()),
        "/make (test|lint)/": RegexPattern("make (test|lint)"),
        "/usr/bin/make": PrefixPattern(("/usr/bin/make",)),
        "/(/": None,
        "a && b": None,
        "a | b": None,
        "'open": None,
        "": None,
    }
    assert {pattern: parse_pattern(pattern) for pattern in expected} == expected


def test_quoted_words_of_a_pattern_match_only_literally():
    """RA-14."""
    for words in [("git", "commit"), ("a b", "*", "[x]", "?"), ("it's", "", "é", "/x/"), ("/a/",)]:
        found = parse_pattern(format_pattern(words))
        assert isinstance(found, PrefixPattern), words
        assert found.matches((*words, "more")), words
        assert not found.matches(("x", *words[1:])), words


def test_an_approval_is_bound_to_the_tool_and_all_its_arguments():
    """RA-13: different content has a different digest."""

    def digest(tool="write_file", **args):
        return PermissionRequest(
            tool=tool, category="file_write", kind="path", subject="a", args=json.dumps(args)
        ).digest

    digests = {
        digest(path="a", content="x"),
        digest(path="a", content="y"),
        digest("append_file", path="a", content="x"),
    }
    assert len(digests) == 3
    assert digest(path="\udce9") == digest(path="\udce9")


def test_a_rule_that_can_never_allow_anything_is_refused():
    texts = [
        *("", "shell", "shell:", ":git", "shell: ", "shell:a && b", "shell:'open", "shell:a\nb", "shell:*"),
        "shell:/(/",
    ]
    errors = {text: error_of(UsageError, parse_rule, text) for text in texts}
    assert [text for text, error in errors.items() if error is None or not error.fix] == []


def test_a_rule_is_formatted_as_it_was_written():
    assert str(parse_rule(" shell : git status ")) == "shell:git status"
    assert str(parse_rule("web_fetch:https://a/*")) == "web_fetch:https://a/*"


def test_only_a_deny_rule_may_cover_every_command():
    """RA-13."""
    assert parse_rule("shell:*", denies=True) == Rule("shell", "*")
