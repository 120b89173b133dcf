import asyncio

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import HumanDecisionRequired
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.permission.approval_gate import ApprovalQuestion
from scaffold.policy.permission.call_request import ToolInvocation, permission_request
from scaffold.policy.rule.tool_rules import PermissionRequest, parse_rule
from scaffold.policy.shell.workspace_paths import DiskFileSystem, WorkspacePaths
from scaffold.tools.arguments import object_schema
from support.guarded_tools import GuardedTools


async def test_without_a_user_the_call_is_denied_with_what_would_allow_it(tmp_path):
    """RA-13: non-interactive denial."""
    tools = GuardedTools(tmp_path)
    output = await tools.write("a.py")
    assert output.failed
    assert output.content == snapshot(
        "Denied: write_file needs approval (file_write), and no user is available to approve it. It would be allowed "
        'by `--allow "file_write:a.py"`, `--allow-category file_write` or `--yolo`. Continue without it, or report '
        "what you would have done."
    )
    assert tools.ran == []
    [approval] = tools.approvals
    assert (approval.tool, approval.category, approval.decision, approval.rule) == (
        "write_file",
        "file_write",
        "deny",
        "category",
    )


async def test_a_denied_command_gets_the_reason_and_the_rule_that_would_allow_it(tmp_path):
    """RA-14: the pattern generator; for a command without a possible rule none is suggested."""
    output = await GuardedTools(tmp_path).shell("git commit -m x && git log -1 | head")
    assert output.content.startswith("Denied: `git`: `git commit` is not known to be read-only here, and no user is")
    assert '`--allow "shell:git commit"`' in output.content
    assert '`--allow "shell:PATTERN"`' in (await GuardedTools(tmp_path).shell("rm x > y")).content


@pytest.mark.parametrize("levels", [101, 900, 100_000])
async def test_a_call_with_deeply_nested_arguments_is_denied_with_the_reason(tmp_path, levels):
    """RA-13: what the policy cannot read is not run, whatever allows it; the next call is decided as always."""
    tools, deep = GuardedTools(tmp_path, yolo=True), []
    for _ in range(levels - 2):
        deep = [deep]
    for category in ["shell", "file_write", "plugin", "mcp"]:
        output = await tools("some_tool", category, data=deep, command="ls", path="a.py")
        assert output.failed, category
        assert output.content == snapshot("Denied: the arguments of some_tool are nested more than 100 levels deep.")
    assert tools.ran == []
    assert not (await tools.write("a.py")).failed


async def test_an_allowed_call_runs_silently(tmp_path):
    """RA-13: a call allowed by defaults or --yolo is not logged; one allowed by a rule is."""
    free = GuardedTools(tmp_path, yolo=True)
    await free.shell("ls -la")
    await free.write("a.py")
    await free("read_file", "file_read", path="a.py")
    assert (len(free.ran), free.approvals) == (3, [])
    ruled = GuardedTools(tmp_path, allow=(parse_rule("shell:git add"),))
    await ruled.shell("git add x")
    assert (len(ruled.ran), ruled.decided) == (1, [("allow", "shell:git add")])


async def test_a_human_decides_a_call_that_asks(tmp_path):
    """RA-13: prompt if interactive."""
    tools = GuardedTools(tmp_path, answers=["allow", "deny"])
    assert not (await tools.shell("make")).failed
    denied = await tools.shell("make")
    assert denied.content.startswith("Denied: the user denied it")
    asked = ApprovalQuestion(
        tool="shell",
        category="shell",
        subject="make",
        args='{"command":"make"}',
        digest="94a77c7e46edd1fa2bf1ae102f31348c6d912d71137e38df4a340e54f8f89dca",
        why=snapshot("`make` is not known to be read-only, and no rule allows it"),
    )
    assert tools.asked == [asked] * 2
    assert tools.decided == [("allow", "human"), ("deny", "human")]
    assert len(tools.ran) == 1


