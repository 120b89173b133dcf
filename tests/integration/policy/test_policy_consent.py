import asyncio

import pytest

from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.clock import FakeClock
from scaffold.policy.consent import Gate, Question, wish_for
from scaffold.policy.gate import Rules
from scaffold.policy.rules import Wish, parse_rule
from scaffold.tools.arguments import object_schema


class Door:
    """Tools behind a gate: what ran, what was told, what was asked."""

    def __init__(self, root, *, answers=None, **rules):
        self.ran, self.told, self.asked = [], [], []
        self.clock = FakeClock()
        self.answers = list(answers or ())
        ask = None if answers is None else self._ask
        self.gate = Gate(Rules(**rules), root=root, clock=self.clock, tell=self.told.append, ask=ask)

    async def _ask(self, question):
        self.asked.append(question)
        await asyncio.sleep(0)
        return self.answers.pop(0)

    async def __call__(self, name, category, **args):
        async def run(args):
            self.ran.append((name, dict(args)))
            return ToolOutput("done")

        tool = Tool(name=name, description=name, schema=object_schema({}), category=category, run=run)
        return await self.gate.guard(tool).run(args)

    async def write(self, path):
        return await self("write_file", "file_write", path=path, content="x")

    async def shell(self, command):
        return await self("shell", "shell", command=command)

    @property
    def decided(self):
        return [(approval.decision, approval.rule) for approval in self.told]


async def test_where_nobody_can_be_asked_the_call_is_denied_and_the_model_told_what_would_allow_it(tmp_path):
    """RA-13: non-interactive denial."""
    door = Door(tmp_path)
    output = await door.write("a.py")
    assert output.failed
    assert output.content == (
        "Denied: write_file needs a human's consent (file_write), and nobody can be asked here. It would be allowed by "
        '`--allow "write_file:PATTERN"`, `--allow-category file_write` or `--yolo`. Go on without it, or say what you '
        "would have done."
    )
    assert door.ran == []
    [approval] = door.told
    assert (approval.tool, approval.category, approval.decision, approval.rule) == (
        "write_file",
        "file_write",
        "deny",
        "category",
    )


async def test_a_command_no_rule_can_allow_is_told_so(tmp_path):
    """RA-14: until shells are understood, rules are for plain commands."""
    output = await Door(tmp_path, allow=(parse_rule("shell:git *"),)).shell("git log | head")
    assert "No `--allow` rule allows commands with any of ; | & $ < > ( ) `" in output.content
    assert '`--allow "write_file:PATTERN"`' in (await Door(tmp_path).write("a;b")).content


async def test_what_is_allowed_beforehand_runs_without_a_word(tmp_path):
    """RA-13: what only follows the defaults or --yolo is not worth an entry; a rule is."""
    free = Door(tmp_path, yolo=True)
    await free.write("a.py")
    await free("read_file", "file_read", path="a.py")
    assert (len(free.ran), free.told) == (2, [])
    ruled = Door(tmp_path, allow=(parse_rule("shell:git status"),))
    await ruled.shell("git status")
    assert (len(ruled.ran), ruled.decided) == (1, [("allow", "shell:git status")])


async def test_a_human_decides_what_would_ask(tmp_path):
    """RA-13: prompt if interactive."""
    door = Door(tmp_path, answers=["allow", "deny"])
    assert not (await door.shell("make")).failed
    denied = await door.shell("make")
    assert denied.content.startswith("Denied: the user said no")
    assert door.asked == [Question(tool="shell", category="shell", subject="make")] * 2
    assert door.decided == [("allow", "human"), ("deny", "human")]
    assert len(door.ran) == 1


async def test_always_means_exactly_this_call_from_now_on(tmp_path):
    """RA-13: allow always."""
    door = Door(tmp_path, answers=["always", "deny"])
    await door.shell("make")
    await door.shell("make")
    await door.shell("make all")
    assert door.decided == [("allow", "human"), ("allow", "always"), ("deny", "human")]
    assert [args["command"] for _, args in door.ran] == ["make", "make"]


async def test_a_human_is_asked_one_thing_at_a_time(tmp_path):
    door = Door(tmp_path, answers=["always"], categories={"file_read": "ask"})
    async with asyncio.TaskGroup() as together:
        for _ in range(3):
            together.create_task(door("read_file", "file_read", path="a"))
    assert len(door.asked) == 1
    assert len(door.ran) == 3


