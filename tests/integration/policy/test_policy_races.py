"""The file system may change between approval and write: what was approved is written, or nothing."""

import pytest

from scaffold.policy.permission.approval_gate import ApprovalGate
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.tools.file.append import append_file
from scaffold.tools.file.edit_lines import apply_delta
from scaffold.tools.file.read_write import read_file, write_file
from scaffold.tools.search.search_files import search_files
from scaffold.tools.workspace import Workspace
from support.fake_clock import FakeClock

INSERT = [{"operation": "insert", "start_line": 1, "content": "evil"}]
WRITERS = {"write_file": (write_file, {"content": "evil"}), "append_file": (append_file, {"content": "evil"})}
WRITERS["apply_delta"] = (apply_delta, {"operations": INSERT})
TARGETS = {
    "a file outside": ("work/docs/a", "../../outside/a"),
    "a folder outside": ("work/docs", "../outside"),
    "the data of git": ("work/docs", ".git"),
    "a protected file": ("work/docs/a", "../.bashrc"),
    "a secret": ("work/docs/a", "../server.key"),
    "a protected folder": ("work/docs", ".scaffold"),
}


@pytest.fixture
def ground(tmp_path):
    """Files with the same text, some of them protected."""
    work = tmp_path / "work"
    for name in ("docs", ".git", ".scaffold"):
        (work / name).mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    for name in ("docs/a", ".git/a", ".scaffold/a", ".bashrc", "server.key", "../outside/a"):
        (work / name).write_text("dear\n")
    return work


def guarded(tool, work, ask):
    workspace = WorkspacePaths.on_disk(work, work.parent)
    tell = lambda approval: None  # noqa: E731 - a listener that ignores everything
    return ApprovalGate(
        RuleSet(), workspace=workspace, clock=FakeClock(), tell=tell, shell=ShellCommandPolicy, approver=ask
    ).guard(tool)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("writer", WRITERS)
async def test_a_link_swapped_in_while_the_question_is_open_leads_nowhere(ground, writer, target):
    """RA-14: the approval was for `docs/a`; the tool checks again, and writes by descriptor without following links."""
    make, args = WRITERS[writer]
    at, leads_to = TARGETS[target]

    async def ask(question):
        place = ground.parent / at
        place.rename(ground.parent / "was")
        place.symlink_to(leads_to)
        return "allow"

    output = await guarded(make(Workspace(ground, {})), ground, ask).run({"path": "docs/a", **args})
    assert output.failed
    texts = {path.read_text() for path in ground.parent.rglob("*") if path.is_file()}
    assert texts == {"dear\n"}


async def test_without_a_swap_the_approval_counts(ground):
    """RA-14: the same calls do write."""

    async def ask(question):
        return "allow"

    for make, args in WRITERS.values():
        workspace = Workspace(ground, {})
        await read_file(workspace).run({"path": "docs/a"})
        assert not (await guarded(make(workspace), ground, ask).run({"path": "docs/a", **args})).failed
    assert "evil" in (ground / "docs" / "a").read_text()


async def test_a_secret_is_neither_read_nor_found_nor_reached_by_a_link(ground):
    """RA-14: by the gate, and by the tools themselves if a link was swapped in after the check."""
    (ground / ".env").write_text("dear canary\n")
    (ground / "link").symlink_to(".env")
    workspace = Workspace(ground, {})
    for name in (".env", "link", "server.key", ".git/config", "docs/../.env"):
        said = await guarded(read_file(workspace), ground, None).run({"path": name})
        assert (said.failed, "contains secrets" in said.content) == (True, True), name
    assert (await read_file(workspace).run({"path": "link"})).failed
    found = await guarded(search_files(workspace), ground, None).run({"pattern": "dear"})
    assert "docs/a" in found.content
    assert ("canary" in found.content, ".env" in found.content, "server.key" in found.content) == (False,) * 3
    slow = await guarded(search_files(workspace), ground, None).run({"pattern": "d[e]+ar.*"})
    assert ("docs/a" in slow.content, "canary" in slow.content) == (True, False)