async def test_always_means_exactly_this_call_from_now_on(tmp_path):
    """RA-13: allow always."""
    tools = GuardedTools(tmp_path, answers=["always", "deny"])
    await tools.shell("make")
    await tools.shell("make")
    await tools.shell("make all")
    assert tools.decided == [("allow", "human"), ("allow", "always"), ("deny", "human")]
    assert [args["command"] for _, args in tools.ran] == ["make", "make"]


ALWAYS = [
    # asked about -> the rule, what it covers, and what it does not
    (
        "git commit -m x",
        "shell:git commit",
        ["git commit --amend", "ls && git commit"],
        ["git push", "git commit -F ../x"],
    ),
    ("npm run build", "shell:npm run build", ["npm run build"], ["npm run deploy", "npm install"]),
    ("pytest -q tests", "shell:pytest", ["pytest tests/a.py"], ["pytest -c evil.ini", "pytest ../x"]),
    ("python -m pytest", "shell:python -m pytest", ["python -m pytest -x"], ["python -m http.server"]),
    ("cargo test | tail -5", "shell:cargo test", ["cargo test -q"], ["cargo run"]),
    ("python x.py", "", ["python x.py"], ["python y.py", "python x.py 1"]),
    ("sudo make install", "", ["sudo make install"], ["sudo make install x", "make install"]),
    ("rm -rf build", "", ["rm -rf build"], ["rm -rf build src"]),
    ("make a && make b", "", ["make a && make b"], ["make a", "make b"]),
    ("python3 -m unittest tests.test_a", "shell:python3 -m unittest", ["python3 -m unittest -v b"], ["python3 -c 1"]),
    ("uv run python -m unittest", "shell:uv run python -m unittest", [], ["uv run python -c 1"]),
    ("CI=1 npm test", "shell:npm test", ["npm test -- a"], ["npm run evil", "PATH=. npm test"]),
    ("git push --force", "", ["git push --force"], ["git push", "git push --force x"]),
    ("echo $(date)", "", ["echo $(date)"], ["echo $(id)"]),
]


async def test_always_creates_the_rule_that_was_shown(tmp_path):
    """RA-13, RA-14: allow-always by first words; interpreters, wrappers and risky commands exactly as they were."""
    for command, rule, covered, not_covered in ALWAYS:
        tools = GuardedTools(tmp_path, answers=["always", *["deny"] * len(not_covered)])
        await tools.shell(command)
        assert [question.always for question in tools.asked] == [rule], command
        assert [again for again in covered if (await tools.shell(again)).failed] == []
        assert len(tools.asked) == 1, command
        for other in not_covered:
            tools.clock.advance(60.0)
            assert (await tools.shell(other)).failed, other


async def test_always_covers_every_change_of_this_file_or_this_host(tmp_path):
    """RA-13: who may change a file may change it by each of the tools that do so."""
    tools = GuardedTools(tmp_path, answers=["always", "deny", "always", "deny"])
    await tools.write("a[1].py")
    assert not (await tools.write("./a[1].py")).failed
    assert (await tools.write("a1.py")).failed
    assert not (await tools("append_file", "file_write", path="a[1].py", content="x")).failed
    await tools("web_fetch", "network", url="https://docs.example.org/a")
    assert not (await tools("web_fetch", "network", url="https://docs.example.org/b?c")).failed
    assert (await tools("web_fetch", "network", url="https://example.org/")).failed
    assert [question.always for question in tools.asked] == [
        "file_write:a[[]1].py",
        "file_write:a1.py",
        "web_fetch:docs.example.org",
        "web_fetch:example.org",
    ]


async def test_always_on_a_link_holds_only_while_its_target_is_the_same(tmp_path):
    """RA-14."""
    (tmp_path / "link").symlink_to("a.py")
    tools = GuardedTools(tmp_path, answers=["always", "deny"])
    await tools.write("link")
    assert not (await tools.write("link")).failed
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("b.py")
    assert (await tools.write("link")).failed