async def test_after_three_denials_a_category_rests_and_others_do_not(tmp_path):
    """RA-14: 1 s doubling to 60 s, per category."""
    door = Door(tmp_path, allow=(parse_rule("shell:git *"), parse_rule("write_file:*")))
    for _ in range(3):
        await door.shell("rm x")
    assert "asks" not in door.told[-1].rule
    paused = await door.shell("git status")
    assert "denied too often; ask again in 1.0 s" in paused.content
    assert not (await door.write("a")).failed
    door.clock.advance(1.0)
    assert not (await door.shell("git status")).failed
    await door.shell("rm x")
    assert "in 2.0 s" in (await door.shell("git status")).content
    assert [rule for _, rule in door.decided] == [
        *("category", "category", "category", "pause", "write_file:*", "shell:git *", "category", "pause"),
    ]


@pytest.mark.parametrize("path", [".env", "a/../.env", "./sub/.git/config", "link", "folder/config", ".ENV"])
async def test_protected_files_stay_protected_however_they_are_named(tmp_path, path):
    """RA-13, RA-14: --yolo and rules do not lift it; paths are normalised, links followed."""
    (tmp_path / "link").symlink_to(".env")
    (tmp_path / ".git").mkdir()
    (tmp_path / "folder").symlink_to(".git")
    door = Door(tmp_path, yolo=True, allow=(parse_rule("write_file:**"),), categories={"file_write": "allow"})
    output = await door.write(path)
    assert output.failed
    assert "is protected" in output.content
    assert door.ran == []
    assert door.decided[0][1].startswith("protected:")


@pytest.mark.parametrize("command", ["echo x > .env", "rm -rf sub/../.git", "tee link", "cp a ~/.ssh/authorized_keys"])
async def test_commands_that_name_protected_files_as_targets_do_not_run(tmp_path, command):
    """RA-14: --yolo does not lift it."""
    (tmp_path / "link").symlink_to(".env")
    door = Door(tmp_path, yolo=True)
    assert "is protected" in (await door.shell(command)).content
    assert door.ran == []
    assert not (await door.shell("cat README .env.example > out")).failed


async def test_denials_of_protected_files_do_not_pause_the_category(tmp_path):
    door = Door(tmp_path, yolo=True)
    for _ in range(5):
        await door.write(".env")
    assert not (await door.write("a.py")).failed


async def test_a_rule_must_allow_what_a_link_leads_to(tmp_path):
    """RA-14."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "docs" / "link").symlink_to("../src/a.py")
    door = Door(tmp_path, allow=(parse_rule("write_file:docs/**"),))
    assert not (await door.write("docs/a.md")).failed
    assert (await door.write("docs/link")).failed
    assert (await door.write("docs/../src/a.py")).failed
    assert (await door.write("../docs/a.md")).failed


async def test_a_folder_of_an_odd_name_above_the_workspace_protects_nothing(tmp_path):
    root = tmp_path / ".scaffold" / "work"
    root.mkdir(parents=True)
    door = Door(root, yolo=True)
    assert not (await door.write("a.py")).failed
    assert not (await door.write(str(root / "b.py"))).failed
    assert (await door.write("../state.db")).failed


def test_paths_that_cannot_be_resolved_are_judged_as_they_are_named(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    tool = Tool(name="write_file", description="", schema=object_schema({}), category="file_write", run=None)
    assert "loop" in wish_for(tool, {"path": "loop"}, tmp_path).paths
    assert wish_for(tool, {"path": "a\0b"}, tmp_path).paths == ("a\0b",)
    assert wish_for(tool, {"other": 1}, tmp_path).subject == '{"other":1}'


def test_a_call_is_told_by_its_command_path_or_address(tmp_path):
    def subject(category, **args):
        tool = Tool(name="t", description="", schema=object_schema({}), category=category, run=None)
        wish = wish_for(tool, args, tmp_path)
        return (wish.kind, wish.subject)

    assert subject("shell", command="ls", timeout_s=3) == ("command", "ls")
    assert subject("file_read", path="a") == ("path", "a")
    assert subject("network", url="https://a/") == ("text", "https://a/")
    assert subject("shell", script="ls") == ("text", '{"script":"ls"}')
    assert subject("mcp", command="ls") == ("text", '{"command":"ls"}')
    assert subject("mcp", path="a", b=1) == ("text", '{"b":1,"path":"a"}')


async def test_a_subagent_that_is_denied_too_often_pauses_nobody_else(tmp_path):
    """RA-13: the pause after denials is for each agent."""
    door = Door(tmp_path)
    wish = Wish(tool="shell", category="shell", kind="command", subject="ls")
    rules = [(await door.gate.judge_for("sub-1", wish)).rule for _ in range(4)]
    assert rules == ["category", "category", "category", "pause"]
    assert (await door.gate.judge_for("sub-2", wish)).rule == "category"
    await door.shell("ls")
    assert [(approval.agent, approval.rule) for approval in door.told[-2:]] == [("sub-2", "category"), ("", "category")]
