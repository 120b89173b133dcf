"""`permissions check`: one command, or one request a line; each line is answered, whatever it contains."""

import json

import msgspec
import pytest
from click.testing import CliRunner, Result
from inline_snapshot import snapshot

from scaffold.cli.commands.setup.permissions import MAX_LINE_BYTES
from scaffold.cli.entry import load_command


@pytest.fixture
def check(home, tmp_path, monkeypatch):
    """The command in an empty folder, and its output."""
    folder = tmp_path / "w"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(*args: str, lines: list[object] | bytes = b"") -> Result:
        stdin = lines if isinstance(lines, bytes) else "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        return CliRunner().invoke(load_command("permissions"), ["check", *args], input=stdin, catch_exceptions=False)

    return run


def answers(result: Result) -> list[dict]:
    return [msgspec.json.decode(line) for line in result.output.splitlines()]


def decisions(result: Result) -> list[object]:
    return [(answer["id"], answer.get("decision")) for answer in answers(result)]


def test_a_command_is_decided_and_not_run(check, tmp_path):
    """RA-13."""
    assert check("--", "touch x").output == snapshot(
        "ask: `touch` is not known to be read-only, and no rule allows it [shell]\n"
    )
    assert check("--", "ls", "-la").output == "allow: `ls` only reads [read-only]\n"
    assert check("--", "cat", "a b", ".env").output.startswith("deny: .env contains secrets")
    assert check("--", "ls; rm x").output.startswith("ask"), "one word is a command line"
    assert check("--", "echo", "ls; rm x").output.startswith("allow"), "several words are arguments"
    assert check("--", "echo", "it's").output.startswith("allow")
    assert list((tmp_path / "w").iterdir()) == []


def test_each_line_is_decided_by_its_own_rules(check):
    """RA-13: no denials or rules of other lines count, and the folder need not exist."""
    denied = {"tool": "shell", "args": {"command": "cat .env"}, "cwd": "/w"}
    lines = [
        *[{"id": number, **denied} for number in range(6)],
        {"id": "rule", "tool": "shell", "args": {"command": "make test"}, "cwd": "/w", "allow": [["make", "test"]]},
        {"id": "none", "tool": "shell", "args": {"command": "make test"}, "cwd": "/w"},
        {"id": "deny", "tool": "shell", "args": {"command": "ls; make test"}, "deny": [["make"]]},
        {"id": "there", "tool": "shell", "args": {"command": "cat /nowhere/at/all/x"}, "cwd": "/nowhere/at/all"},
        {
            "id": "host",
            "tool": "web_fetch",
            "args": {"url": "https://docs.python.org/3"},
            "allow": [["docs.python.org"]],
        },
        {"id": "mcp", "tool": "mcp_docs_search", "args": {"q": "x"}, "allow": [["mcp_docs_search"]]},
        {"id": "secret", "tool": "mcp_docs_search", "args": {"q": ".env"}, "allow": [["mcp_docs_search"]]},
    ]
    assert decisions(check("--jsonl", lines=lines)) == [
        *[(number, "deny") for number in range(6)],
        ("rule", "allow"),
        ("none", "ask"),
        ("deny", "deny"),
        ("there", "allow"),
        ("host", "allow"),
        ("mcp", "allow"),
        ("secret", "deny"),
    ]


DECISIONS = [
    ("read_file", {"path": "src/a.py"}, "allow"),
    ("file_read", {"path": "/w/../../etc/shadow"}, "deny"),
    ("read_file", {"path": "/w-evil/secret"}, "ask"),
    ("read_file", {"path": ".env"}, "deny"),
    ("read_file", {}, "allow"),
    ("list_dir", {"path": "."}, "allow"),
    ("write_file", {"path": "src/a.py", "content": "x"}, "ask"),
    ("read_file", {"path": "a/" * 200_000}, "deny"),
    ("read_file", {"file": "~/.ssh/id_rsa"}, "deny"),
    ("glob", {"pattern": "/home/*/.ssh/*"}, "deny"),
    ("glob", {"pattern": "src/**/*.py"}, "allow"),
    ("search_files", {"pattern": r"\.env"}, "allow"),
    ("mcp_x_y", {"ids": [f"~/a{number}" for number in range(1_000)]}, "ask"),
    ("mcp_x_y", {"ids": [*(f"~/a{number}" for number in range(500)), "~/.ssh/x"]}, "deny"),
    ("write_file", {"path": "src/auth/a.py"}, "ask"),
    ("write_file", {"path": ".git/hooks/pre-commit"}, "deny"),
    ("apply_patch", {"path": "../../.bashrc"}, "deny"),
    ("web_fetch", {"url": "https://example.org/"}, "ask"),
    ("web_fetch", {"url": "http://169.254.169.254/"}, "deny"),
    ("web_fetch", {}, "ask"),
    ("web_search", {"query": "x"}, "ask"),
    ("python", {"code": "1"}, "ask"),
    ("TodoRead", {}, "allow"),
    ("mcp_fs_write", {"path": "~/.ssh/x"}, "deny"),
    ("mcp_fs_write", {"deep": [{"er": ["a", ".git/config"]}]}, "deny"),
    ("mcp_web_get", {"url": "http://169.254.169.254/latest/"}, "deny"),
    ("mcp_web_get", {"url": "http://localhost:3000/"}, "ask"),
    ("mcp_docs_search", {"q": "why is http://169.254.169.254/ blocked?"}, "ask"),
    ("mcp_fs_write", {"files": {".env": "A=1"}}, "deny"),
    ("mcp_docs_search", {"q": "x"}, "ask"),
    ("unheard_of", {"path": ".scaffold/settings.json"}, "deny"),
    ("unheard_of", {}, "ask"),
    ("powershell", {"command": "Get-ChildItem"}, "allow"),
    ("shell", {"command": "powershell: Get-Content x; Remove-Item y"}, "ask"),
    ("shell", {"command": "dir", "shell": "cmd"}, "allow"),
    ("cmd", {"command": "del x"}, "ask"),
    ("shell", {"command": 5}, "ask"),
    ("shell", {}, "ask"),
]