async def test_an_answer_also_settles_waiting_calls_that_it_allows(tmp_path):
    """RA-13: questions are open concurrently; a rule made by one answer settles the others, too."""
    given, shown, withdrawn = asyncio.Event(), [], []

    async def ask(question):
        shown.append(question.subject)
        if len(shown) == 3:
            given.set()
        if question.subject == "git commit -m a":
            await given.wait()
            return "always"
        try:
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            withdrawn.append(question.subject)
            raise

    tools = GuardedTools(tmp_path, asking=ask)
    async with asyncio.TaskGroup() as together:
        calls = [together.create_task(tools.shell(f"git commit -m {name}")) for name in "abc"]
    assert [call.result().failed for call in calls] == [False] * 3
    assert withdrawn == ["git commit -m b", "git commit -m c"]


async def test_a_call_that_needs_a_decision_elsewhere_raises_and_does_not_run(tmp_path):
    """RA-13, BX-13: the error reaches the session, and nothing has run."""
    heard = []

    async def refer(request, judged):
        heard.append((request.subject, request.digest, judged))
        raise HumanDecisionRequired("waits", "Approve it.", item="7")

    tools = GuardedTools(tmp_path, refer=refer)
    with pytest.raises(HumanDecisionRequired) as caught:
        await tools.shell("make")
    [(subject, digest, judged)] = heard
    assert (subject, len(digest), caught.value.item) == ("make", 64, "7")
    assert (judged.decision, judged.rule) == ("ask", "shell")
    assert tools.ran == []


async def test_in_a_read_only_mode_reading_continues(tmp_path):
    """RA-13: the current mode counts, whatever else allows more."""
    tools = GuardedTools(tmp_path, mode="plan", yolo=True)
    assert (await tools.write("a.py")).content.startswith("Denied: the mode plan allows no changes")
    assert (await tools.shell("touch x")).failed
    assert not (await tools.shell("ls | head -3")).failed
    for _ in range(4):
        await tools.write("a.py")
    tools.mode = "default"
    assert not (await tools.write("a.py")).failed
    assert [rule for _, rule in tools.decided] == ["mode:plan"] * 6


async def test_a_deny_rule_wins_over_every_other_and_causes_no_backoff(tmp_path):
    """RA-13, RA-14."""
    denies = [
        parse_rule(text, denies=True) for text in ("shell:git push", "shell:/make (deploy|release).*/", "*:no/**")
    ]
    tools = GuardedTools(tmp_path, yolo=True, allow=(parse_rule("shell:git push"),), deny=tuple(denies))
    denied = ["git push", "git -C . push origin", "ls; /usr/bin/git push", "sudo git push", "make deploy now"]
    for command in denied:
        assert (await tools.shell(command)).failed, command
    assert (await tools.write("no/x")).failed
    for command in ("git pull", "make test", "echo git push"):
        assert not (await tools.shell(command)).failed, command


async def test_every_command_can_be_denied(tmp_path):
    """RA-13."""
    tools = GuardedTools(tmp_path, yolo=True, deny=(parse_rule("shell:*", denies=True),))
    assert [(await tools.shell(command)).failed for command in ("ls", "$(x)", "a | b", "ls\u200b")] == [True] * 4


async def test_deny_rules_apply_to_unparsable_commands(tmp_path):
    """RA-14: --yolo lifts no denial if a text is too long, or contains invisible characters."""
    tools = GuardedTools(tmp_path, yolo=True)
    commands = [
        "echo x > .e\u200bnv",
        "cat ~/.ssh/id_rsa\u00a0",
        "echo 1\r; tee .bashrc",
        f"cat > a <<'E'\n{'x' * 9_000}\nE\necho y >> .git/hooks/pre-commit",
    ]
    for command in commands:
        assert (await tools.shell(command)).failed, command
    assert not (await tools.shell(f"cat > a <<'E'\n{'x' * 9_000}\nE")).failed


async def test_after_three_denials_a_category_backs_off_and_others_do_not(tmp_path):
    """RA-14: 1 s doubling to 60 s, per category; never for what a rule allows, and the reason stays visible."""
    tools = GuardedTools(tmp_path, allow=(parse_rule("shell:git *"),), answers=["deny"] * 3 + ["allow", "deny"])
    for _ in range(3):
        await tools.shell("rm x")
    paused = await tools.shell("make x")
    assert paused.content == snapshot(
        "Denied: `make` is not known to be read-only, and no rule allows it; shell was denied too often, try again in "
        "1.0 s."
    )
    assert not (await tools.shell("git add x")).failed
    assert not (await tools.write("a")).failed
    tools.clock.advance(1.0)
    await tools.shell("rm x")
    assert "in 2.0 s" in (await tools.shell("make x")).content
    assert not (await tools.shell("git add x")).failed
    assert [rule for _, rule in tools.decided] == [
        *("human", "human", "human", "pause", "shell:git *", "human", "human", "pause", "shell:git *")
    ]


