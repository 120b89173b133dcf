import pytest

from scaffold.core.errors import UsageProblem
from scaffold.policy.rules import Wish, parse_rule


def command(text, tool="shell"):
    return Wish(tool=tool, category="shell", kind="command", subject=text)


def writing(*paths):
    return Wish(tool="write_file", category="file_write", kind="path", subject=paths[0], paths=paths)


def other(tool, text):
    return Wish(tool=tool, category="mcp", kind="text", subject=text)


@pytest.mark.parametrize(
    ("rule", "wish", "fits"),
    [
        ("shell:git status", command("git status"), True),
        ("shell:git status", command("git status -s"), True),
        ("shell:git status", command("git  'status'"), True),
        ("shell:git status", command("git push"), False),
        ("shell:git status", command("git"), False),
        ("shell:git status", command("git statusx"), False),
        ("shell:git status", command("git status; rm x"), False),
        ("shell:git status", command(""), False),
        ("shell:git *", command("git push"), True),
        ("shell:*", command("rm x"), True),
        ("shell:*", command("rm x | y"), False),
        ("shell:pytest tests/*", command("pytest tests/a"), True),
        ("python:git status", command("git status"), False),
        ("*:;", command("ls"), False),
        ("*:git status", command("git status"), True),
        ("write_file:docs/**", writing("docs/a/b.md"), True),
        ("write_file:docs/**", writing("docs/a.md", "src/a.py"), False),
        ("write_file:docs/**", writing("src/docs/a.md"), False),
        ("write_file:*", writing("a/b/c"), True),
        ("write_file:*", writing("/etc/passwd"), True),
        ("write_file:a?", writing("a1"), True),
        ("read_file:docs/**", writing("docs/a.md"), False),
        ("mcp_x_*:*", other("mcp_x_get", "{}"), True),
        ("mcp_x_get:*", other("mcp_y_get", "{}"), False),
        ("web_fetch:https://docs.example.org/*", other("web_fetch", "https://docs.example.org/a"), True),
        ("web_fetch:https://docs.example.org/*", other("web_fetch", "https://docs.example.org.evil/a"), False),
    ],
)
def test_a_rule_fits_a_tool_by_name_and_its_subject_by_pattern(rule, wish, fits):
    """RA-13: `--allow "tool:pattern"`."""
    assert parse_rule(rule).fits(wish) is fits


@pytest.mark.parametrize(
    "text", ["", "shell", "shell:", ":git", "shell: ", "shell:a && b", "shell:'open", "shell:a\nb"]
)
def test_a_rule_that_could_never_allow_anything_is_refused(text):
    with pytest.raises(UsageProblem) as caught:
        parse_rule(text)
    assert caught.value.fix


def test_a_rule_reads_as_it_was_written():
    assert str(parse_rule(" shell : git status ")) == "shell:git status"
    assert str(parse_rule("web_fetch:https://a/*")) == "web_fetch:https://a/*"