@pytest.mark.slow
def test_every_kind_of_tool_is_decided(check):
    """RA-13, RA-14."""
    lines = [{"id": at, "tool": tool, "args": args, "cwd": "/w"} for at, (tool, args, _) in enumerate(DECISIONS)]
    found = decisions(check("--jsonl", lines=lines))
    wrong = [(row, made) for row, made in zip(DECISIONS, found, strict=True) if row[2] != made[1]]
    assert wrong == []


def test_an_invalid_line_is_answered_with_an_error(check):
    """RA-13: never a crash, and the following lines are decided."""
    lines = [
        b"x",
        b"[]",
        b"{}",
        b"\xff",
        b'{"id": 7, "tool": 1}',
        b'{"id": {}, "tool": "shell"}',
        b'{"id": "\\ud800", "tool": null}',
        b'{"tool": "shell", "args": {"command": "ls"}, "allow": "ls"}',
        b'{"tool": "x", "args": ' + b'{"a":' * 50_000,
        b"x" * (MAX_LINE_BYTES + 5),
        b"",
        b'{"id": 8, "tool": "shell", "args": {"command": "ls"}}',
    ]
    found = answers(check("--jsonl", lines=b"\n".join(lines)))
    assert [("error" in answer, answer["id"]) for answer in found] == [
        *[(True, None)] * 4,
        (True, 7),
        (True, None),
        (True, "\\ud800"),
        *[(True, None)] * 3,
        (False, 8),
    ]


def test_a_line_with_deeply_nested_arguments_is_answered_with_an_error(check):
    """RA-13: and so is the next one."""
    for levels in (120, 900):
        deep = f'{{"id": 1, "tool": "mcp_x", "args": {{"data": {"[" * levels}{"]" * levels}}}}}\n'
        first, second = answers(check("--jsonl", lines=f'{deep}{{"id": 2, "tool": "shell", "args": {{}}}}'.encode()))
        assert (first["id"], "mcp_x" in first["error"], second["id"]) == (1, True, 2)


def test_unprintable_text_is_escaped(check):
    """RA-14."""
    lines = [
        b'{"id": "\\ud800", "tool": "shell", "args": {"command": "ls \\ud800"}}\n',
        b'{"id": 2, "tool": "write_file", "args": {"path": "a\\u001b[2K\\r/.git/x"}, "cwd": "/w"}\n',
        b'{"id": 3, "tool": "shell", "args": {"command": "ls"}, "cwd": "a\\u0000b\\ud800"}\n',
    ]
    first, second, third = answers(check("--jsonl", lines=b"".join(lines)))
    assert (first["id"], first["decision"]) == ("\\ud800", "ask")
    assert second["reason"] == snapshot("a\\x1b[2K\\r/.git/x is protected (.git): agents must not write it")
    assert third["decision"] == "allow"


def test_it_is_a_command_and_listed_in_the_help(scaffold, repository):
    """RA-13."""
    assert scaffold("permissions", "check", "--json", "--", "pwd").json == snapshot(
        {"id": None, "decision": "allow", "reason": "`pwd` only reads", "rule": "read-only"}
    )
    assert scaffold("ralph", "permissions", "check", "--", "touch x").out.startswith("ask: ")
    assert "permissions check" in scaffold("ralph", "--help").out
    assert "permissions" in scaffold("--help").out
    for wrong in (["permissions", "check"], ["permissions", "check", "--jsonl", "--", "ls"]):
        assert scaffold(*wrong).code == 64
    other = scaffold("config", "permissions", "check")
    assert (other.code, "`permissions`" in other.err) == (64, True), "only `ralph permissions` is `permissions`"


def test_the_current_repository_counts(scaffold, repository):
    """RA-14."""
    (repository / ".git" / "hooks").mkdir(exist_ok=True)
    (repository / ".git" / "hooks" / "post-index-change").write_text("")
    answer = scaffold("permissions", "check", "--json", "--", "git status").json
    assert (answer["decision"], answer["rule"]) == ("ask", "git:hook.post-index-change")


def test_user_and_project_add_areas_to_the_built_in_ones(repository, scaffold, check, home):
    """AL-18: a question about a change names them; built-in areas cannot be removed."""
    for name, value in (("globs", "billing/**"), ("words", "Invoice"), ("types", ".proto")):
        assert scaffold("config", f"areas.{name}", value, "--user").code == 0
    (repository / ".scaffold.yaml").write_text("areas:\n  words: [tariff]\n  globs: []\n")
    paths = ["billing/x", "invoices.py", "a.proto", "new_tariff.py", "auth/x", "src/x"]
    calls = [{"tool": "write_file", "args": {"path": path}, "cwd": str(repository)} for path in paths]
    found = [answer["reason"].partition("protected area ")[2] for answer in answers(check("--jsonl", lines=calls))]
    assert found == ["(billing/**)", "(invoice)", "(.proto)", "(tariff)", "(**/auth/**)", ""]


def test_an_area_that_can_match_no_path_is_refused(home, scaffold):
    """AL-18."""
    for name, value in (("globs", "/x"), ("globs", "../x"), ("words", "a b"), ("types", "proto")):
        answer = scaffold("config", f"areas.{name}", value)
        assert (answer.code, f"`{value}`" in answer.err) == (64, True)