async def test_protected_files_stay_protected_in_any_spelling(tmp_path):
    """RA-13, RA-14: --yolo and rules do not lift it; paths are normalised, links followed."""
    (tmp_path / "link").symlink_to(".env")
    (tmp_path / ".git").mkdir()
    (tmp_path / "folder").symlink_to(".git")
    tools = GuardedTools(tmp_path, yolo=True, allow=(parse_rule("write_file:**"),), categories={"file_write": "allow"})
    for path in [".env", "a/../.env", "./sub/.git/config", "link", "folder/config", ".ENV"]:
        assert (await tools.write(path)).failed, path
    assert tools.ran == []
    assert [rule.partition(":")[0] for _, rule in tools.decided] == ["protected"] * 6
    assert not (await tools.write("a.py")).failed, "such denials cause no backoff"


async def test_commands_with_protected_files_as_targets_do_not_run(tmp_path):
    """RA-14: --yolo does not lift it."""
    (tmp_path / "link").symlink_to(".env")
    tools = GuardedTools(tmp_path, yolo=True)
    for command in ["echo x > .env", "rm -rf sub/../.git", "tee link", "cp a ~/.ssh/authorized_keys"]:
        assert (await tools.shell(command)).failed, command
    assert tools.ran == []
    assert {rule.partition(":")[0] for _, rule in tools.decided} <= {"protected", "secret"}
    assert not (await tools.shell("cat README .env.example > out")).failed


async def test_a_rule_must_also_allow_the_target_of_a_link(tmp_path):
    """RA-14."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "docs" / "link").symlink_to("../src/a.py")
    tools = GuardedTools(tmp_path, allow=(parse_rule("write_file:docs/**"),))
    assert not (await tools.write("docs/a.md")).failed
    assert (await tools.write("docs/link")).failed
    assert (await tools.write("docs/../src/a.py")).failed
    assert (await tools.write("../docs/a.md")).failed


async def test_a_folder_with_an_unusual_name_above_the_workspace_protects_nothing(tmp_path):
    root = tmp_path / ".scaffold" / "work"
    root.mkdir(parents=True)
    tools = GuardedTools(root, yolo=True)
    assert not (await tools.write("a.py")).failed
    assert not (await tools.write(str(root / "b.py"))).failed
    assert (await tools.write("../state.db")).failed


def test_paths_that_cannot_be_resolved_are_decided_as_given(tmp_path):
    (tmp_path / "loop").symlink_to("loop")

    def request(**args):
        return permission_request(ToolInvocation(tool="write_file", category="file_write", args=args), at(tmp_path))

    assert "loop" in request(path="loop").paths
    assert request(path="a\0b").paths == ("a\0b",)
    assert request(other=1).subject == '{"other":1}'


def at(root):
    return WorkspacePaths(root=str(root), home="/home/u", files=DiskFileSystem())


def test_a_call_is_described_by_its_command_path_or_address(tmp_path):
    def subject(category, **args):
        request = permission_request(ToolInvocation(tool="t", category=category, args=args), at(tmp_path))
        return (request.kind, request.subject)

    assert subject("shell", command="ls", timeout_s=3) == ("command", "ls")
    assert subject("file_read", path="a") == ("path", "a")
    assert subject("network", url="https://a/") == ("url", "https://a/")
    assert subject("shell", script="ls") == ("text", '{"script":"ls"}')
    assert subject("mcp", command="ls") == ("text", '{"command":"ls"}')
    assert subject("mcp", path="a", b=1) == ("text", '{"b":1,"path":"a"}')


async def test_no_agent_writes_where_settings_plugins_and_logins_are(tmp_path, monkeypatch):
    """RA-13, RA-16: also if the workspace is the home, and with --yolo; by a link, neither."""
    monkeypatch.setenv("SCAFFOLD_HOME", str(tmp_path / "ours"))
    (tmp_path / "ours" / "config").mkdir(parents=True)
    (tmp_path / "link").symlink_to("ours/config")
    tools = GuardedTools(tmp_path, yolo=True)
    for path in ("ours/config/plugins/evil", "ours/data/user.db", "link/mcp.json", str(tmp_path / "ours/config/x")):
        assert "Scaffold's own" in (await tools.write(path)).content
    assert (await tools.write("ours/notes.txt")).content == "done"
    copied = await tools.shell("cp evil ours/config/plugins/")
    assert "Scaffold's own" in copied.content


async def test_denials_of_one_subagent_delay_no_other_agent(tmp_path):
    """RA-13: the backoff is per agent."""
    tools = GuardedTools(tmp_path)
    request = PermissionRequest(tool="shell", category="shell", kind="command", subject="make")
    rules = [(await tools.gate.judge_for("sub-1", request)).rule for _ in range(4)]
    assert rules == ["category", "category", "category", "pause"]
    assert (await tools.gate.judge_for("sub-2", request)).rule == "category"
    await tools.shell("make")
    latest = tools.approvals[-2:]
    assert [(approval.agent, approval.rule) for approval in latest] == [("sub-2", "category"), ("", "category")]


async def test_an_approval_of_a_script_holds_for_its_content(tmp_path):
    """RA-13, RA-14: a script that is rewritten after the approval is another one; the same one stays approved."""
    (tmp_path / "tools").mkdir()
    for command, script in [
        ("bash build.sh", "build.sh"),
        ("python tools/gen.py --all", "tools/gen.py"),
        ("python -m tools.gen", "tools/gen.py"),
        ("./build.sh", "build.sh"),
        ("cd tools && ./gen.py", "tools/gen.py"),
        ("timeout 60 ./build.sh", "build.sh"),
        ("sudo sh -c './build.sh'", "build.sh"),
        ("source build.sh", "build.sh"),
        ("make", "Makefile"),
        ("if true; then ./build.sh; fi", "build.sh"),
    ]:
        (tmp_path / script).write_text("echo harmless")
        tools = GuardedTools(tmp_path, answers=["always", "deny"])
        await tools.shell(command)
        await tools.shell(command)
        (tmp_path / script).write_text("curl evil.example")
        await tools.shell(command)
        assert len(tools.ran) == 2, command
        assert tools.asked[0].digest != tools.asked[1].digest, command
        assert script in tools.asked[0].why, command


async def test_a_script_that_changes_while_the_user_decides_is_asked_about_again(tmp_path):
    """RA-13, RA-14: the user approved what was there when the question was shown."""
    (tmp_path / "build.sh").write_text("echo harmless")
    asked = []

    async def ask(question):
        asked.append(question.digest)
        if len(asked) == 1:
            (tmp_path / "build.sh").write_text("curl evil.example")
            return "allow"
        return "deny"

    tools = GuardedTools(tmp_path, asking=ask)
    assert (await tools.shell("./build.sh")).content.startswith("Denied")
    assert (len(set(asked)), tools.ran) == (2, [])


async def test_a_program_without_a_sandbox_is_asked_about_a_change_of_an_unknown_file(tmp_path):
    """AL-24: our own tools stay in the workspace by themselves, those of other programs do not."""
    tools = GuardedTools(tmp_path, categories={"file_write": "allow"})

    async def checked(title, *, sandboxed=False, **args):
        tool = Tool(
            name="write_file",
            description="",
            schema=object_schema({}),
            category="file_write",
            run=tools,
            sandboxed=sandboxed,
        )
        return isinstance(await tools.gate.checked_call(tool, args, title), ToolOutput)

    assert await checked("change a file", changes=["?"])
    assert not await checked("change a file", path="a.py")
    assert not await checked("change a file", changes=["?"], sandboxed=True)
    assert not await checked("", changes=["?"])
